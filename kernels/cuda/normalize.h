// normalize.h -- the normalize verb on CUDA for few, long rows (normalize_split.cu)
#pragma once
#include "kernels/cuda/cuda.h"

namespace mt {
inline namespace MT_ISA {

/// a / b of non-negative numbers; uses 32 bits if they suffice.
__device__ inline int64_t divide(int64_t a, int64_t b) {
  return ((a | b) >> 32) == 0 ? int64_t(uint32_t(a) / uint32_t(b)) : a / b;
}

/// Normalizes with several blocks per row; does nothing and returns false for short or many rows.
bool normalize_split(const Normalize& c);

}  // namespace MT_ISA
}  // namespace mt
