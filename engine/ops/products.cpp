// products.cpp -- variants of the matrix product: batches, sums with a product, Kronecker
#include "engine/autograd/graph.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

void check_ranks(const char* name, const char* wanted, const Tensor& a, int rank_a, const Tensor& b,
                 int rank_b) {
  if (a.dim() != rank_a || b.dim() != rank_b)
    fail("{}: {} needed, got {} and {}; use matmul", name, wanted, a.shape(), b.shape());
}

void check_batches(const char* name, const Tensor& a, const Tensor& b) {
  check_ranks(name, "two batches of matrices are", a, 3, b, 3);
  if (a.size(0) != b.size(0))
    fail("{}: the batches have {} and {} matrices: {} and {}; matmul broadcasts", name, a.size(0),
         b.size(0), a.shape(), b.shape());
}

/// beta * x + alpha * product.
Tensor add_product(const char* name, const Tensor& x, Tensor product, double beta, double alpha) {
  const Dtype dtype = promote(x.dtype(), product.dtype());
  check_value(name, alpha, dtype), check_value(name, beta, dtype);
  if (x.dim() > product.dim() || broadcast(name, product.shape(), x.shape()) != product.shape())
    fail("{}: {} does not broadcast to the product, which is {}", name, x.shape(), product.shape());
  if (alpha == 0) product = zeros_like(product);  // discards any product, also NaN
  else if (alpha != 1) product = product * alpha;
  product = to(product, dtype);
  if (beta == 0) return product;
  return (beta == 1 ? x : x * beta) + product;
}

/// The elements 2, 3, 1 along the dimension: the cyclic shift of the cross product.
Tensor next_axis(const Tensor& x, int d) { return cat({slice(x, d, 1, 2), slice(x, d, 0, 1)}, d); }

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  check_ranks("mm", "two matrices are", a, 2, b, 2);
  return matmul(a, b, "mm");
}
Tensor bmm(const Tensor& a, const Tensor& b) {
  check_batches("bmm", a, b);
  return matmul(a, b, "bmm");
}
Tensor mv(const Tensor& a, const Tensor& b) {
  check_ranks("mv", "a matrix and a vector are", a, 2, b, 1);
  return matmul(a, b, "mv");
}
Tensor dot(const Tensor& a, const Tensor& b, const char* name) {
  check_ranks(name, "two vectors are", a, 1, b, 1);
  return matmul(a, b, name);
}

Tensor inner(const Tensor& x, const Tensor& y) {
  if (x.dim() == 0 || y.dim() == 0) return x * y;
  const int64_t k = x.size(-1);
  if (k != y.size(-1)) fail("inner: the last sizes differ: {} and {}", x.shape(), y.shape());
  return tensordot(x, y, {-1}, {-1});
}

Tensor outer(const Tensor& x, const Tensor& y, const char* name) {
  if (x.dim() != 1 || y.dim() != 1)
    fail("{}: two vectors are needed, got {} and {}", name, x.shape(), y.shape());
  return unsqueeze(x, 1) * y;
}

Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_ranks("addmm", "two matrices are", a, 2, b, 2);
  return add_product("addmm", x, matmul(a, b, "addmm"), beta, alpha);
}
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_ranks("addmv", "a matrix and a vector are", a, 2, b, 1);
  return add_product("addmv", x, matmul(a, b, "addmv"), beta, alpha);
}
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_batches("baddbmm", a, b);
  return add_product("baddbmm", x, matmul(a, b, "baddbmm"), beta, alpha);
}

Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_batches("addbmm", a, b);
  if (a.size(2) != b.size(1)) matmul(a, b, "addbmm");  // throws the error
  // The sum over the batch is one longer inner sum.
  return add_product("addbmm", x, tensordot(a, b, {0, 2}, {0, 1}), beta, alpha);
}

Tensor kron(const Tensor& x, const Tensor& y) {
  const int rank = std::max(x.dim(), y.dim());
  if (2 * rank > kMaxDims)
    fail("kron: {} and {}: at most {} dimensions are possible", x.shape(), y.shape(), kMaxDims / 2);
  Shape left, right, size;
  for (int d = 0; d < rank; ++d) {
    const int dx = d - (rank - x.dim()), dy = d - (rank - y.dim());
    const int64_t a = dx >= 0 ? x.size(dx) : 1, b = dy >= 0 ? y.size(dy) : 1;
    left.push(a), left.push(1), right.push(1), right.push(b), size.push(a * b);
  }
  return reshape(reshape(x, left) * reshape(y, right), size);
}

Tensor cross(const Tensor& x, const Tensor& y, Dim dim) {
  const Shape size = broadcast("cross", x.shape(), y.shape());
  const int d = wrap_dim("cross", dim, size.size());
  if (size.size() == 0 || x.dim() != y.dim() || x.size(d) != 3 || y.size(d) != 3)
    fail(
        "cross: both need the same number of dimensions and 3 elements along dimension {}: {} and "
        "{}",
        d + 1, x.shape(), y.shape());
  return next_axis(x * next_axis(y, d) - next_axis(x, d) * y, d);
}

Tensor trace(const Tensor& x) {
  if (x.dim() != 2) fail("trace: a matrix is needed, got {}", x.shape());
  return sum(diagonal(x));
}

Tensor multi_dot(const TensorList& given) {
  const size_t n = given.size();
  if (n < 2) fail("multi_dot: at least two tensors are needed, got {}", n);
  TensorList x = given;
  const bool row = x.front().dim() == 1, column = x.back().dim() == 1;
  if (row) x.front() = unsqueeze(x.front(), 0);
  if (column) x.back() = unsqueeze(x.back(), 1);
  for (size_t i = 0; i < n; ++i) {
    if (x[i].dim() != 2)
      fail("multi_dot: tensor {} is {}; matrices are needed, and vectors first and last", i + 1,
           given[i].shape());
    if (i > 0 && x[i - 1].size(1) != x[i].size(0))
      fail("multi_dot: inner sizes of tensors {} and {} differ: {} and {}", i, i + 1,
           given[i - 1].shape(), given[i].shape());
  }
  // cost[i * n + k]: the fewest multiplications for the product of i .. k (Godbole 1973).
  std::vector<double> cost(n * n, 0.0);
  std::vector<size_t> cut(n * n, 0);
  for (size_t length = 2; length <= n; ++length)
    for (size_t i = 0; i + length <= n; ++i) {
      const size_t k = i + length - 1;
      cost[i * n + k] = 1e300;
      for (size_t c = i; c < k; ++c) {
        const double total = cost[i * n + c] + cost[(c + 1) * n + k] +
                             double(x[i].size(0)) * double(x[c].size(1)) * double(x[k].size(1));
        if (total < cost[i * n + k]) cost[i * n + k] = total, cut[i * n + k] = c;
      }
    }
  struct Chain {
    const TensorList& x;
    const std::vector<size_t>& cut;
    Tensor multiply(size_t i, size_t k) const {
      if (i == k) return x[i];
      const size_t c = cut[i * x.size() + k];
      return matmul(multiply(i, c), multiply(c + 1, k), "multi_dot");
    }
  };
  Tensor out = Chain{x, cut}.multiply(0, n - 1);
  if (column) out = squeeze(out, 1);
  return row ? squeeze(out, 0) : out;
}

}  // namespace mt
