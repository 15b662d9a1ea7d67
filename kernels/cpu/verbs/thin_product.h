// thin_product.h -- a matrix product as an argument, and products of a large matrix by a few rows or columns
#pragma once
#include <cstdlib>
#include <memory>

#include "kernels/cpu/libraries/bf16_product.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/storage_types.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

using namespace simd;

// Arrays of vectors are kept in registers only if the loops over them are unrolled early.
#define MT_UNROLL _Pragma("GCC unroll 16")

/// to[i] = the sum of the elements of register i. N is a multiple of the elements of a lane.
template <class T, int N> MT_SIMD void store_sums(T* to, const Vector<T> (&registers)[N]) {
  constexpr int L = kLane<T>;
  MT_UNROLL for (int i = 0; i < N; i += L) {
    Vector<T> r[L];
    MT_UNROLL for (int l = 0; l < L; ++l) r[l] = registers[i + l];
    transpose_lanes(r);
    Vector<T> sum = add(r[0], r[1]);
    if constexpr (L == 4) sum = add(sum, add(r[2], r[3]));
    store_lane_sum(to + i, sum);
  }
}

/// Element (i, j) is at `at + i * row + j * col`.
template <class T> struct Mat {
  T* at;
  int64_t row, col;
  T* operator()(int64_t i, int64_t j) const { return at + i * row + j * col; }
  Mat from(int64_t i, int64_t j) const { return {(*this)(i, j), row, col}; }
  Mat transposed() const { return {at, col, row}; }
};

constexpr int64_t kThin = 12;  // the most rows or columns of a thin product
constexpr int64_t kDeep =
    256;  // the most rows of b in a panel: 2 columns of registers fill half of L1

/// The number of terms in each part, if k terms are split into equal parts of at most kDeep.
inline int64_t depth_of(int64_t k) {
  return k <= kDeep ? k : ceil_div(ceil_div(k, ceil_div(k, kDeep)), 8) * 8;
}

/// automatic: the fastest kernel, or OpenBLAS; own: outer_product (matmul.cpp); onednn: oneDNN, with sums as in `own`.
enum class GemmBackend { automatic, own, onednn };

template <class T> struct Product {
  int64_t m, n, k;
  Mat<const T> a, b;
  Mat<T> c;
  bool accumulate;
  int64_t depth;  // the number of terms of a chain of fma, in every backend that sums in chains
  GemmBackend backend = GemmBackend::automatic;
  bool* skipped = nullptr;  // set to true where OpenBLAS is needed and missing
  Mat<const T> bias = {};   // added to c: one stride is 0; null: none, also if `accumulate`
  bool pairs = false;       // Matmul::pairs
  double work() const { return double(m) * double(n) * double(k); }  // fused multiply-adds
  /// Whether each element is a sum of chains of fma, so that it is the same in any panel.
  bool in_chains() const { return backend != GemmBackend::automatic; }
  /// c^T = b^T . a^T: every kernel is written for rows of c, and computes columns through this.
  Product transposed() const {
    return {n,          m,     k,       b.transposed(), a.transposed(),    c.transposed(),
            accumulate, depth, backend, skipped,        bias.transposed(), pairs};
  }
};

// ---- products of few rows or columns, at the bandwidth of memory ---------------------------------

template <class T> constexpr int64_t kL1Elements = 32768 / int64_t(sizeof(T));

// ---- Few rows of c, b row-major: b is read sequentially, some rows at a time, and the sums of a panel of
// ---- columns stay in L1. Each sum is the same chain of fma as in outer_product.

template <class T> bool is_streamed(const Product<T>& q) {
  return q.m <= kThin && q.n >= 256 && q.k >= 64 && q.b.col == 1 &&
         double(q.n) * double(q.k) >= 1 << 17;
}

/// sums (M rows of `row` elements) += R columns of a, from p on, times R rows of b.
template <class T, int M, int R>
__attribute__((noinline)) void stream_rows(const Product<T>& q, int64_t p, int64_t j,
                                           int64_t columns, bool first, T* sums, int64_t row) {
  constexpr int W = kWidth<T>;
  T x[M][R];
  const T* b[R];
  MT_UNROLL for (int r = 0; r < R; ++r) {
    b[r] = q.b(p + r, j);
    MT_UNROLL for (int i = 0; i < M; ++i) x[i][r] = *q.a(i, p + r);
  }
  for (int64_t at = 0; at < columns; at += W) {
    const int rest = int(smaller<int64_t>(columns - at, W));
    Vector<T> y[R];
    MT_UNROLL for (int r = 0; r < R; ++r) y[r] =
        rest == W ? load(b[r] + at) : load_first(b[r] + at, rest);
    MT_UNROLL for (int i = 0; i < M; ++i) {
      Vector<T> sum = first ? broadcast(T(0)) : load(sums + i * row + at);
      MT_UNROLL for (int r = 0; r < R; ++r) sum = fma(broadcast(x[i][r]), y[r], sum);
      store(sums + i * row + at, sum);
    }
  }
}

template <class T, int M, int R> void stream(const Product<T>& q) {
  constexpr int W = kWidth<T>;
  constexpr int64_t room = kL1Elements<T> / M / W * W;
  alignas(64) T sums[M * room];
  for (int64_t j = 0; j < q.n; j += room) {
    const int64_t columns = smaller(q.n - j, room);
    for (int64_t from = 0; from < q.k; from += q.depth) {
      const int64_t to = smaller(from + q.depth, q.k);
      int64_t p = from;
      for (; p + R <= to; p += R) stream_rows<T, M, R>(q, p, j, columns, p == from, sums, room);
      for (; p < to; ++p) stream_rows<T, M, 1>(q, p, j, columns, p == from, sums, room);
      const bool more = q.accumulate || from > 0;
      for (int64_t i = 0; i < M; ++i) {
        const T* sum = sums + i * room;
        const Mat<T> c = q.c.from(i, j);
        for (int64_t at = 0; at < columns; ++at) *c(0, at) = more ? *c(0, at) + sum[at] : sum[at];
      }
    }
  }
}

/// Whether b is read one row at a time, in the order of memory: it is not in L2, and its rows are shorter than a page,
/// so that the processor prefetches only one of them (4096 x 256 on Zen 4: 10 to 29 GB/s).
template <class T> bool is_read_by_row(const Product<T>& q) {
  constexpr int64_t kPage = 4096 / sizeof(T), kL2 = (1 << 20) / sizeof(T);
  return q.m == 1 && q.b.row <= kPage && q.k * q.b.row > kL2;
}

template <class T, int M = 1> void streamed_product(const Product<T>& q) {
  if (is_read_by_row(q)) stream<T, 1, 1>(q);
  else if (q.m == M) stream<T, M, M == 1 ? 8 : 4>(q);
  else if constexpr (M < kThin) streamed_product<T, M + 1>(q);
}

// ---- Few columns of c, a row-major: dot products of rows of a with all columns of b, which are
// ---- packed in the order of use: one register of each column, then the next.

template <class T> bool is_thin(const Product<T>& q) {
  return q.n <= kThin && q.m >= 512 && q.k >= 4 * kWidth<T> && q.a.col == 1 &&
         double(q.m) * double(q.k) >= 1 << 17;
}

/// Whether the rows of a tile are far apart, so that the processor prefetches each of these parts of a as a stream. The
/// rows of smaller tiles are adjacent, and the next tile is prefetched by instructions.
constexpr bool is_spread(int rows) { return rows >= 4; }

/// Computes `times` tiles of M rows of c, from row i on, by N columns from j on; k terms from p on.
template <class T, int M, int N>
__attribute__((noinline)) void thin_tiles(const Product<T>& q, int64_t i, int64_t times, int64_t j,
                                          int64_t p, int64_t k, const T* packed) {
  constexpr int W = kWidth<T>, L = kLane<T>, N4 = (N + L - 1) / L * L;
  const int64_t step = is_spread(M) ? times : 1, row = q.a.row * step, full = k / W * W;
  const bool more = q.accumulate || p > 0;
#pragma GCC unroll 1
  for (; times > 0; --times, i += is_spread(M) ? 1 : M) {
    Vector<T> sum[M][N4];
    MT_UNROLL for (int r = 0; r < M; ++r) MT_UNROLL for (int n = 0; n < N4; ++n) sum[r][n] =
        broadcast(T(0));
    const T *a = q.a(i, p), *y = packed;
    for (int64_t at = 0; at < full; at += W, y += N * W) {
      Vector<T> x[M];
      MT_UNROLL for (int r = 0; r < M; ++r) {
        x[r] = load(a + r * row + at);
        if constexpr (!is_spread(M)) __builtin_prefetch(a + (M + r) * row + at);
      }
      MT_UNROLL for (int n = 0; n < N; ++n) {
        const Vector<T> column = load(y + n * W);
        MT_UNROLL for (int r = 0; r < M; ++r) sum[r][n] = fma(x[r], column, sum[r][n]);
      }
    }
    if (full < k) MT_UNROLL for (int r = 0; r < M; ++r) {
        const Vector<T> x = load_first(a + r * row + full, int(k - full));
        MT_UNROLL for (int n = 0; n < N; ++n) sum[r][n] = fma(x, load(y + n * W), sum[r][n]);
      }
    MT_UNROLL for (int r = 0; r < M; ++r) {
      T total[N4];
      store_sums(total, sum[r]);
      for (int n = 0; n < N; ++n) {
        T* c = q.c(i + r * step, j + n);
        *c = more ? *c + total[n] : total[n];
      }
    }
  }
}

/// The most columns of a tile, and its rows for a number of columns: the sums of a tile fit into the registers.
constexpr int kThinTile = sizeof(F32s) == 64 ? 12 : 6;
constexpr int thin_rows(int columns) {
  const int sums = sizeof(F32s) == 64 ? 24 : 12;
  return sums / columns < 8 ? sums / columns : 8;
}

/// Computes `columns` columns of c from j on; k terms from p on.
template <class T, int N = 1>
void thin_group(const Product<T>& q, int columns, int64_t j, int64_t p, int64_t k,
                const T* packed) {
  if (columns == N) {
    constexpr int M = thin_rows(N);
    const int64_t tiles = q.m / M;
    thin_tiles<T, M, N>(q, 0, tiles, j, p, k, packed);
    thin_tiles<T, 1, N>(q, tiles * M, q.m - tiles * M, j, p, k, packed);
  } else if constexpr (N < kThinTile) {
    thin_group<T, N + 1>(q, columns, j, p, k, packed);
  }
}

template <class T> void thin_product(const Product<T>& q) {
  constexpr int W = kWidth<T>;
  alignas(64) T packed[kL1Elements<T>];
  const int64_t groups = ceil_div(q.n, kThinTile);
  const int64_t most = kL1Elements<T> / ceil_div(q.n, groups) / W * W;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t j = q.n * g / groups, columns = q.n * (g + 1) / groups - j;
    for (int64_t p = 0; p < q.k; p += most) {
      const int64_t k = smaller(most, q.k - p);
      T* to = packed;
      for (int64_t at = 0; at < k; at += W)
        for (int64_t n = 0; n < columns; ++n, to += W) {
          const int rest = int(smaller<int64_t>(k - at, W));
          const Mat<const T> from = q.b.from(p + at, j + n);
          if (from.row == 1) store(to, load_first(from.at, rest));
          else
            for (int l = 0; l < W; ++l) to[l] = l < rest ? *from(l, 0) : T(0);
        }
      thin_group(q, int(columns), j, p, k, packed);
    }
  }
}

// ---- a large matrix of int8 or 16-bit floats, few rows or columns of float32 ---------------------

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

/// Copies `count` elements, fewer than W, of R rows that are `row` apart, to rows of W elements; the rest is 0.
template <int R, int W, class S> void copy_rest(const S* a, int64_t row, int64_t count, S* rest) {
  for (int r = 0; r < R; ++r)
    for (int64_t i = 0; i < W; ++i) rest[r * W + i] = i < count ? a[r * row + i] : S{};
}

/// C is the type in which terms are multiplied: float32, or pairs of bfloat16 on processors with AVX512-BF16.
template <class C> constexpr bool kPairs = sizeof(C) == 2;
template <class C, class S> MT_SIMD F32s load_terms(const S* p) {
  if constexpr (kPairs<C> || sizeof(S) == 4) return load(reinterpret_cast<const float*>(p));
  else return load_wide(p);
}
/// The most rows of a tile. In a full tile they are far apart, so that the processor prefetches each as a stream (768
/// terms of float32 on Zen 4: 22 instead of 11 GB/s; of bfloat16 on Zen 5, 2, 4 and 8 rows: 41, 43 and 36).
template <class C> constexpr int kTileRows = kPairs<C> ? 4 : 8;
template <class C> MT_SIMD F32s add_terms(F32s x, F32s y, F32s sum) {
  if constexpr (kPairs<C>) return add_dots(x, y, sum);
  else return fma(x, y, sum);
}

/// c = a . columns, or c += a . columns if `more`, for R rows of a and k terms of columns that are
/// `room` elements apart.
template <class S, class C, int R, int N>
__attribute__((noinline)) void converted_rows(const S* a, int64_t row, const C* columns,
                                              int64_t room, int64_t k, bool more,
                                              const Mat<float>& c) {
  constexpr int W = sizeof(F32s) / sizeof(C), L = kLane<float>, R4 = (R + L - 1) / L * L;
  Vector<float> sum[N][R4];
  MT_UNROLL for (int n = 0; n < N; ++n) MT_UNROLL for (int r = 0; r < R4; ++r) sum[n][r] =
      broadcast(0.0f);
  const auto add_all = [&](const S* from, int64_t step, int64_t at) {
    F32s x[R];
    MT_UNROLL for (int r = 0; r < R; ++r) x[r] = load_terms<C>(from + r * step);
    MT_UNROLL for (int n = 0; n < N; ++n) {
      const F32s y = load_terms<C>(columns + n * room + at);
      MT_UNROLL for (int r = 0; r < R; ++r) sum[n][r] = add_terms<C>(x[r], y, sum[n][r]);
    }
  };
  int64_t at = 0;
  for (; at + W <= k; at += W) {
    if constexpr (R < kTileRows<C>)
      MT_UNROLL for (int r = 0; r < R; ++r) __builtin_prefetch(a + (R + r) * row + at);
    add_all(a + at, row, at);
  }
  if (at < k) {
    S rest[R * W];
    copy_rest<R, W>(a + at, row, k - at, rest);
    add_all(rest, W, at);
  }
  MT_UNROLL for (int n = 0; n < N; ++n) {
    float total[R4];
    store_sums(total, sum[n]);
    for (int r = 0; r < R; ++r) *c(r, n) = more ? *c(r, n) + total[r] : total[r];
  }
}

/// m rows of a by n columns. A block of terms of all columns fits into L1.
template <class S, class C, int N = 1>
void converted_product(const S* a, int64_t row, const C* columns, int64_t room, int64_t m,
                       int64_t n, int64_t k, const Mat<float>& c) {
  if (n == N) {
    constexpr int kSums = sizeof(F32s) == 64 ? 24 : 12, most = kTileRows<C>,
                  R = kSums / N < most ? kSums / N : most;
    constexpr int64_t kBlock = 16384 / int64_t(sizeof(C)) / N / 32 * 32;
    for (int64_t p = 0; p < k; p += kBlock) {
      const int64_t terms = smaller(kBlock, k - p);
      const int64_t tiles = m / R, apart = R == most ? tiles : 1;
      const auto compute = [&](auto* rows, int64_t i) {
        const Mat<float> to{c(i, 0), c.row * apart, c.col};
        rows(a + i * row + p, row * apart, columns + p, room, terms, p > 0, to);
      };
      for (int64_t i = 0; i < tiles; ++i)
        compute(converted_rows<S, C, R, N>, R == most ? i : i * R);
      for (int64_t i = R * tiles; i < m; ++i) compute(converted_rows<S, C, 1, N>, i);
    }
  } else if constexpr (N < kThin) {
    converted_product<S, C, N + 1>(a, row, columns, room, m, n, k, c);
  }
}

/// For each i < n: the sums at sums[i * room] += R rows of b, `apart` elements apart, times the R numbers at
/// columns[i * depth], `step` elements apart. `first`: the sums begin at 0.
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

/// The same for all k rows of b, eight at a time that are far apart, so that the processor prefetches each part.
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

/// The small operand is copied to columns of C, padded with zeros; the rows or columns of the large one are
/// converted while they are read. R: the type of the result.
template <class S, class R = S, class C = float> bool thin_converted(const Matmul& call) {
  const bool by_columns = call.m < call.n;  // b is the large operand, and its columns are rows
  const int64_t rows = by_columns ? call.n : call.m, n = by_columns ? call.m : call.n, k = call.k,
                step = by_columns ? call.b_col : call.a_row,
                next = by_columns ? call.b_row : call.a_col,
                term = by_columns ? call.a_col : call.b_row,
                column = by_columns ? call.a_row : call.b_col, room = ceil_div(k, 32) * 32;
  const S* const large = static_cast<const S*>(by_columns ? call.b : call.a);
  const void* const small = by_columns ? call.a : call.b;
  const Mat<R> c{static_cast<R*>(call.c), by_columns ? call.c_col : call.c_row,
                 by_columns ? call.c_row : call.c_col};
  const R* const bias = static_cast<const R*>(call.bias);
  const std::unique_ptr<C, decltype(&std::free)> columns(
      static_cast<C*>(std::malloc(size_t(n * room) * sizeof(C))), std::free);
  if (!columns) return false;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t p = 0; p < room; ++p) {
      const int64_t at = p * term + j * column;
      C& to = columns.get()[j * room + p];
      if (p >= k) to = C{};
      else if constexpr (sizeof(S) == 1) to = static_cast<const float*>(small)[at];
      else to = C(static_cast<const S*>(small)[at]);
    }
  constexpr int64_t kRows = 128, kSums = 512 * kThinHalf;
  static_assert(kThinHalf <= kThin);
  const bool across = next != 1;  // the rows are the columns in memory
  const int64_t size = !across ? kRows : n < 8 ? 4096 / n / 16 * 16 : 512;
  parallel_chunks(rows, size, true, [&](int64_t i, int64_t to) {
    alignas(64) float sums[kSums];
    if (!across)
      converted_product(large + i * step, step, columns.get(), room, to - i, n, k, {sums, 1, size});
    else if constexpr (!kPairs<C>)
      sum_converted_rows(large + i, next, to - i, k, columns.get(), room, n, sums, size);
    for (int64_t j = 0; j < n; ++j) {
      float* const sum = sums + j * size;
      for (int64_t r = 0; bias && r < to - i; ++r) sum[r] += float(bias[by_columns ? i + r : j]);
      if (c.row == 1) cast_run<R, float>(c(i, j), sum, 0, to - i);
      else
        for (int64_t r = 0; r < to - i; ++r) *c(i + r, j) = R(sum[r]);
    }
  });
  return true;
}

bool thin_bf16(const Matmul& call) {
#ifdef __AVX512F__
  static const bool pairs = __builtin_cpu_supports("avx512bf16");
  const bool along_rows = (call.m < call.n ? call.b_row : call.a_col) == 1;
  if (pairs && along_rows) return thin_converted<Bfloat16, Bfloat16, Bfloat16>(call);
#endif
  return thin_converted<Bfloat16>(call);
}

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
