// radix_sort.h -- a stable sort of many words by a range of their bits: CUB's, from the toolkit
#pragma once
#include "kernels/cuda/cuda.h"

namespace mt::cuda {

/// The number of bits of numbers below n.
inline int bits_for(int64_t n) { return n > 1 ? 64 - __builtin_clzll(uint64_t(n - 1)) : 0; }

/// Sorts n words by their bits [from, to); the sort is stable. Returns the array with the result,
/// `words` or `other`; if memory is exhausted, which is recorded, it returns `words` unchanged.
uint64_t* radix_sort(const char* name, uint64_t* words, uint64_t* other, int64_t n, int from,
                     int to);

}  // namespace mt::cuda
