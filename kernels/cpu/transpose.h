// transpose.h -- a matrix written to memory as its transpose, in squares of cache lines
#pragma once
#include <cstdint>

#include "kernels/cpu/simd.h"
#include "kernels/interrupt.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// out[i, j] = in[j, i] for a square of cache lines. It goes through a buffer: where rows lie a
/// power of two apart, the lines of a square fall into one set of the cache and push each other out.
template <class T> void transpose_square(T* out, int64_t out_row, const T* in, int64_t in_row) {
  constexpr int line = 64 / int(sizeof(T));
  if constexpr (sizeof(T) < 4) {
    for (int i = 0; i < line; ++i)
      for (int j = 0; j < line; ++j) out[i * out_row + j] = in[j * in_row + i];
  } else {
    constexpr int width = simd::kWidth<T>, lane = simd::kLane<T>;
    alignas(64) T square[line * line];
    for (int j = 0; j < line; ++j) __builtin_memcpy(square + j * line, in + j * in_row, 64);
    for (int i = 0; i < line; i += lane)
      for (int j = 0; j < line; j += width) {
        simd::Vector<T> r[lane];
        for (int k = 0; k < lane; ++k)
          r[k] = simd::load_lanes(square + (j + k) * line + i, lane * line);
        simd::transpose_lanes(r);
        for (int k = 0; k < lane; ++k) simd::store(out + (i + k) * out_row + j, r[k]);
      }
  }
}

/// out[i, j] = in[j, i].
template <class T>
void transpose(T* out, int64_t out_row, const T* in, int64_t in_row, int64_t rows,
               int64_t columns) {
  constexpr int64_t line = 64 / int64_t(sizeof(T));
  for (int64_t j = 0; j < columns && !mt_interrupted; j += line)
    for (int64_t i = 0; i < rows; i += line) {
      T* to = out + i * out_row + j;
      const T* from = in + j * in_row + i;
      if (i + line <= rows && j + line <= columns) {
        transpose_square(to, out_row, from, in_row);
        continue;
      }
      const int64_t m = smaller(line, rows - i), n = smaller(line, columns - j);
      for (int64_t k = 0; k < m; ++k)
        for (int64_t l = 0; l < n; ++l)
          __builtin_memcpy(to + k * out_row + l, from + l * in_row + k, sizeof(T));
    }
}

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
