// conv_tile.h -- the register tile of a convolution, which accumulates over the taps
#pragma once
#include "kernels/cpu/verbs/conv_layout.h"

namespace mt {
inline namespace MT_ISA {
namespace {

using namespace simd;

// Arrays of vectors are kept in registers only if the loops over them are unrolled early.
#define MT_UNROLL _Pragma("GCC unroll 16")

/// R rows of the result by V registers of columns: `steps.each(a, b, f)` multiplies elements of a, one
/// per row, by registers of b. Tail: the only register has `last` valid columns. `bias` may be null.
template <class T, class Steps, int R, int V, bool Tail>
__attribute__((noinline)) void tile(const Steps& steps, const T* a, int64_t a_row, const T* b,
                                    const T* bias, T* to, int64_t to_row, bool add_to, int last) {
  constexpr int W = kWidth<T>;
  Vector<T> sum[R][V];
  MT_UNROLL for (int r = 0; r < R; ++r) {
    const Vector<T> start = broadcast(bias ? bias[r] : T(0));
    MT_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = start;
  }
  steps.each(
      a, b, [&](const T* x, const T* y) __attribute__((always_inline)) {
        Vector<T> in[V];
        MT_UNROLL for (int v = 0; v < V; ++v) in[v] =
            Tail ? load_first(y + v * W, last) : load(y + v * W);
        MT_UNROLL for (int r = 0; r < R; ++r) {
          const Vector<T> scale = broadcast(x[r * a_row]);
          MT_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = fma(scale, in[v], sum[r][v]);
        }
      });
  MT_UNROLL for (int r = 0; r < R; ++r) MT_UNROLL for (int v = 0; v < V; ++v) {
    T* at = to + r * to_row + v * W;
    store(at, add_to ? add(sum[r][v], load(at)) : sum[r][v]);
  }
}

template <class T, class Steps>
using Tile = void (*)(const Steps&, const T*, int64_t, const T*, const T*, T*, int64_t, bool, int);

/// The tile function for `rows` <= R rows and registers_for(rows) registers of columns.
template <class T, class Steps, int R, int (*registers_for)(int), bool Tail = false>
Tile<T, Steps> tile_for(int64_t rows) {
  if constexpr (R > 1)
    if (rows < R) return tile_for<T, Steps, R - 1, registers_for, Tail>(rows);
  return tile<T, Steps, R, registers_for(R), Tail>;
}
template <int V> constexpr int always(int) { return V; }

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
