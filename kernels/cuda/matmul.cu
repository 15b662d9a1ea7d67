// matmul.cu -- the matrix product on CUDA: our kernels for all cases, cuBLAS for large float ones
//
// A few elements with long sums use one warp each, whose lanes' sums are reduced in a fixed tree.

#include <type_traits>

#include "kernels/cuda/cublas.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/tiles.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// A Matmul with the fewest possible batch dimensions and elements of type Element. Integers wrap
/// around, which is defined for unsigned arithmetic.
template <class Element, class Total> struct Product {
  using T = std::conditional_t<math::is_stored<Element>, Total, Element>;
  using Sum = Total;
  using Row = const Element*;
  using Column = const Element*;
  int64_t entries, m, n, k;
  bool a_along_k, b_along_k;
  const Element *a_at, *b_at;
  Element* c_at;
  int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  int dims;
  int64_t size[kMaxDims], batch[3][kMaxDims];  // strides of c, a, b
  bool accumulate, tf32;

  __device__ int64_t start(int64_t entry, int side) const {
    return entry == 0 ? 0 : offset_of(entry, dims, size, batch[side]);
  }
  __device__ Row row(int64_t entry, int64_t i) const { return a_at + start(entry, 1) + i * a_row; }
  __device__ Column column(int64_t entry, int64_t j) const {
    return b_at + start(entry, 2) + j * b_col;
  }
  __device__ T a(Row row, int64_t p) const { return row[p * a_col]; }
  __device__ T b(Column column, int64_t p) const { return column[p * b_row]; }
  __device__ void write(int64_t entry, int64_t i, int64_t j, Sum sum) const {
    Element* c = c_at + start(entry, 0) + i * c_row + j * c_col;
    *c = accumulate ? Element(*c + sum) : Element(sum);
  }
};

template <class T, class Sum> Product<T, Sum> product_of(const Matmul& call) {
  const Matmul q = merge_rows(call);
  Product<T, Sum> p;
  p.m = q.m, p.n = q.n, p.k = q.k;
  p.a_at = static_cast<const T*>(q.a), p.b_at = static_cast<const T*>(q.b);
  p.c_at = static_cast<T*>(q.c);
  p.a_row = q.a_row, p.a_col = q.a_col, p.b_row = q.b_row, p.b_col = q.b_col;
  p.c_row = q.c_row, p.c_col = q.c_col;
  p.accumulate = q.accumulate, p.tf32 = q.tf32;
  p.dims = q.batch_dims;
  for (int d = 0; d < p.dims; ++d) {
    p.size[d] = q.batch_size[d];
    p.batch[0][d] = q.c_batch[d], p.batch[1][d] = q.a_batch[d], p.batch[2][d] = q.b_batch[d];
  }
  p.entries = count(p.dims, p.size);
  if (p.entries > 0) {
    int64_t* const strides[3] = {p.batch[0], p.batch[1], p.batch[2]};
    p.dims = collapse(p.dims, p.size, strides);
  }
  p.a_along_k = p.a_col == 1 || p.m == 1, p.b_along_k = p.b_row == 1 && p.b_col != 1;
  if (p.n == 1) p.b_along_k = true;
  return p;
}

/// Computes each element in one thread: for small products, and those that do not fill tiles.
template <class P> __global__ void elements(const __grid_constant__ P p) {
  const int64_t all = p.entries * p.m * p.n;
  for (const int64_t e : cuda::turns(all)) {
    int64_t i, j;
    const int64_t rest = divide(e, p.n, &j), entry = divide(rest, p.m, &i);
    const typename P::Row row = p.row(entry, i);
    const typename P::Column column = p.column(entry, j);
    typename P::Sum sum = 0;
    for (int64_t k = 0; k < p.k; ++k) sum = multiply_add(p.a(row, k), p.b(column, k), sum);
    p.write(entry, i, j, sum);
  }
}

/// Computes each element of the result in one warp; each lane sums every 32nd product.
template <class P> __global__ void long_elements(const __grid_constant__ P p) {
  const cuda::Warp team;
  for (const int64_t e : team.lines(p.entries * p.m * p.n)) {
    int64_t i, j;
    const int64_t rest = divide(e, p.n, &j), entry = divide(rest, p.m, &i);
    const typename P::Row row = p.row(entry, i);
    const typename P::Column column = p.column(entry, j);
    typename P::Sum sum = 0;
    for (int64_t k = team.number(); k < p.k; k += team.size())
      sum = multiply_add(p.a(row, k), p.b(column, k), sum);
    sum = team.total(sum);
    if (team.number() == 0) p.write(entry, i, j, sum);
  }
}

/// Whether warps are suitable: few elements, and lanes whose reads are nearly coalesced.
template <class P> bool by_warps(const P& p) {
  constexpr int64_t near = 32, most = 4096;  // longer sums are split: run_tiles
  return p.k >= 128 && p.k <= most && p.entries <= most && p.m <= most && p.n <= most &&
         p.entries * p.m * p.n <= most && (p.a_along_k || p.m <= near) &&
         (p.b_along_k || p.n <= near);
}

// ---- cuBLAS, which is column-major -------------------------------------------------------------

/// A row-major matrix as cuBLAS reads it, transposed or not; `ld` is 0 if it cannot.
struct Layout {
  int64_t ld = 0;
  bool transposed = false;
};
Layout layout(int64_t row, int64_t col, int64_t rows, int64_t cols) {
  Layout l;
  l.ld = leading_dimension(row, col, rows, cols);
  if (l.ld == 0) l.ld = leading_dimension(col, row, cols, rows), l.transposed = true;
  return l;
}

/// c^T = b^T . a^T.
template <class P> P transposed(const P& p) {
  P t = p;
  t.m = p.n, t.n = p.m;
  t.a_at = p.b_at, t.b_at = p.a_at;
  t.a_row = p.b_col, t.a_col = p.b_row, t.b_row = p.a_col, t.b_col = p.a_row;
  t.c_row = p.c_col, t.c_col = p.c_row;
  for (int d = 0; d < p.dims; ++d) t.batch[1][d] = p.batch[2][d], t.batch[2][d] = p.batch[1][d];
  return t;
}

/// Does nothing and returns false if cuBLAS is missing or does not support the strides or sizes.
template <class P> bool by_cublas(const P& p) {
  if (p.m > INT32_MAX || p.n > INT32_MAX || p.k > INT32_MAX || p.k == 0) return false;
  const int64_t ldc = leading_dimension(p.c_row, p.c_col, p.m, p.n);
  if (ldc == 0)
    return leading_dimension(p.c_col, p.c_row, p.n, p.m) != 0 && by_cublas(transposed(p));
  const Layout a = layout(p.a_row, p.a_col, p.m, p.k), b = layout(p.b_row, p.b_col, p.k, p.n);
  if (a.ld == 0 || b.ld == 0) return false;
  const int inner = p.dims - 1;  // the batch dimension for cuBLAS; the others are looped over here
  const int64_t entries = p.dims > 0 ? p.size[inner] : 1;
  const int64_t calls = p.entries / entries;
  if (calls > 256 || entries > 65535) return false;
  const int64_t step[3] = {p.dims > 0 ? p.batch[0][inner] : 0, p.dims > 0 ? p.batch[1][inner] : 0,
                           p.dims > 0 ? p.batch[2][inner] : 0};
  for (int64_t s : step)
    if (s < 0) return false;
  const cuda::CublasInUse blas = cuda::cublas();
  if (cuda::stopped()) return true;
  if (!blas.handle) return false;
  const cuda::Timed timed("matmul");
  using E = std::remove_pointer_t<decltype(p.c_at)>;
  cuda::BlasProduct product{{nullptr, a.ld, step[1], a.transposed},
                            {nullptr, b.ld, step[2], b.transposed},
                            nullptr,
                            ldc,
                            step[0],
                            p.m,
                            p.n,
                            p.k,
                            entries,
                            cuda::kBlasType<E>,
                            cuda::kBlasType<E>,
                            p.accumulate,
                            p.tf32};
  for (int64_t i = 0; i < calls; ++i) {
    int64_t at[3];
    for (int side = 0; side < 3; ++side) at[side] = offset_of(i, inner, p.size, p.batch[side]);
    product.a.at = p.a_at + at[1], product.b.at = p.b_at + at[2], product.c = p.c_at + at[0];
    if (!cuda::multiply(blas, product)) {
      if (i == 0) return false;
      cuda::check(cudaErrorInvalidValue, "a matrix product of cuBLAS");
      return true;
    }
  }
  cuda::started("matmul");
  return true;
}

template <class T, class Sum> void run(const Matmul& call) {
  using P = Product<T, Sum>;
  const P p = product_of<T, Sum>(call);
  if (p.m == 0 || p.n == 0 || p.entries == 0) return;
  if constexpr (math::is_floating<T> || math::is_stored<T>) {
    const double work = double(p.m) * double(p.n) * double(p.k);
    if (work >= cuda::kCublasEntry && work * double(p.entries) >= cuda::kCublasWork && by_cublas(p))
      return;
  }
  if (by_warps(p))
    return cuda::launch_teams<cuda::Warp>("matmul", long_elements<P>, p.entries * p.m * p.n, p);
  const bool thin = p.m < 16 || p.n < 16;
  if (p.k <= 32 || (thin && p.k <= 256)) {
    cuda::launch_each("matmul", elements<P>, p.entries * p.m * p.n, p);
    return;
  }
  run_tiles("matmul", p);
}

void run(const Matmul& call) {
  switch (call.dtype) {
    case Dtype::u8: return run<uint8_t, uint32_t>(call);
    case Dtype::i32: return run<uint32_t, uint32_t>(call);
    case Dtype::i64: return run<uint64_t, uint64_t>(call);
    case Dtype::f32: return run<float, float>(call);
    case Dtype::f64: return run<double, double>(call);
    case Dtype::f16: return run<Float16, float>(call);
    case Dtype::bf16: return run<Bfloat16, float>(call);
    default: return;
  }
}

}  // namespace

bool matmul(const Matmul& call) { return run(call), true; }

}  // namespace MT_ISA
}  // namespace mt
