// row_walk.h -- offsets of operands with any strides, position after position
#pragma once
#include "kernels/cpu/verbs/copy_bytes.h"

namespace mt {
inline namespace MT_ISA {

/// Iterates over positions of some operands in row-major order without a division for each:
/// `offset[k]` is the offset of operand k.
template <int Operands> struct RowWalk {
  int ndim, used;
  const int64_t *size, *stride[Operands];
  int64_t at[kMaxDims], offset[Operands] = {};

  RowWalk(int64_t i, int dims, const int64_t* sizes, const int64_t* const (&strides)[Operands],
          int operands = Operands)
      : ndim(dims),
        used(operands),
        size(sizes) {
    for (int k = 0; k < used; ++k) stride[k] = strides[k];
    for (int d = ndim - 1; d >= 0; i /= size[d--]) {
      at[d] = i % size[d];
      for (int k = 0; k < used; ++k) offset[k] += at[d] * stride[k][d];
    }
  }
  void next() {
    for (int d = ndim - 1; d >= 0; at[d--] = 0) {
      for (int k = 0; k < used; ++k) offset[k] += stride[k][d];
      if (++at[d] < size[d]) return;
      for (int k = 0; k < used; ++k) offset[k] -= at[d] * stride[k][d];
    }
  }
};

/// Copies `rows` short rows of n elements with strides `to` and `from`. `Fetches`: cache lines are
/// prefetched some distance before they are written, as in copy_bytes.
template <bool Fetches = false, class U>
inline void move_rows(U* out, int64_t out_step, int64_t to, const U* in, int64_t in_step,
                      int64_t from, int64_t rows, int64_t n) {
  const int64_t bytes = n * int64_t(sizeof(U));
  const auto each = [&](const auto& move) __attribute__((always_inline)) {
    for (int64_t r = 0; r < rows; ++r, out += out_step, in += in_step) {
      char* const row = reinterpret_cast<char*>(out);
      for (int64_t at = 0; Fetches && at < bytes; at += 64)
        __builtin_prefetch(row + 16 * out_step * int64_t(sizeof(U)) + at, 1);
      move(row, reinterpret_cast<const char*>(in));
    }
  };
  if (to == 1 && from == 1)
    return each([&](char* to_row, const char* row) { copy_few(to_row, row, bytes); });
  if (to == 1 && from == 0)
    return each([&](char* to_row, const char*) { fill_few(to_row, *in, bytes); });
  if (to == 1 && from == -1)
    return each([&](char* to_row, const char* last) {
      reverse_few<U>(to_row, last - (bytes - int64_t(sizeof(U))), bytes);
    });
  for (int64_t r = 0; r < rows; ++r, out += out_step, in += in_step)
    for (int64_t k = 0; k < n; ++k) out[k * to] = in[k * from];
}

/// Iterates over the rows [first, end) of operands of at least two dimensions, in groups of evenly spaced rows:
/// calls `run(the offsets of the group's first row, number of rows)`; the row stride is stride[ndim - 2].
template <int Operands>
void each_group(int64_t first, int64_t end, int ndim, const int64_t* size,
                const int64_t* const (&stride)[Operands], const auto& run) {
  const int across = ndim - 2;
  RowWalk<Operands> walk(first / size[across], across, size, stride);
  int64_t within = first % size[across];
  for (int64_t rows; first < end; first += rows, walk.next(), within = 0) {
    rows = end - first < size[across] - within ? end - first : size[across] - within;
    int64_t offset[Operands];
    for (int k = 0; k < Operands; ++k) offset[k] = walk.offset[k] + within * stride[k][across];
    run(offset, rows);
  }
}

}  // namespace MT_ISA
}  // namespace mt
