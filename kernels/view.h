// view.h -- iterating over strided data: merging dimensions and computing the offset of element i
#pragma once
#include "kernels/base.h"

namespace mt {
inline namespace MT_ISA {

template <class T> MT_HD constexpr T smaller(T x, T y) { return y < x ? y : x; }
MT_HD constexpr int64_t larger(int64_t x, int64_t y) { return x < y ? y : x; }
/// x / y rounded up, for x >= 0 and y > 0.
MT_HD constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// The product of the sizes.
MT_HD int64_t count(int ndim, const int64_t* size) {
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) n *= size[d];
  return n;
}

/// Drops dimensions of size 1 and merges adjacent ones that are contiguous in all operands; returns
/// the new number of dimensions. `stride[k]` are operand k's strides; arrays change in place.
template <int Operands>
MT_HD int collapse(int ndim, int64_t* size, int64_t* const (&stride)[Operands],
                   int operands = Operands) {
  int last = -1;  // the dimension that grows
  for (int d = 0; d < ndim; ++d) {
    if (size[d] == 1) continue;
    bool merge = last >= 0;
    for (int k = 0; k < operands && merge; ++k) merge = stride[k][last] == stride[k][d] * size[d];
    if (merge) {
      size[last] *= size[d];
    } else {
      size[++last] = size[d];
    }
    for (int k = 0; k < operands; ++k) stride[k][last] = stride[k][d];
  }
  return last + 1;
}

/// The offset of the i-th element, counting in row-major order.
MT_HD int64_t offset_of(int64_t i, int ndim, const int64_t* size, const int64_t* stride) {
  int64_t offset = 0;
  for (int d = ndim - 1; d > 0; --d) {
    int64_t rest = i / size[d];
    offset += (i - rest * size[d]) * stride[d];
    i = rest;
  }
  return ndim > 0 ? offset + i * stride[0] : offset;
}

}  // namespace MT_ISA
}  // namespace mt
