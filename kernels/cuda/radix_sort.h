// radix_sort.h -- a stable sort of many words by some of their bits: CUB's, of the toolkit
#pragma once
#include "kernels/cuda/cuda.h"

namespace mt::cuda {

/// From how many words on it is better than the own kernels, which small tests do not reach.
#ifdef __CUDACC__
constexpr int64_t kRadixSort = 65536;
#else
constexpr int64_t kRadixSort = 1500;
#endif

/// Sorts n words by their bits [from, to); equal ones stay in their order. The answer is in one of the
/// two arrays, which is returned; where there is no memory, which is noted, the first as it was.
uint64_t* radix_sort(const char* name, uint64_t* words, uint64_t* other, int64_t n, int from, int to);

}  // namespace mt::cuda
