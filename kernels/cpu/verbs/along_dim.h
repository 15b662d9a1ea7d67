// along_dim.h -- iteration over the lines of a tensor along one dimension
#pragma once
#include "kernels/cpu/simd/blocks.h"
#include "kernels/device.h"

namespace mt {
inline namespace MT_ISA {

inline int64_t in_at(const AlongDim& l, int64_t line) {
  return offset_of(line, l.ndim, l.size, l.in_stride);
}
inline int64_t out_at(const AlongDim& l, int64_t line) {
  return offset_of(line, l.ndim, l.size, l.out_stride);
}
/// Whether consecutive lines are adjacent in memory, element by element.
inline bool side_by_side(const AlongDim& l) {
  const int last = l.ndim - 1;
  return last >= 0 && l.in_stride[last] == 1 && l.out_stride[last] == 1 && l.size[last] >= 4 &&
         !(l.in_step == 1 && l.out_step == 1);
}
/// Calls `body(first line, n)` for groups of up to `most` lines of one row, in parallel.
void each_lines(const AlongDim& l, int64_t most, const auto& body) {
  const int64_t lines = count(l.ndim, l.size), row = l.ndim > 0 ? l.size[l.ndim - 1] : 1;
  const int64_t groups = ceil_div(row, most);
  parallel(lines / row * groups, lines * l.n > kGrain, [&](int64_t i) {
    const int64_t within = i % groups * most;
    body(i / groups * row + within, smaller(most, row - within));
  });
}

}  // namespace MT_ISA
}  // namespace mt
