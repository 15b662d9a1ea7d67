// transpose.h -- writes the transpose of a matrix, in squares of cache lines
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cpu/simd/simd.h"
#include "kernels/interrupt.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// Transposes rows of 16 bytes: each row of the upper half is interleaved with one of the lower
/// half, until all have been combined (element j of row i becomes element i of row j).
template <class V, int N, int... K>
void interleave_rows(V (&row)[N], std::integer_sequence<int, K...>) {
#pragma GCC unroll 4
  for (int combined = 1; combined < N; combined *= 2) {
    V mixed[N];
#pragma GCC unroll 8
    for (int i = 0; i < N / 2; ++i) {
      mixed[2 * i] = __builtin_shufflevector(row[i], row[i + N / 2], (K / 2 + K % 2 * N)...);
      mixed[2 * i + 1] =
          __builtin_shufflevector(row[i], row[i + N / 2], (N / 2 + K / 2 + K % 2 * N)...);
    }
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) row[i] = mixed[i];
  }
}

/// out[i, j] = in[j, i] for a square with sides of 16 bytes.
template <class T> void transpose_lane(T* out, int64_t out_row, const T* in, int64_t in_row) {
  constexpr int lane = 16 / int(sizeof(T));
  typedef T Lane __attribute__((vector_size(16)));
  Lane r[lane];
  for (int k = 0; k < lane; ++k) __builtin_memcpy(&r[k], in + k * in_row, sizeof r[k]);
  interleave_rows(r, std::make_integer_sequence<int, lane>{});
  for (int k = 0; k < lane; ++k) __builtin_memcpy(out + k * out_row, &r[k], sizeof r[k]);
}

/// out[i, j] = in[j, i] for a square of cache lines. It uses a buffer: if the row stride is a power
/// of two, the lines of a square map to one set of the cache and evict one another.
template <class T> void transpose_square(T* out, int64_t out_row, const T* in, int64_t in_row) {
  constexpr int line = 64 / int(sizeof(T));
  alignas(64) T square[line * line];
  for (int j = 0; j < line; ++j) __builtin_memcpy(square + j * line, in + j * in_row, 64);
  if constexpr (sizeof(T) < 4) {
    constexpr int lane = 16 / int(sizeof(T));
    for (int i = 0; i < line; i += lane)
      for (int j = 0; j < line; j += lane)
        transpose_lane(out + i * out_row + j, out_row, square + j * line + i, line);
  } else {
    constexpr int width = simd::kWidth<T>, lane = simd::kLane<T>;
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

/// out[i, j] = in[j, i] for less than a square of cache lines; the last rows and columns are written twice.
template <class T>
void transpose_rest(T* out, int64_t out_row, const T* in, int64_t in_row, int64_t rows,
                    int64_t columns) {
  constexpr int64_t lane = 16 / int64_t(sizeof(T));
  if (rows < lane || columns < lane) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        __builtin_memcpy(out + i * out_row + j, in + j * in_row + i, sizeof(T));
    return;
  }
  for (int64_t at = 0; at < columns; at += lane)
    for (int64_t first = 0; first < rows; first += lane) {
      const int64_t i = smaller(first, rows - lane), j = smaller(at, columns - lane);
      transpose_lane(out + i * out_row + j, out_row, in + j * in_row + i, in_row);
    }
}

/// What a transposition prefetches if `input` is set: the next square of its input, whose rows are
/// on different pages, and the same positions of a matrix that is written afterwards.
struct Prefetch {
  bool input = false;
  const char* at = nullptr;
  int64_t row = 0, item = 0;  // bytes

  /// For a square with sides of `line` elements at [i, j]. Always inlined: GCC removes calls of a
  /// function that only prefetches.
  MT_SIMD void square(int64_t line, const void* from, int64_t from_row, int64_t i,
                      int64_t j) const {
    for (int64_t k = 0; k < line; ++k) {
      __builtin_prefetch(static_cast<const char*>(from) + k * from_row);
      for (int64_t b = 0; b < line * item; b += 64)
        __builtin_prefetch(at + (i + k) * row + j * item + b, 1);
    }
  }
};

/// out[i, j] = in[j, i].
template <class T>
void transpose(T* out, int64_t out_row, const T* in, int64_t in_row, int64_t rows, int64_t columns,
               const Prefetch& next = {}) {
  constexpr int64_t line = 64 / int64_t(sizeof(T));
  for (int64_t j = 0; j < columns && !mt_interrupted; j += line)
    for (int64_t i = 0; i < rows; i += line) {
      T* to = out + i * out_row + j;
      const T* from = in + j * in_row + i;
      if (i + line > rows || j + line > columns) {
        transpose_rest(to, out_row, from, in_row, smaller(line, rows - i),
                       smaller(line, columns - j));
        continue;
      }
      if (next.input) next.square(line, from + line * in_row, in_row * int64_t(sizeof(T)), i, j);
      transpose_square(to, out_row, from, in_row);
    }
}
/// Transposes elements of `item` bytes.
inline void transpose_items(char* out, int64_t out_row, const char* in, int64_t in_row,
                            int64_t rows, int64_t columns, int64_t item, const Prefetch& next) {
  const auto go = [&](auto* to) {
    const auto* from = reinterpret_cast<const std::remove_pointer_t<decltype(to)>*>(in);
    transpose(to, out_row, from, in_row, rows, columns, next);
  };
  if (item == 4) go(reinterpret_cast<float*>(out));
  else if (item == 8) go(reinterpret_cast<double*>(out));
  else if (item == 2) go(reinterpret_cast<uint16_t*>(out));
  else go(reinterpret_cast<uint8_t*>(out));
}

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
