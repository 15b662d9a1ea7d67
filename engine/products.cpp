// products.cpp -- relatives of the matrix product: batches, sums with one, Kronecker, distances
#include "engine/products.h"

#include <cmath>

#include "engine/autograd.h"
#include "engine/ops.h"

namespace mt {
namespace {

void check_ranks(const char* name, const char* wanted, const Tensor& a, int rank_a, const Tensor& b,
                 int rank_b) {
  if (a.dim() != rank_a || b.dim() != rank_b)
    fail("{}: {} needed, got {} and {}; use matmul", name, wanted, to_string(a.shape()),
         to_string(b.shape()));
}

void check_batches(const char* name, const Tensor& a, const Tensor& b) {
  check_ranks(name, "two batches of matrices are", a, 3, b, 3);
  if (a.size(0) != b.size(0))
    fail("{}: the batches have {} and {} matrices: {} and {}; matmul broadcasts", name, a.size(0),
         b.size(0), to_string(a.shape()), to_string(b.shape()));
}

/// beta * x + alpha * product.
Tensor added(const char* name, const Tensor& x, Tensor product, double beta, double alpha) {
  const Dtype dtype = promote(x.dtype(), product.dtype());
  check_value(name, alpha, dtype), check_value(name, beta, dtype);
  if (x.dim() > product.dim() || !(broadcast(name, product.shape(), x.shape()) == product.shape()))
    fail("{}: {} does not broadcast to the product, which is {}", name, to_string(x.shape()),
         to_string(product.shape()));
  if (alpha != 1) product = product * Tensor(alpha);
  product = to(product, dtype);
  if (beta == 0) return product;
  return (beta == 1 ? x : x * Tensor(beta)) + product;
}

/// Of each dimension the elements 2, 3, 1: the cyclic step of the cross product.
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
  const int64_t k = x.size(x.dim() - 1);
  if (k != y.size(y.dim() - 1))
    fail("inner: the last sizes differ: {} and {}", to_string(x.shape()), to_string(y.shape()));
  return tensordot(x, y, {-1}, {-1});
}

Tensor outer(const Tensor& x, const Tensor& y, const char* name) {
  if (x.dim() != 1 || y.dim() != 1)
    fail("{}: two vectors are needed, got {} and {}", name, to_string(x.shape()),
         to_string(y.shape()));
  return unsqueeze(x, 1) * y;
}

Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_ranks("addmm", "two matrices are", a, 2, b, 2);
  return added("addmm", x, matmul(a, b, "addmm"), beta, alpha);
}
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_ranks("addmv", "a matrix and a vector are", a, 2, b, 1);
  return added("addmv", x, matmul(a, b, "addmv"), beta, alpha);
}
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_batches("baddbmm", a, b);
  return added("baddbmm", x, matmul(a, b, "baddbmm"), beta, alpha);
}

Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_batches("addbmm", a, b);
  if (a.size(2) != b.size(1)) matmul(a, b, "addbmm");  // says what is wrong
  // The sum over the batch is one longer inner sum.
  return added("addbmm", x, tensordot(a, b, {0, 2}, {0, 1}), beta, alpha);
}

Tensor kron(const Tensor& x, const Tensor& y) {
  const int rank = std::max(x.dim(), y.dim());
  if (2 * rank > kMaxDims)
    fail("kron: {} and {}: at most {} dimensions are possible", to_string(x.shape()),
         to_string(y.shape()), kMaxDims / 2);
  Shape left, right, size;
  for (int d = 0; d < rank; ++d) {
    const int dx = d - (rank - x.dim()), dy = d - (rank - y.dim());
    const int64_t a = dx >= 0 ? x.size(dx) : 1, b = dy >= 0 ? y.size(dy) : 1;
    left.push(a), left.push(1), right.push(1), right.push(b), size.push(a * b);
  }
  return reshape(reshape(x, left) * reshape(y, right), size);
}

Tensor cross(const Tensor& x, const Tensor& y, int64_t dim) {
  const Shape size = broadcast("cross", x.shape(), y.shape());
  const int d = wrap_dim("cross", dim, size.size());
  if (size.size() == 0 || x.dim() != y.dim() || x.size(d) != 3 || y.size(d) != 3)
    fail(
        "cross: both need the same number of dimensions and 3 elements along dimension {}: {} and "
        "{}",
        d + 1, to_string(x.shape()), to_string(y.shape()));
  return next_axis(x * next_axis(y, d) - next_axis(x, d) * y, d);
}

Tensor trace(const Tensor& x) {
  if (x.dim() != 2) fail("trace: a matrix is needed, got {}", to_string(x.shape()));
  return sum(diagonal(x));
}

Tensor matrix_power(const Tensor& x, int64_t n) {
  if (x.dim() < 2 || x.size(x.dim() - 2) != x.size(x.dim() - 1))
    fail("matrix_power: square matrices are needed, got {}", to_string(x.shape()));
  if (n == 0) {
    const int64_t size = x.size(x.dim() - 1);
    return clone(expand(eye(size, size, x.dtype(), x.device()), x.shape()));
  }
  Tensor square = n < 0 ? linalg::inv(x, "matrix_power") : x, result;
  for (uint64_t rest = n < 0 ? -uint64_t(n) : uint64_t(n);;) {
    if (rest & 1) result = result.defined() ? matmul(result, square, "matrix_power") : square;
    if ((rest >>= 1) == 0) return n == 1 ? clone(result) : result;
    square = matmul(square, square, "matrix_power");
  }
}

Tensor multi_dot(const std::vector<Tensor>& given) {
  const size_t n = given.size();
  if (n < 2) fail("multi_dot: at least two tensors are needed, got {}", n);
  std::vector<Tensor> x = given;
  const bool row = x.front().dim() == 1, column = x.back().dim() == 1;
  if (row) x.front() = unsqueeze(x.front(), 0);
  if (column) x.back() = unsqueeze(x.back(), 1);
  for (size_t i = 0; i < n; ++i) {
    if (x[i].dim() != 2)
      fail("multi_dot: tensor {} is {}; matrices are needed, and vectors first and last", i + 1,
           to_string(given[i].shape()));
    if (i > 0 && x[i - 1].size(1) != x[i].size(0))
      fail("multi_dot: inner sizes of tensors {} and {} differ: {} and {}", i, i + 1,
           to_string(given[i - 1].shape()), to_string(given[i].shape()));
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
    const std::vector<Tensor>& x;
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

// ---- distances ----------------------------------------------------------------------------------

namespace {

/// Rows at a time, so that the differences of all pairs never fill more than 32 MiB or so.
int64_t rows_at_once(const Tensor& x, const Tensor& y) {
  const int64_t row = y.size(y.dim() - 2) * x.size(x.dim() - 1);
  int64_t batch = 1;
  for (int d = 0; d < x.dim() - 2; ++d) batch *= x.size(d);
  return std::max<int64_t>(1, (int64_t(1) << 22) / std::max<int64_t>(1, row * batch));
}

Tensor differences(const Tensor& x, const Tensor& y) { return unsqueeze(x, -2) - unsqueeze(y, -3); }

/// As torch.cdist does by default: the squares from a product, where there are many rows.
bool by_product(const Tensor& x, const Tensor& y, double p) {
  return p == 2 && (x.size(x.dim() - 2) > 25 || y.size(y.dim() - 2) > 25);
}

Tensor squares(const Tensor& x, const Tensor& y) {
  const Tensor across = matmul(x, transpose(y, -2, -1), "cdist");
  return relu(sum(square(x), {-1}, true) + transpose(sum(square(y), {-1}, true), -2, -1) -
              across * Tensor(2.0));
}

Tensor distances(const Tensor& x, const Tensor& y, double p) {
  const int d = x.dim() - 2;
  if (x.size(d + 1) == 0) return sum(differences(x, y), {-1});
  if (by_product(x, y, p)) return sqrt(squares(x, y));
  const int64_t rows = x.size(d), step = rows_at_once(x, y);
  std::vector<Tensor> parts;
  for (int64_t at = 0; at < rows || parts.empty(); at += step) {
    const Tensor part = slice(x, d, at, std::min(step, rows - at));
    parts.push_back(linalg::vector_norm(differences(part, y), p, {-1}));
  }
  return parts.size() == 1 ? parts[0] : cat(parts, d);
}

/// The slope of the p-norm by each difference u, times g / distance^(p-1): 0 at distance 0.
Tensor slopes(const Tensor& u, const Tensor& distance, const Tensor& g, double p) {
  const Tensor far = unsqueeze(distance, -1), grad = unsqueeze(g, -1);
  if (p == 1) return sign(u) * grad;
  if (p == 0) return u * Tensor(0.0);
  if (std::isinf(p)) {
    const Tensor hits = to(eq(abs(u), far), u.dtype());
    return sign(u) * hits * (grad / sum(hits, {-1}, true));
  }
  const Tensor here = eq(far, 0.0), safe = where(here, Tensor(1.0), far);
  const Tensor scale = where(here, Tensor(0.0), grad / (p == 2 ? safe : pow(safe, p - 1)));
  if (p == 2) return u * scale;
  const Tensor none = eq(u, 0.0), size = where(none, Tensor(1.0), abs(u));
  return where(none, Tensor(0.0), sign(u) * pow(size, p - 1)) * scale;
}

void cdist_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor x = node.get(0), y = node.get(1), distance = node.get(2);
  const double p = node.number[0];
  const int d = x.dim() - 2;
  if (by_product(x, y, p)) {
    const Tensor here = eq(distance, 0.0), safe = where(here, Tensor(1.0), distance);
    const Tensor w = where(here, Tensor(0.0), g / safe), wt = transpose(w, -2, -1);
    if (node.wants(0)) dx[0] = x * sum(w, {-1}, true) - matmul(w, y);
    if (node.wants(1)) dx[1] = y * sum(wt, {-1}, true) - matmul(wt, x);
    return;
  }
  const int64_t rows = x.size(d), step = rows_at_once(x, y);
  std::vector<Tensor> parts;
  for (int64_t at = 0; at < rows || parts.empty(); at += step) {
    const int64_t n = std::min(step, rows - at);
    const Tensor s = slopes(differences(slice(x, d, at, n), y), slice(distance, d, at, n),
                            slice(g, d, at, n), p);
    if (node.wants(0)) parts.push_back(sum(s, {-2}));
    else parts.emplace_back();
    if (!node.wants(1)) continue;
    const Tensor back = -sum(s, {-3});
    dx[1] = dx[1].defined() ? dx[1] + back : back;
  }
  if (node.wants(0)) dx[0] = parts.size() == 1 ? parts[0] : cat(parts, d);
}
const NodeType kCdist{"cdist", cdist_backward};

}  // namespace

Tensor cdist(const Tensor& x0, const Tensor& y0, double p) {
  if (x0.dim() < 2 || y0.dim() < 2 || x0.size(x0.dim() - 1) != y0.size(y0.dim() - 1))
    fail("cdist: rows of equal length are needed, got {} and {}", to_string(x0.shape()),
         to_string(y0.shape()));
  if (!(p >= 0)) fail("cdist: p is {}; it must be 0 or more", show(p));
  if (&x0.device() != &y0.device())
    fail("cdist: the tensors are on {} and {}", x0.device().name, y0.device().name);
  const Dtype dtype = promote(x0.dtype(), y0.dtype());
  if (!is_float(dtype))
    fail("cdist: distances are fractions, these are {}; use x:float()", dtype_name(dtype));
  const Shape batch = broadcast("cdist", Shape(x0.impl()->size, x0.dim() - 2),
                                Shape(y0.impl()->size, y0.dim() - 2));
  if (batch.size() + 3 > kMaxDims)
    fail("cdist: {} and {} have too many dimensions", to_string(x0.shape()), to_string(y0.shape()));
  const auto whole = [&](const Tensor& t) {
    Shape size = batch;
    size.push(t.size(t.dim() - 2)), size.push(t.size(t.dim() - 1));
    return expand(to(t, dtype), size);
  };
  const Tensor x = whole(x0), y = whole(y0);
  Tensor out;
  {
    NoGrad off;
    out = distances(x, y, p);
  }
  if (wants_grad(x, y)) {
    Node& node = record(kCdist, out, {&x, &y});
    node.save(0, x, 0), node.save(1, y, 1), node.save(2, out, Node::kOutput);
    node.number[0] = p;
  }
  return out;
}

}  // namespace mt
