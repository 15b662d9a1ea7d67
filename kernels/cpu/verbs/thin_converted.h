// thin_converted.h -- products of a large matrix of int8 or 16-bit floats by a few rows or columns of float32
#pragma once
#include "kernels/cpu/simd/storage_types.h"
#include "kernels/cpu/verbs/product.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// A register of float32 from contiguous elements of another type.
template <class S> MT_SIMD F32s load_wide(const S* p) {
#if defined(__AVX2__)
  if constexpr (sizeof(S) == 1) {
    __m128i v = _mm_setzero_si128();
    __builtin_memcpy(&v, p, kWidth<float>);
    return MT_MM(cvtepi32_ps)(MT_MM(cvtepi8_epi32)(v));
  } else {
    F16s v;
    __builtin_memcpy(&v, p, 2 * kWidth<float>);
    if constexpr (std::is_same_v<S, Float16>) return MT_MM(cvtph_ps)(v);
    else return F32s(MT_MM(slli_epi32)(MT_MM(cvtepu16_epi32)(v), 16));
  }
#else
  float wide[kWidth<float>];
  for (int i = 0; i < kWidth<float>; ++i) wide[i] = float(p[i]);
  return load(wide);
#endif
}

/// Fewer than W elements of R rows, `row` elements apart, with zeros after them: rows of W.
template <int R, int W, class S> void copy_rest(const S* a, int64_t row, int64_t count, S* rest) {
  for (int r = 0; r < R; ++r)
    for (int64_t i = 0; i < W; ++i) rest[r * W + i] = i < count ? a[r * row + i] : S{};
}

/// c = a . columns, or c += a . columns if `more`, for R rows of a and k terms of columns that are
/// `room` elements apart.
template <class S, int R, int N>
__attribute__((noinline)) void converted_rows(const S* a, int64_t row, const float* columns,
                                              int64_t room, int64_t k, bool more,
                                              const Mat<float>& c) {
  constexpr int W = kWidth<float>, L = kLane<float>, R4 = (R + L - 1) / L * L;
  Vector<float> sum[N][R4];
  MT_UNROLL for (int n = 0; n < N; ++n) MT_UNROLL for (int r = 0; r < R4; ++r) sum[n][r] =
      broadcast(0.0f);
  const auto add_terms = [&](const S* from, int64_t step, int64_t at) {
    Vector<float> x[R];
    MT_UNROLL for (int r = 0; r < R; ++r) x[r] = load_wide(from + r * step);
    MT_UNROLL for (int n = 0; n < N; ++n) {
      const Vector<float> y = load(columns + n * room + at);
      MT_UNROLL for (int r = 0; r < R; ++r) sum[n][r] = fma(x[r], y, sum[n][r]);
    }
  };
  int64_t at = 0;
  for (; at + W <= k; at += W) {
    if constexpr (R < 8)
      MT_UNROLL for (int r = 0; r < R; ++r) __builtin_prefetch(a + (R + r) * row + at);
    add_terms(a + at, row, at);
  }
  if (at < k) {
    S rest[R * W];
    copy_rest<R, W>(a + at, row, k - at, rest);
    add_terms(rest, W, at);
  }
  MT_UNROLL for (int n = 0; n < N; ++n) {
    float total[R4];
    store_sums(total, sum[n]);
    for (int r = 0; r < R; ++r) *c(r, n) = more ? *c(r, n) + total[r] : total[r];
  }
}

/// m rows of a by n columns. A block of terms of all columns fits into L1. Eight rows that are computed together are
/// far apart: the processor reads each part of a ahead, as one stream (768 terms on Zen 4: 11 to 22 GB/s).
template <class S, int N = 1>
void converted_product(const S* a, int64_t row, const float* columns, int64_t room, int64_t m,
                       int64_t n, int64_t k, const Mat<float>& c) {
  if (n == N) {
    constexpr int kSums = sizeof(F32s) == 64 ? 24 : 12, R = kSums / N < 8 ? kSums / N : 8;
    constexpr int64_t kBlock = 4096 / N / 16 * 16;
    for (int64_t p = 0; p < k; p += kBlock) {
      const int64_t terms = smaller(kBlock, k - p);
      const int64_t tiles = m / R, apart = R == 8 ? tiles : 1;
      const auto compute = [&](auto* rows, int64_t i) {
        const Mat<float> to{c(i, 0), c.row * apart, c.col};
        rows(a + i * row + p, row * apart, columns + p, room, terms, p > 0, to);
      };
      for (int64_t i = 0; i < tiles; ++i) compute(converted_rows<S, R, N>, R == 8 ? i : i * R);
      for (int64_t i = R * tiles; i < m; ++i) compute(converted_rows<S, 1, N>, i);
    }
  } else if constexpr (N < kThin) {
    converted_product<S, N + 1>(a, row, columns, room, m, n, k, c);
  }
}

/// n rows of sums, `room` elements apart, += R rows of b, `apart` elements apart, times their terms: those of sum i are
/// at columns[i * depth], `step` apart.
template <class S, int R>
__attribute__((noinline)) void add_converted_rows(const S* b, int64_t apart, int64_t count,
                                                  const float* columns, int64_t depth, int64_t step,
                                                  int64_t n, bool first, float* sums,
                                                  int64_t room) {
  constexpr int W = kWidth<float>;
  const auto add_columns = [&](const S* from, int64_t row, int64_t at) {
    Vector<float> y[R];
    MT_UNROLL for (int r = 0; r < R; ++r) y[r] = load_wide(from + r * row);
    for (int64_t i = 0; i < n; ++i) {
      float* const to = sums + i * room + at;
      Vector<float> sum = first ? broadcast(0.0f) : load(to);
      MT_UNROLL for (int r = 0; r < R; ++r) sum =
          fma(broadcast(columns[i * depth + r * step]), y[r], sum);
      store(to, sum);
    }
  };
  int64_t at = 0;
  for (; at + W <= count; at += W) add_columns(b + at, apart, at);
  if (at == count) return;
  S rest[R * W];
  copy_rest<R, W>(b + at, apart, count - at, rest);
  add_columns(rest, W, at);
}

/// The same for all k rows of b, eight that are far apart at a time: the processor reads each part ahead.
template <class S>
void sum_converted_rows(const S* b, int64_t row, int64_t count, int64_t k, const float* columns,
                        int64_t depth, int64_t n, float* sums, int64_t room) {
  constexpr int R = 8;
  const int64_t tiles = k / R;
  for (int64_t p = 0; p < tiles; ++p)
    add_converted_rows<S, R>(b + p * row, tiles * row, count, columns + p, depth, tiles, n, p == 0,
                             sums, room);
  for (int64_t p = R * tiles; p < k; ++p)
    add_converted_rows<S, 1>(b + p * row, 0, count, columns + p, depth, 0, n, p == 0, sums, room);
}

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
