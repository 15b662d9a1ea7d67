// thin_product.h -- products of a large matrix by a few rows or columns, at the bandwidth of memory
#pragma once
#include "kernels/cpu/verbs/product.h"

namespace mt {
inline namespace MT_ISA {
namespace {

template <class T> constexpr int64_t kThinRoom = 32768 / int64_t(sizeof(T));  // in L1

// ---- Few rows of c, b row-major: b is read sequentially, some rows at a time, and the sums of all
// ---- columns stay in L1. Each sum is the chain of fma of the outer form.

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
  constexpr int64_t room = kThinRoom<T> / M / W * W;
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

/// Whether the rows of a tile are far apart: the processor then reads each part of a ahead, as one stream. Where these
/// are few, the rows are neighbours and the next tile is prefetched.
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

/// The columns of a tile, and the rows for N columns: as many sums as there are registers.
constexpr int kThinTile = sizeof(F32s) == 64 ? 12 : 6;
constexpr int thin_rows(int columns) {
  const int sums = sizeof(F32s) == 64 ? 24 : 12;
  return sums / columns < 8 ? sums / columns : 8;
}

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
  alignas(64) T packed[kThinRoom<T>];
  const int64_t groups = ceil_div(q.n, kThinTile);
  const int64_t most = kThinRoom<T> / ceil_div(q.n, groups) / W * W;
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

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
