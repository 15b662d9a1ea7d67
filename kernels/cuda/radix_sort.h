// radix_sort.h -- a stable sort of many words by some of their bits: CUB's, of the toolkit
#pragma once
#include "kernels/cuda/cuda.h"

namespace mt::cuda {

/// The bits that numbers below n need.
inline int bits_for(int64_t n) { return n > 1 ? 64 - __builtin_clzll(uint64_t(n - 1)) : 0; }

/// Sorts n words by their bits [from, to); equal ones stay in their order. The answer is in one of the
/// two arrays, which is returned; where there is no memory, which is noted, the first as it was.
uint64_t* radix_sort(const char* name, uint64_t* words, uint64_t* other, int64_t n, int from,
                     int to);

}  // namespace mt::cuda
