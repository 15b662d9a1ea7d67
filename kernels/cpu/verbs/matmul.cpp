// matmul.cpp -- the matrix product on CPUs: our kernels up to some size, then oneDNN or OpenBLAS

#include <omp.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>

#include "kernels/cpu/libraries/bf16_product.h"
#include "kernels/cpu/libraries/onednn.h"
#include "kernels/cpu/libraries/openblas.h"
#include "kernels/cpu/pool/counters.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/simd/storage_types.h"
#include "kernels/cpu/verbs/thin_product.h"
#include "kernels/math/number.h"

namespace mt {
inline namespace MT_ISA {
namespace {

// ---- The outer form: a tile of c stays in registers while k rows of b are read, each one scaled
// ---- by one element of a per row of the tile. It loads M + V values for M * V multiply-adds.

/// What the tiles of one panel of columns have in common. The rows of b are contiguous; a has any
/// strides, because its elements are broadcast. The last register of columns has `last` valid ones.
template <class T> struct Panel {
  int64_t k;
  Mat<const T> a;
  const T* b;
  int64_t b_row;
  Mat<T> c;
  int last;
  const T* old;     // what is added to the sums: rows of c, or a bias; null: nothing
  int64_t old_row;  // 0 for a bias, which only a c with contiguous columns may have
};

/// c (+)= tile, for a c whose columns are not contiguous.
template <class T>
__attribute__((noinline)) void scatter(const T* tile, int64_t tile_row, int64_t m, int64_t n,
                                       Mat<T> c, bool accumulate) {
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < m; ++i)
      *c(i, j) = accumulate ? *c(i, j) + tile[i * tile_row + j] : tile[i * tile_row + j];
}

/// Computes `times` tiles of M rows and V registers of columns. Tail: the last register is partial.
template <class T, int M, int V, bool Tail, bool Pairs>
__attribute__((noinline)) void outer_tile(const Panel<T>& t, int64_t i, int64_t times) {
  constexpr int W = kWidth<T>;
  const int last = t.last;
#pragma GCC unroll 1
  for (; times > 0; --times, i += M) {
    Vector<T> sum[M][V];
    MT_UNROLL for (int r = 0; r < M; ++r) MT_UNROLL for (int v = 0; v < V; ++v) sum[r][v] =
        broadcast(T(0));
    const T *a = t.a(i, 0), *b = t.b;
    const int64_t a_row = t.a.row, a_col = t.a.col, b_row = t.b_row;
    for (int64_t p = t.k; p > 0; --p, a += a_col, b += b_row) {
      Vector<T> y[V];
      MT_UNROLL for (int v = 0; v < V; ++v) y[v] =
          Tail && v == V - 1 ? load_first(b + v * W, last) : load(b + v * W);
      MT_UNROLL for (int r = 0; r < M; ++r) {
        const Vector<T> x = broadcast(a[r * a_row]);
        MT_UNROLL for (int v = 0; v < V; ++v) {
          if constexpr (Pairs) sum[r][v] = add_dots(x, y[v], sum[r][v]);
          else sum[r][v] = fma(x, y[v], sum[r][v]);
        }
      }
    }
    if (t.c.col != 1) {
      T tile[M * V * W];
      MT_UNROLL for (int r = 0; r < M; ++r) MT_UNROLL for (int v = 0; v < V; ++v)
          store(tile + (r * V + v) * W, sum[r][v]);
      scatter(tile, V * W, M, (V - 1) * W + last, t.c.from(i, 0), t.old != nullptr);
      continue;
    }
    const int64_t c_row = t.c.row;
    T* c = t.c(i, 0);
    if (t.old) {
      MT_UNROLL for (int r = 0; r < M; ++r) MT_UNROLL for (int v = 0; v < V; ++v) {
        const T* old = t.old + (i + r) * t.old_row + v * W;
        sum[r][v] = add(sum[r][v], Tail && v == V - 1 ? load_first(old, last) : load(old));
      }
    }
    MT_UNROLL for (int r = 0; r < M; ++r) MT_UNROLL for (int v = 0; v < V; ++v) {
      T* to = c + r * c_row + v * W;
      if (Tail && v == V - 1) store_first(to, sum[r][v], last);
      else store(to, sum[r][v]);
    }
  }
}

/// Computes `times` tiles of `rows` <= M rows from row i on.
template <class T, int M, int V, bool Tail, bool Pairs>
void outer_tiles(const Panel<T>& t, int64_t rows, int64_t i, int64_t times) {
  if (rows == M) outer_tile<T, M, V, Tail, Pairs>(t, i, times);
  else if constexpr (M > 1) outer_tiles<T, M - 1, V, Tail, Pairs>(t, rows, i, times);
}

/// Splits a panel into tiles of nearly equal size: fewer than 8 sums cannot hide the latency of
/// fma. 16 registers hold a tile of 6 x 2 with 2 of b and 1 of a, the 32 of AVX-512 one of 12 x 2.
template <class T, int V, bool Tail, bool Pairs> void outer_panel(const Panel<T>& t, int64_t m) {
  constexpr int most = V > 4 ? 1 : V > 2 ? 3 : sizeof(F32s) == 64 ? 12 : 6;
  const int64_t tiles = ceil_div(m, most), rows = m / tiles, larger = m % tiles;
  if (larger > 0) outer_tiles<T, most, V, Tail, Pairs>(t, rows + 1, 0, larger);
  outer_tiles<T, most, V, Tail, Pairs>(t, rows, larger * (rows + 1), tiles - larger);
}

/// Copies k x n elements of b, which has any strides, to contiguous rows.
template <class T> void pack(int64_t k, int64_t n, Mat<const T> b, T* to, int64_t to_row) {
  constexpr int W = kWidth<T>, L = kLane<T>;
  if (b.col == 1 && n % W == 0) {
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; j += W) store(to + p * to_row + j, load(b(p, j)));
    return;
  }
  const int64_t full_k = b.row == 1 ? k / L * L : 0, full_n = n / W * W;
  for (int64_t j = 0; j < full_n; j += W)
    for (int64_t p = 0; p < full_k; p += L) {
      Vector<T> r[L];
      MT_UNROLL for (int i = 0; i < L; ++i) r[i] = load_lanes(b(p, j + i), L * b.col);
      transpose_lanes(r);
      MT_UNROLL for (int i = 0; i < L; ++i) store(to + (p + i) * to_row + j, r[i]);
    }
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = p < full_k ? full_n : 0; j < n; ++j) to[p * to_row + j] = *b(p, j);
}

/// Packing a contiguous b pays if the panel, read in place, would be spread over too many cache
/// lines and is used often enough: +10 % at 64 x 784 x 128, x 2 at 512 x 512 x 512.
template <class T> bool packs(const Product<T>& q) {
  const bool spread = q.b.row * int64_t(sizeof(T)) > 128;
  return q.b.col != 1 || (spread && q.m >= 32 && q.k >= 128);
}

/// The same sum without a bias: c is filled with it, and accumulates.
template <class T> Product<T> filled(const Product<T>& q) {
  if (!q.bias.at) return q;
  Product<T> to = q;
  to.accumulate = true, to.bias = {};
  for (int64_t i = 0; i < q.m; ++i)
    if (q.bias.col == 1 && q.c.col == 1)
      std::memcpy(q.c(i, 0), q.bias(i, 0), size_t(q.n) * sizeof(T));
    else
      for (int64_t j = 0; j < q.n; ++j) *q.c(i, j) = *q.bias(i, j);
  return to;
}

template <class T, bool Pairs = false> void outer_product(const Product<T>& product) {
  const bool adds = product.bias.col == 1 && product.c.col == 1;
  const Product<T> q = adds ? product : filled(product);
  constexpr int W = kWidth<T>;
  const bool packing = packs(q);
  alignas(64) T packed[kDeep * 2 * W];
  int64_t p = 0;
  do {
    Panel<T> t;
    t.k = smaller(q.k - p, q.depth);
    t.a = q.a.from(0, p);
    const bool more = q.accumulate || p > 0;
    for (int64_t j = 0, columns; j < q.n; j += columns) {
      const int64_t left = q.n - j;
      int v = left > W ? 2 : 1;  // few rows leave registers for more columns
      if (!Pairs && !packing && q.m <= 3 && left >= 4 * W) v = q.m == 1 && left >= 8 * W ? 8 : 4;
      columns = smaller<int64_t>(left, v * W);
      t.last = int(columns - (v - 1) * W);
      t.c = q.c.from(0, j);
      t.old = more ? t.c.at : q.bias.at ? q.bias(0, j) : nullptr;
      t.old_row = more ? t.c.row : 0;
      t.b = q.b(p, j), t.b_row = q.b.row;
      if (packing) {
        // A narrow panel is packed with the columns before it, so that all registers are full.
        const int64_t before = q.n < v * W ? 0 : v * W - columns;
        pack(t.k, before + columns, q.b.from(p, j - before), packed, v * W);
        t.b = packed + before, t.b_row = v * W;
      }
      if constexpr (!Pairs) {
        if (v == 8) outer_panel<T, 8, false, false>(t, q.m);
        if (v == 4) outer_panel<T, 4, false, false>(t, q.m);
      }
      if (v == 2 && t.last == W) outer_panel<T, 2, false, Pairs>(t, q.m);
      if (v == 2 && t.last < W) outer_panel<T, 2, true, Pairs>(t, q.m);
      if (v == 1 && t.last == W) outer_panel<T, 1, false, Pairs>(t, q.m);
      if (v == 1 && t.last < W) outer_panel<T, 1, true, Pairs>(t, q.m);
    }
    p += t.k;
  } while (p < q.k && !mt_interrupted);
}

// ---- The inner form: rows of a and columns of b are contiguous, each element of c a dot product.
// ---- It needs no packing, but fetches M + N registers for M * N multiply-adds, and ends in a sum
// ---- across each register.

/// Computes M x N elements of c. Only the first n columns exist; the others repeat the last one.
template <class T, int M, int N>
__attribute__((noinline)) void inner_tile(int64_t k, int64_t n, Mat<const T> a, Mat<const T> b,
                                          Mat<T> c, bool accumulate) {
  constexpr int W = kWidth<T>;
  const T* column[N];
  Vector<T> sum[M][N];
  MT_UNROLL for (int j = 0; j < N; ++j) {
    column[j] = b(0, smaller<int64_t>(j, n - 1));
    MT_UNROLL for (int i = 0; i < M; ++i) sum[i][j] = broadcast(T(0));
  }
  for (int64_t p = 0; p < k; p += W) {
    const int rest = int(smaller<int64_t>(k - p, W));
    const auto get = [=](const T* of) {
      return rest == W ? load(of + p) : load_first(of + p, rest);
    };
    Vector<T> x[M];
    MT_UNROLL for (int i = 0; i < M; ++i) x[i] = get(a(i, 0));
    MT_UNROLL for (int j = 0; j < N; ++j) {
      const Vector<T> y = get(column[j]);
      MT_UNROLL for (int i = 0; i < M; ++i) sum[i][j] = fma(x[i], y, sum[i][j]);
    }
  }
  MT_UNROLL for (int i = 0; i < M; ++i) {
    T total[N];
    store_sums(total, sum[i]);
#pragma GCC unroll 1
    for (int64_t j = 0; j < n; ++j) *c(i, j) = accumulate ? *c(i, j) + total[j] : total[j];
  }
}

/// Computes one element: four accumulators hide the latency of fma.
template <class T> void dot_product(const Product<T>& q) {
  constexpr int W = kWidth<T>, L = kLane<T>, N = 4;
  const T *a = q.a.at, *b = q.b.at;
  Vector<T> sum[N];
  MT_UNROLL for (int n = 0; n < N; ++n) sum[n] = broadcast(T(0));
  int64_t p = 0;
  for (; p + N * W <= q.k; p += N * W)
    MT_UNROLL for (int n = 0; n < N; ++n) sum[n] =
        fma(load(a + p + n * W), load(b + p + n * W), sum[n]);
  for (; p < q.k; p += W) {
    const int rest = int(smaller<int64_t>(q.k - p, W));
    sum[0] = fma(load_first(a + p, rest), load_first(b + p, rest), sum[0]);
  }
  Vector<T> r[L] = {add(add(sum[0], sum[1]), add(sum[2], sum[3]))};
  MT_UNROLL for (int l = 1; l < L; ++l) r[l] = broadcast(T(0));
  T total[L];
  store_sums(total, r);
  *q.c.at = q.accumulate ? *q.c.at + total[0] : total[0];
}

template <class T> void inner_product(const Product<T>& q) {
  if (q.m == 1 && q.n == 1) return dot_product(q);
  for (int64_t i = 0, rows; i < q.m; i += rows) {
    rows = smaller<int64_t>(q.m - i, 2);
    for (int64_t j = 0, n; j < q.n; j += n) {
      n = smaller<int64_t>(q.n - j, rows == 1 ? 8 : 4);
      const Mat<const T> a = q.a.from(i, 0), b = q.b.from(0, j);
      const Mat<T> c = q.c.from(i, j);
      if (rows == 2) inner_tile<T, 2, 4>(q.k, n, a, b, c, q.accumulate);
      else if (n > 4) inner_tile<T, 1, 8>(q.k, n, a, b, c, q.accumulate);
      else inner_tile<T, 1, 4>(q.k, n, a, b, c, q.accumulate);
    }
  }
}

// ---- Libraries, which pack both operands in blocks tuned for every level of cache.

template <class T> int leading(Mat<T> x, int64_t rows, int64_t cols) {
  return int(leading_dimension(x.row, x.col, rows, cols));
}

/// A product as it is passed to BLAS: c is row-major, the operands are row-major or column-major.
template <class T> struct Gemm {
  Product<T> q;
  bool ta, tb;
  int lda, ldb, ldc;  // ldc is 0 if BLAS does not support the strides or sizes
};
template <class T> Gemm<T> gemm_of(const Product<T>& q) {
  const int ldc = leading(q.c, q.m, q.n);
  if (!ldc && leading(q.c.transposed(), q.n, q.m)) return gemm_of(q.transposed());
  const int lda = leading(q.a, q.m, q.k), ldb = leading(q.b, q.k, q.n);
  const int lda_t = lda ? lda : leading(q.a.transposed(), q.k, q.m);
  const int ldb_t = ldb ? ldb : leading(q.b.transposed(), q.n, q.k);
  return {q, !lda, !ldb, lda_t, ldb_t, lda_t && ldb_t ? ldc : 0};
}

// The values of cblas.h.
constexpr int kRowMajor = 101, kAsIs = 111, kTransposed = 112;

/// Does nothing and returns false if BLAS does not support the strides or sizes.
template <class T> bool blas_product(const openblas::Library& blas, const Product<T>& product) {
  const Gemm<T> g = gemm_of(product);
  if (!g.ldc) return false;
  const Product<T> q = filled(g.q);
  // Outside a parallel region OpenBLAS would split the work by its own number of threads.
  const int threads = omp_get_max_threads();
  if (threads > 1) omp_set_num_threads(1);
  blas.of<T>().gemm(kRowMajor, g.ta ? kTransposed : kAsIs, g.tb ? kTransposed : kAsIs, int(q.m),
                    int(q.n), int(q.k), 1, q.a.at, g.lda, q.b.at, g.ldb, T(q.accumulate), q.c.at,
                    g.ldc);
  if (threads > 1) omp_set_num_threads(threads);
  count_product();
  return true;
}

/// Two chains that oneDNN sums as such: it halves sums of more than 384 terms.
constexpr int64_t kOnednnHalves = 384;

/// Sums in the order of the outer form, which also computes what oneDNN does not support. Two chains a call are faster
/// than one (PyTorch's time / ours, Ice Lake: 512 x 4096 x 4096 .60 -> .83, 128 x 1024 x 1024 .75 -> .93).
void onednn_product(const Product<float>& product) {
  Gemm<float> g = gemm_of(product);
  if (!g.ldc) return outer_product(product);
  const Product<float> q = filled(g.q);
  const int64_t pair = 2 * q.depth > kOnednnHalves ? 2 * q.depth : q.depth;
  for (int64_t p = 0, terms; p < q.k && !mt_interrupted; p += terms) {
    terms = q.k - p < pair ? smaller(q.depth, q.k - p) : pair;
    Product<float> part = q;
    part.k = terms, part.a = q.a.from(0, p), part.b = q.b.from(p, 0);
    part.accumulate = q.accumulate || p > 0;
    g = gemm_of(part);
    if (!onednn::sgemm(g.ta, g.tb, q.m, q.n, part.k, part.a.at, g.lda, part.b.at, g.ldb, q.c.at,
                       g.ldc, part.accumulate))
      outer_product(part);
  }
  count_onednn();
}
void onednn_product(const Product<double>&) {}

// ---- The choice of the kernel and the pieces: bits depend on the shape, not on the number of threads.

/// Estimates in cycles, of which only the order matters: two fma each, a third for a transposing
/// copy, two for a copied or scattered element, 6 for the sum across a register. Measured on Zen 3.
template <class T> double outer_cost(const Product<T>& q) {
  const double m = double(q.m), n = double(q.n), k = double(q.k);
  double cost = m * double(ceil_div(q.n, kWidth<T>)) * k / 2;
  if (q.b.col != 1) cost += n * k * (q.b.row == 1 ? 0.33 : 2);
  if (q.c.col != 1) cost += m * n * 2 * double(ceil_div(q.k, kDeep));
  return cost;
}
template <class T> double inner_cost(const Product<T>& q) {
  if (q.a.col != 1 || q.b.row != 1 || q.k == 0) return 1e300;
  return double(q.m) * double(q.n) * (0.75 * double(ceil_div(q.k, kWidth<T>)) + 6);
}

/// Whether oneDNN computes the outer form's bits, by layout (a bit of ta + 2 tb): each element is a sum of chains of
/// fma over kDeep terms. Its AVX-512 kernels do. Tested once, with two chains in a call and one, on a small product and
/// a large one, since oneDNN has different kernels for them.
int layouts_like_chains() {
  int unlike = 0;
  for (const int64_t m : {40, 200}) {
    const int64_t n = 7 * m / 5, k = 3 * kDeep;
    float* const a = static_cast<float*>(std::malloc(size_t(m * k + k * n + 2 * m * n) * 4));
    if (!a) return 0;
    float *const b = a + m * k, *const c = b + k * n, *const d = c + m * n;
    for (int64_t i = 0; i < m * k; ++i) a[i] = 1.0f / float(i % 1019 + 3) - 0.1f;
    for (int64_t i = 0; i < k * n; ++i) b[i] = 1.0f / float(i % 1021 + 2) - 0.1f;
    const Mat<const float> rows_a{a, k, 1}, columns_a{a, 1, m}, rows_b{b, n, 1}, columns_b{b, 1, k};
    for (int layout = 0; layout < 4; ++layout) {
      const Mat<const float> x = layout & 1 ? columns_a : rows_a,
                             y = layout & 2 ? columns_b : rows_b;
      outer_product(Product<float>{m, n, k, x, y, {c, n, 1}, false, kDeep});
      onednn_product({m, n, k, x, y, {d, n, 1}, false, kDeep});
      if (std::memcmp(c, d, size_t(m * n) * 4) != 0) unlike |= 1 << layout;
    }
    std::free(a);
  }
  return ~unlike;
}
// Multiply-adds: of a product and of a call for which oneDNN is faster, and of all such calls until it pays to let
// oneDNN compile its kernels, once: that takes 60 ms, after which products take down to two thirds of the time.
constexpr double kOnednnWork = 1e6, kOnednnCall = 5e6;
constexpr int64_t kOnednnStart = 500'000'000;

/// The work of this process that oneDNN would have done faster.
std::atomic<int64_t> work_without_onednn{0};

/// The backend of each of the `entries` products of a call. The bits of a product do not depend on what ran before.
template <class T> GemmBackend choose_backend(const Product<T>& q, int64_t entries) {
  // Its AVX2 kernels do not copy operands whose rows are a multiple of 4096 bytes apart: half of OpenBLAS's speed.
  if (q.pairs) return GemmBackend::own;
  if constexpr (std::is_same_v<T, float> && sizeof(F32s) == 64) {
    const double work = q.work();
    if (work < kOnednnWork || work * double(entries) < kOnednnCall || q.m < 24 || q.n < 24 ||
        q.k < 16)
      return GemmBackend::automatic;
    const Gemm<float> g = gemm_of(q);
    const onednn::Library* library = g.ldc ? onednn::open() : nullptr;
    if (!library || !library->avx512) return GemmBackend::automatic;
    // The outer form, which packs b as it runs, is faster if b is transposed and used by few rows.
    if (g.tb && g.q.m < 48) return GemmBackend::own;
    // Until then our own kernel, which gives the same bits wherever oneDNN is used.
    if (work_without_onednn.load(std::memory_order_relaxed) < kOnednnStart) {
      const double more = smaller(work * double(entries), double(kOnednnStart));
      work_without_onednn.fetch_add(int64_t(more), std::memory_order_relaxed);
      return GemmBackend::own;
    }
    static const int like = layouts_like_chains();
    return like & 1 && like >> (g.ta + 2 * g.tb) & 1 ? GemmBackend::onednn : GemmBackend::own;
  }
  return GemmBackend::automatic;
}

constexpr double kBlasWork = 8e6;

/// With 32 registers of 512 bits our kernel is faster (1024 x 128 x 512: 157 and 136 GFLOP/s,
/// 256 x 256 x 256: 148, 136) until both k and n are large (512 x 512 x 512: 114, 137), except
/// if the rows of a are not contiguous: OpenBLAS packs those.
template <class T> bool wants_blas(const Product<T>& q) {
  if (q.backend != GemmBackend::automatic) return false;
  const bool wide = sizeof(F32s) == 64 && q.a.col == 1 && (q.k <= 256 || q.n <= 256);
  return q.m >= 32 && q.n >= 32 && q.work() > (wide ? 1e8 : kBlasWork);
}

/// One piece on the calling thread. OpenBLAS is faster from about 200 x 200 x 200 on, but not with
/// few rows or columns (1 x 1024 x 1024: 3 times slower; pieces of 16 x 1024 x 1024: equal).
template <class T> void serial_product(const Product<T>& q) {
#ifdef __AVX512F__
  if constexpr (std::is_same_v<T, float>)
    if (q.pairs) return outer_product<T, true>(q);
#endif
  if (q.backend == GemmBackend::onednn) return onednn_product(q);
  if (wants_blas(q)) {
    const openblas::Library* blas = openblas::open();
    if (!blas) return __atomic_store_n(q.skipped, true, __ATOMIC_RELAXED);
    if (blas_product(*blas, q)) return;
  }
  const Product<T> t = q.transposed();
  const double outer = outer_cost(q), outer_t = outer_cost(t), inner = inner_cost(q);
  if (q.backend == GemmBackend::automatic && inner < outer && inner < outer_t)
    return inner_product(filled(q.n < 4 && q.n < q.m ? t : q));
  outer_product(outer <= outer_t ? q : t);
}

/// Part i of n of the rows, or of the columns in multiples of 16.
template <class T> Product<T> cut(const Product<T>& q, bool rows, int64_t i, int64_t n) {
  const int64_t all = rows ? q.m : q.n, unit = rows ? 1 : 16;
  const auto edge = [&](int64_t i) { return smaller(ceil_div(all * i / n, unit) * unit, all); };
  const int64_t begin = edge(i), size = edge(i + 1) - begin;
  Product<T> part = q;
  const int64_t row = rows ? begin : 0, col = rows ? 0 : begin;
  (rows ? part.m : part.n) = size;
  part.a = q.a.from(row, 0), part.b = q.b.from(0, col), part.c = q.c.from(row, col);
  if (q.bias.at) part.bias = q.bias.from(row, col);
  return part;
}

constexpr double kLongWork = 1.5e9;                         // multiply-adds until Ctrl-C is checked
constexpr int64_t kLongSum = 1 << 15, kLongRead = 1 << 26;  // the range of terms until then

/// Splits sums of very many terms into parts that are computed one after the other.
template <class T> void in_parts(const Product<T>& q, const auto& compute) {
  if (q.k <= kLongSum) return compute(q);
  const double most = kLongWork / double(q.m) / double(q.n);
  const int64_t wanted = most < double(kLongSum) ? kLongSum : smaller(int64_t(most), kLongRead);
  const int64_t terms = ceil_div(wanted, q.depth) * q.depth;  // a multiple of the chain length
  for (int64_t p = 0; p < q.k && !mt_interrupted; p += terms) {
    Product<T> part = q;
    part.k = smaller(terms, q.k - p), part.a = q.a.from(0, p), part.b = q.b.from(p, 0);
    if (p > 0) part.accumulate = true, part.bias = {};
    compute(part);
  }
}
template <class T> void in_parts(const Product<T>& q) {
  in_parts(q, [](const Product<T>& part) { serial_product(part); });
}

/// Computes a panel of a very large product in slices, so that Ctrl-C is checked every 50 ms or so. Slices of
/// the longer side repeat the packing of the smaller operand (700 x 650 x 10000: 77 and 59 ms for the other side).
/// The backends that sum in chains check it after each.
template <class T> void panel(const Product<T>& q, bool by_rows) {
  const int64_t terms = q.in_chains() ? smaller(q.k, 2 * q.depth) : q.k;
  const double unchecked = double(q.m) * double(q.n) * double(terms);
  const int64_t longer = by_rows ? q.m : q.n;
  const int64_t cuts = smaller(int64_t(unchecked / kLongWork) + 1, longer / 256 + 1);
  for (int64_t i = 0; i < cuts && !mt_interrupted; ++i) in_parts(cut(q, by_rows, i, cuts));
}

/// A product with one large operand and a thin c: its time is that of reading the large operand.
template <class T> void streamed_entry(const Product<T>& q) {
  const int64_t threads = cpu_threads(), most = ceil_div(q.n, 256);  // rows of c are chains of fma
  const int64_t panels = smaller(threads, most);
  parallel(panels, true, [&](int64_t i) {
    in_parts(cut(q, false, i, panels), [](const Product<T>& part) { streamed_product(part); });
  });
}
template <class T> void thin_entry(const Product<T>& q) {
  const int64_t panels = ceil_div(q.m, q.m >= 16384 ? 2048 : 256);
  parallel(panels, true, [&](int64_t i) {
    in_parts(cut(q, true, i, panels), [](const Product<T>& part) { thin_product(part); });
  });
}

/// Cuts the terms into parts, whose sums are added in order.
template <class T> void entry_by_terms(const Product<T>& q, int64_t parts) {
  const std::unique_ptr<T, decltype(&std::free)> sums(
      static_cast<T*>(std::malloc(size_t((parts - 1) * q.m * q.n) * sizeof(T))), std::free);
  if (!sums) return in_parts(q);
  parallel(parts, true, [&](int64_t i) {
    const int64_t begin = q.k * i / parts;
    Product<T> part = q;
    part.k = q.k * (i + 1) / parts - begin, part.a = q.a.from(0, begin),
    part.b = q.b.from(begin, 0);
    if (i > 0)
      part.c = {sums.get() + (i - 1) * q.m * q.n, q.n, 1}, part.accumulate = false, part.bias = {};
    in_parts(part);
  });
  for (int64_t i = 0; i < q.m; ++i)
    for (int64_t j = 0; j < q.n; ++j)
      for (int64_t p = 0; p < parts - 1; ++p) *q.c(i, j) += sums.get()[(p * q.m + i) * q.n + j];
}

/// A column times a row: rows of c are multiples of a row.
template <class T> bool multiples_of_row(const Product<T>& q) {
  constexpr int W = kWidth<T>;
  if (q.k != 1 || q.accumulate || q.bias.at || q.n < 4 * W || q.b.col != 1 || q.c.col != 1)
    return false;
  parallel_chunks(q.m, ceil_div(kGrain, q.n), q.m * q.n > 2 * kGrain, [&](int64_t i, int64_t end) {
    const T* const b = q.b.at;
    const int64_t whole = q.n / W * W;
    const int rest = int(q.n - whole);
    for (; i < end; ++i) {
      const Vector<T> x = broadcast(*q.a(i, 0));
      T* const c = q.c(i, 0);
      for (int64_t j = 0; j < whole; j += W) store(c + j, load(b + j) * x);
      if (rest > 0) store_first(c + whole, load_first(b + whole, rest) * x, rest);
    }
  });
  return true;
}

/// Computes one entry of the batch, from two MFLOP on in panels of rows or columns. OpenBLAS packs
/// the whole other operand for each panel: panels have 256 of them (128 cost a tenth), and fewer only if there would
/// be one panel.
template <class T> void entry(const Product<T>& q) {
  if (!q.pairs && (multiples_of_row(q) || multiples_of_row(q.transposed()))) return;
  const bool by_rows = q.m >= q.n, blas = wants_blas(q);
  const int64_t longer = by_rows ? q.m : q.n, shorter = by_rows ? q.n : q.m;
  if (q.backend == GemmBackend::automatic && shorter <= kThin) {
    const Product<T> t = q.transposed();
    if (is_streamed(q)) return streamed_entry(filled(q));
    if (is_streamed(t)) return streamed_entry(filled(t));
    if (is_thin(q)) return thin_entry(filled(q));
    if (is_thin(t)) return thin_entry(filled(t));
  }
  if (longer <= 64 || q.work() < 1e6) return in_parts(q);
  if (q.in_chains()) {
    const int64_t threads = cpu_threads(), most = threads > 1 ? ceil_div(longer, 64) : 1;
    const int64_t panels = smaller(threads, most);
    return parallel(panels, true, [&](int64_t i) { panel(cut(q, by_rows, i, panels), by_rows); });
  }
  constexpr int64_t kTerms = 2048, kMaxParts = 8;
  if (blas && longer <= 256 && q.k >= 2 * kTerms)
    return entry_by_terms(q, smaller(q.k / kTerms, kMaxParts));
  const int64_t own = longer <= 128 ? 64 : longer < 1024 ? 128 : longer / 8;
  const int64_t size = (blas && longer > 256) || longer >= 2048 ? 256 : own,
                panels = ceil_div(longer, size),
                halves = blas && panels < 8 && shorter >= 1024 ? 2 : 1;
  parallel(panels * halves, true, [&](int64_t i) {
    panel(cut(cut(q, by_rows, i / halves, panels), !by_rows, i % halves, halves), by_rows);
  });
}

/// Integers wrap around, which is defined for unsigned arithmetic.
template <class T> void wrapping_entry(const Product<T>& q) {
  constexpr int64_t kColumns = 512;
  const int64_t across = ceil_div(q.n, kColumns), step = q.b.col;
  parallel(q.m * across, q.work() > 1e6, [&](int64_t piece) {
    const int64_t i = piece / across, from = piece % across * kColumns;
    const int64_t n = smaller(kColumns, q.n - from);
    T sum[kColumns];
    for (int64_t j = 0; j < n; ++j) sum[j] = q.accumulate ? *q.c(i, from + j) : T(0);
    const auto add = [&]<int kRows>(int64_t p) {
      T x[kRows];
      const T* b[kRows];
      for (int r = 0; r < kRows; ++r) x[r] = *q.a(i, p + r), b[r] = q.b(p + r, from);
      const auto columns = [&](int64_t by) {
        for (int64_t j = 0; j < n; ++j)
          for (int r = 0; r < kRows; ++r) sum[j] = T(sum[j] + x[r] * b[r][j * by]);
      };
      if (step == 1) columns(1);
      else columns(step);
    };
    int64_t p = 0;
    for (; p + 4 <= q.k && !mt_interrupted; p += 4) add.template operator()<4>(p);
    for (; p < q.k && !mt_interrupted; ++p) add.template operator()<1>(p);
    for (int64_t j = 0; j < n; ++j) *q.c(i, from + j) = sum[j];
  });
}
void entry(const Product<uint8_t>& q) { wrapping_entry(q); }
void entry(const Product<uint32_t>& q) { wrapping_entry(q); }
void entry(const Product<uint64_t>& q) { wrapping_entry(q); }

template <class T> bool batched(const Matmul& call) {
  // Only a batch that shares b is copied: the copy takes 40 ns, a product of 2 x 2 takes 250.
  if (call.batch_dims > 0 && call.b_batch[call.batch_dims - 1] == 0)
    if (const Matmul merged = merge_rows(call); merged.batch_dims < call.batch_dims)
      return batched<T>(merged);
  bool skipped = false;
  Product<T> first{call.m,
                   call.n,
                   call.k,
                   {static_cast<const T*>(call.a), call.a_row, call.a_col},
                   {static_cast<const T*>(call.b), call.b_row, call.b_col},
                   {static_cast<T*>(call.c), call.c_row, call.c_col},
                   call.accumulate,
                   depth_of(call.k)};
  first.bias = {static_cast<const T*>(call.bias), 0, 1};
  first.pairs = call.pairs;
  const int dims = call.batch_dims;
  int64_t entries = 1;
  for (int d = 0; d < dims; ++d) entries *= call.batch_size[d];
  if (first.m == 0 || first.n == 0 || entries == 0) return true;
  first.backend = choose_backend(first, entries), first.skipped = &skipped;
  if (first.backend == GemmBackend::automatic && first.work() > kBlasWork)
    openblas::open();  // before threads start
  if (entries == 1) return entry(first), !skipped;
  // Pieces have one MFLOP if there are enough of them; otherwise the entries themselves are split.
  const double work = first.work();
  const int64_t chunk = work > 5e5 ? 1 : int64_t(5e5 / (work + 1)) + 1;
  void (*compute)(const Product<T>&) = [](const Product<T>& one) { entry(one); };
  if constexpr (math::is_floating<T>)
    if (first.m == 1 && first.n == 1 && first.k <= kLongSum &&
        inner_cost(first) < outer_cost(first))
      compute = dot_product<T>;
  parallel(ceil_div(entries, chunk), entries >= 8 * chunk || work < 5e5, [&](int64_t piece) {
    Product<T> q = first;
    for (int64_t e = piece * chunk; e < smaller((piece + 1) * chunk, entries); ++e) {
      int64_t rest = e, a = 0, b = 0, c = 0;
      for (int d = dims - 1; d >= 0; --d) {
        const int64_t index = d > 0 ? rest % call.batch_size[d] : rest;
        if (d > 0) rest /= call.batch_size[d];
        a += index * call.a_batch[d], b += index * call.b_batch[d], c += index * call.c_batch[d];
      }
      q.a.at = first.a.at + a, q.b.at = first.b.at + b, q.c.at = first.c.at + c;
      compute(q);
    }
  });
  return !skipped;
}

}  // namespace

bool matmul(const Matmul& call) {
  switch (call.dtype) {
    case Dtype::u8: return batched<uint8_t>(call);
    case Dtype::i32: return batched<uint32_t>(call);
    case Dtype::i64: return batched<uint64_t>(call);
    case Dtype::bf16:
      if (is_thin_half(call)) return thin_bf16(call);
      return bf16_product(call), true;
    case Dtype::f16: return is_thin_half(call) && thin_converted<Float16>(call);
    case Dtype::i8: return thin_converted<int8_t, float>(call);
    case Dtype::f32: return batched<float>(call);
    case Dtype::f64: return batched<double>(call);
    default: return true;
  }
}

}  // namespace MT_ISA
}  // namespace mt
