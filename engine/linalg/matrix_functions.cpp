// matrix_functions.cpp -- the matrix exponential, and functions composed of solutions and products
#include <cmath>

#include "engine/linalg/common.h"

namespace mt::linalg {
namespace {

/// exp of matrices with a norm of at most 5.4: the diagonal Pade approximant of degree 13 (Higham
/// 2005).
Tensor pade(const Tensor& a) {
  constexpr double b[] = {64764752532480000.,
                          32382376266240000.,
                          7771770303897600.,
                          1187353796428800.,
                          129060195264000.,
                          10559470521600.,
                          670442572800.,
                          33522128640.,
                          1323241920.,
                          40840800.,
                          960960.,
                          16380.,
                          182.,
                          1.};
  const auto c = [&](int k) { return Tensor(b[k] / b[0]); };  // makes exp of 0 exact
  const Tensor one = eye(rows_of(a), rows_of(a), a.dtype());
  const Tensor a2 = matmul(a, a), a4 = matmul(a2, a2), a6 = matmul(a2, a4);
  const auto high = [&](int k) {
    return matmul(a6, a6 * c(k + 12) + a4 * c(k + 10) + a2 * c(k + 8));
  };
  const auto sum = [&](int k) {  // over every second power, from k on
    return high(k) + a6 * c(k + 6) + a4 * c(k + 4) + a2 * c(k + 2) + one * c(k);
  };
  const Tensor odd = matmul(a, sum(1)), even = sum(0);
  return solve(even - odd, even + odd, true, "matrix_exp");
}

/// In float64, with scaling and squaring: each matrix has its own power of 2.
Tensor exp_values(const Tensor& given) {
  const Tensor a = to(given.detach(), Dtype::f64);
  const Tensor norm = unsqueeze(amax(sum(abs(a), {-2}), {-1}, true), -1);
  const Tensor exponent = ceil(log2(norm * (1 / 5.371920351148152)));
  const Tensor times = where(logical_and(gt(exponent, 0.0), isfinite(exponent)), exponent, 0.0);
  Tensor e = pade(a * exp2(-times));
  const int max_times = int(amax(times).item());
  for (int k = 0; k < max_times; ++k) e = where(gt(times, double(k)), matmul(e, e), e);
  return to(e, given.dtype());
}

/// exp of (A', G; 0, A') contains the gradient of <G, exp A> in its upper right block (Mathias
/// 1996). G is scaled, so that it does not determine the number of squarings.
const NodeType kExp{
    "matrix_exp", [](Node& node, const Tensor& g, Tensor* dx) {
      const Tensor at = mT(node.get(0));
      const int64_t n = rows_of(at);
      double size = amax(abs(g.detach())).item();
      if (!(size > 0) || std::isinf(size)) size = 1;
      const Tensor zero = zeros(at.shape(), at.dtype());
      const Tensor both = cat({cat({at, g * (1 / size)}, -1), cat({zero, at}, -1)}, -2);
      dx[0] = slice(slice(matrix_exp(both), -2, 0, n), -1, n, n) * size;
    }};

/// The product of the sizes from `from` to `to`.
int64_t product(const char* name, const Tensor& x, int from, int to) {
  return checked_count(name, x.shape().first(to).from(from));
}

}  // namespace

Tensor matrix_exp(const Tensor& a) {
  if (away(a)) return back(matrix_exp(here(a)), a);
  check_square("matrix_exp", a);
  if (a.numel() == 0) return clone(a);
  const Tensor out = exp_values(a);
  if (wants_grad(a)) record(kExp, out, {&a}).save(0, a, 0);
  return out;
}

Tensor vecdot(const Tensor& x, const Tensor& y, Dim dim) {
  const Shape shape = broadcast("vecdot", x.shape(), y.shape());
  if (shape.size() == 0) fail("vecdot: a vector is needed, got two 0-d tensors");
  return sum(x * y, {wrap_dim("vecdot", dim, shape.size())});
}

Tensor vander(const Tensor& x, std::optional<int64_t> n) {
  if (x.dim() == 0) fail("vander: a vector is needed, got a 0-d tensor");
  const int64_t columns = n.value_or(x.size(-1));
  if (columns < 1) fail("vander: N is {}, it must be at least 1", columns);
  const Tensor values = is_float(x.dtype()) ? x : to(x, Dtype::i64);
  Shape shape = joined(x.shape(), {1});
  const Tensor first = ones(shape, values.dtype(), x.device());
  shape[x.dim()] = columns - 1;
  checked_count("vander", shape);
  if (columns == 1) return first;
  return cat({first, cumprod(expand(unsqueeze(values, -1), shape), -1)}, -1);
}

Tensor tensorsolve(const Tensor& a0, const Tensor& b, const Dims& dims) {
  const char* name = "tensorsolve";
  Tensor a = a0;
  if (dims.size() > 0) {
    Shape last;
    for (int i = 0; i < dims.size(); ++i) last.push(a0.dim() - dims.size() + i);
    a = movedim(a0, dims, last);
  }
  if (b.dim() > a.dim())
    fail("{}: {} has fewer dimensions than the right side {}", name, a.shape(), b.shape());
  const int64_t rows = product(name, a, 0, b.dim()), columns = product(name, a, b.dim(), a.dim());
  if (rows != columns || b.numel() != rows)
    fail("{}: {} and the right side {} are not a square system: {} x {} for {} numbers", name,
         a.shape(), b.shape(), rows, columns, b.numel());
  return reshape(solve(reshape(a, {rows, columns}), reshape(b, {rows}), true, name),
                 a.shape().from(b.dim()));
}

Tensor tensorinv(const Tensor& a, int64_t ind) {
  const char* name = "tensorinv";
  if (ind < 1 || ind > a.dim())
    fail("{}: ind is {}, it must lie in 1..{}, the dimensions of {}", name, ind, a.dim(),
         a.shape());
  const int first = int(ind);
  const int64_t rows = product(name, a, 0, first), columns = product(name, a, first, a.dim());
  if (rows != columns)
    fail("{}: {} is not a square system: the first {} sizes make {}, the others {}", name,
         a.shape(), ind, rows, columns);
  return reshape(inv(reshape(a, {rows, columns}), name),
                 joined(a.shape().from(first), a.shape().first(first)));
}

Tensor cholesky_inverse(const Tensor& factor, bool upper) {
  if (away(factor)) return back(cholesky_inverse(here(factor), upper), factor);
  check_square("cholesky_inverse", factor);
  return cholesky_solve(eye(rows_of(factor), rows_of(factor), factor.dtype()), factor, upper);
}

Tensor matrix_power(const Tensor& x, int64_t n) {
  if (x.dim() < 2 || x.size(-2) != x.size(-1))
    fail("matrix_power: square matrices are needed, got {}", x.shape());
  if (n == 0) {
    const int64_t size = x.size(-1);
    return clone(expand(eye(size, size, x.dtype(), x.device()), x.shape()));
  }
  Tensor square = n < 0 ? inv(x, "matrix_power") : x, result;
  for (uint64_t rest = n < 0 ? -uint64_t(n) : uint64_t(n);;) {
    if (rest & 1) result = result.defined() ? matmul(result, square, "matrix_power") : square;
    if ((rest >>= 1) == 0) return n == 1 ? clone(result) : result;
    square = matmul(square, square, "matrix_power");
  }
}

}  // namespace mt::linalg
