// grid_sums.h -- sums of products over the counter of a loop, with the lanes' sums in registers
#pragma once
#include "kernels/cpu/simd/simd.h"

namespace mt {
inline namespace MT_ISA {

/// One factor: at[k * by] for all lanes, or at[k * by + lane].
template <class R> struct GridFactor {
  const R* at;
  int64_t by;
  bool lanes;
};

constexpr int kVectorBytes = int(sizeof(simd::F32s));

/// Lanes as compiler vectors of kBytes, kVectors of them.
template <class R, int kBytes, int kVectors, bool X, bool Y>
inline void sum_lanes(R* sum, GridFactor<R> x, GridFactor<R> y, int64_t from, int64_t count) {
  constexpr int kWidth = kBytes / int(sizeof(R));
  typedef R Vector __attribute__((vector_size(kBytes)));
  Vector s[kVectors];
  for (int v = 0; v < kVectors; ++v) __builtin_memcpy(&s[v], sum + from + v * kWidth, kBytes);
  const R *p = x.at + (X ? from : 0), *q = y.at + (Y ? from : 0);
  for (int64_t k = 0; k < count; ++k, p += x.by, q += y.by)
    for (int v = 0; v < kVectors; ++v) {
      Vector a, b;
      if constexpr (X) __builtin_memcpy(&a, p + v * kWidth, kBytes);
      else a = Vector{} + *p;
      if constexpr (Y) __builtin_memcpy(&b, q + v * kWidth, kBytes);
      else b = Vector{} + *q;
      s[v] = s[v] + a * b;
    }
  for (int v = 0; v < kVectors; ++v) __builtin_memcpy(sum + from + v * kWidth, &s[v], kBytes);
}

template <class R, bool X, bool Y>
inline void sum_row(R* sum, GridFactor<R> x, GridFactor<R> y, int64_t from, int64_t to,
                    int64_t count) {
  constexpr int kWidth = kVectorBytes / int(sizeof(R));
  for (; to - from >= 8 * kWidth; from += 8 * kWidth)
    sum_lanes<R, kVectorBytes, 8, X, Y>(sum, x, y, from, count);
  for (; to - from >= kWidth; from += kWidth)
    sum_lanes<R, kVectorBytes, 1, X, Y>(sum, x, y, from, count);
  if constexpr (kVectorBytes > 32)
    if (constexpr int half = 32 / int(sizeof(R)); to - from >= half)
      sum_lanes<R, 32, 1, X, Y>(sum, x, y, from, count), from += half;
  if constexpr (kVectorBytes > 16)
    if (constexpr int quarter = 16 / int(sizeof(R)); to - from >= quarter)
      sum_lanes<R, 16, 1, X, Y>(sum, x, y, from, count), from += quarter;
  constexpr int kOne = sizeof(R);
  if (to - from == 3) sum_lanes<R, kOne, 3, X, Y>(sum, x, y, from, count);
  if (to - from == 2) sum_lanes<R, kOne, 2, X, Y>(sum, x, y, from, count);
  if (to - from == 1) sum_lanes<R, kOne, 1, X, Y>(sum, x, y, from, count);
}

/// sum[l] = sum[l] + x * y for k = 0 .. count - 1, in this order, for the lanes from .. to - 1.
template <class R>
void sum_products(R* sum, GridFactor<R> x, GridFactor<R> y, int64_t from, int64_t to,
                  int64_t count) {
  if (x.lanes && y.lanes) sum_row<R, true, true>(sum, x, y, from, to, count);
  else if (x.lanes) sum_row<R, true, false>(sum, x, y, from, to, count);
  else if (y.lanes) sum_row<R, false, true>(sum, x, y, from, to, count);
  else sum_row<R, false, false>(sum, x, y, from, to, count);
}

}  // namespace MT_ISA
}  // namespace mt
