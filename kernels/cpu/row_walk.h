// row_walk.h -- where operands of any strides are, position after position
#pragma once
#include "kernels/base.h"

namespace mt {
inline namespace MT_ISA {

/// Walks positions of some operands in row-major order without a division for each: `offset[k]` is
/// where operand k is.
template <int Operands> struct RowWalk {
  int ndim;
  const int64_t *size, *stride[Operands];
  int64_t at[kMaxDims], offset[Operands] = {};

  RowWalk(int64_t i, int dims, const int64_t* sizes, const int64_t* const (&strides)[Operands])
      : ndim(dims),
        size(sizes) {
    for (int k = 0; k < Operands; ++k) stride[k] = strides[k];
    for (int d = ndim - 1; d >= 0; i /= size[d--]) {
      at[d] = i % size[d];
      for (int k = 0; k < Operands; ++k) offset[k] += at[d] * stride[k][d];
    }
  }
  void next() {
    for (int d = ndim - 1; d >= 0; at[d--] = 0) {
      for (int k = 0; k < Operands; ++k) offset[k] += stride[k][d];
      if (++at[d] < size[d]) return;
      for (int k = 0; k < Operands; ++k) offset[k] -= at[d] * stride[k][d];
    }
  }
};

}  // namespace MT_ISA
}  // namespace mt
