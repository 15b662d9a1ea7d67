// matrix_functions.cpp -- the matrix exponential, and functions composed of solutions and products
#include <array>
#include <cmath>
#include <map>

#include "engine/linalg/common.h"

namespace mt::linalg {
namespace {

/// Linear combinations of matrices: one for each row of coefficients.
template <size_t R, size_t N>
std::array<Tensor, R> combine(const double (&rows)[R][N], const TensorList& x) {
  const Tensor all = stack(x), weights = constants<double>(
                                   {R, N}, [&](double*to) { std::copy_n(&rows[0][0], R * N, to); });
  const Tensor sums = matmul(to(weights, all.dtype()), reshape(all, {N, x[0].numel()}));
  std::array<Tensor, R> result;
  for (size_t i = 0; i < R; ++i) result[i] = reshape(pick(sums, 0, int64_t(i)), x[0].shape());
  return result;
}

/// The Taylor polynomials of exp, as products of sums of few powers (Bader, Blanes and Casas 2019), and the 1-norms up
/// to which they are exact to float32 and float64: each is by one matrix product more.
constexpr int kDegrees[] = {2, 4, 8, 12, 18};
constexpr double kLargestNorms[2][5] = {
    {5.978858893805233e-04, 5.116619363445086e-02, 5.800524627688768e-01, 1.461661507209034,
     3.010066362817634},
    {2.580956802971767e-08, 3.397168839976962e-04, 4.991228871115323e-02, 2.996158913811580e-01,
     1.090863719290036}};

/// r + p q.
Tensor plus_product(const Tensor& r, const Tensor& p, const Tensor& q) { return r + matmul(p, q); }

/// r + (s + h) h for h = t + p q.
Tensor plus_products(const Tensor& r, const Tensor& s, const Tensor& t, const Tensor& p,
                     const Tensor& q) {
  const Tensor h = plus_product(t, p, q);
  return plus_product(r, s + h, h);
}

Tensor taylor(const Tensor& a, int degree) {
  const Tensor one = expand(eye(rows_of(a), rows_of(a), a.dtype()), a.shape()), a2 = matmul(a, a);
  if (degree == 2) return one + (a + a2 * 0.5);
  if (degree == 4) {
    const auto [r, q] = combine({{1, 1, 0}, {0.5, 1 / 6.0, 1 / 24.0}}, {one, a, a2});
    return plus_product(r, a2, q);
  }
  if (degree == 8) {
    constexpr double root = 13.304134695650071, x = 2 / 3.0;  // of 177
    const Tensor a4 = matmul(a2, a * (x * (1 + root) / 88) + a2 * (x * (1 + root) / 352));
    const auto [r, p, q] = combine({{1, 1, (857 - 58 * root) / 630, 0},
                                    {0, 0, x, 1},
                                    {(29 * root - 271) / (315 * x), 11 * (root - 1) / (1260 * x),
                                     11 * (root - 9) / (5040 * x), (89 - root) / (5040 * x * x)}},
                                   {one, a, a2, a4});
    return plus_product(r, p, q);
  }
  const Tensor a3 = matmul(a2, a);
  if (degree == 12) {
    const auto [r, s, t, p] = combine(
        {{9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740},
         {5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031,
          0.01108844528519167989},
         {0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968,
          0.00610700528898058230},
         {-2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079,
          -0.00675951846863086359}},
        {one, a, a2, a3});
    return plus_products(r, s, t, p, p);
  }
  const auto [p, r, s, t, q] = combine(
      {{0, -0.100365581030144618291, -8.02924648241156932449e-3, -8.92138498045729985177e-4, 0},
       {0, 0.397849749499645077844, 1.36783778460411720168, 0.498289622525382669416,
        -6.37898194594723280150e-4},
       {-10.9676396052962061844, 1.68015813878906206114, 0.0571779846478865511061,
        -6.98210122488052056106e-3, 3.34975017086070470649e-5},
       {-0.0904316832390810593223, -0.0676404519071381882256, 0.0675961301770459654925,
        0.0295552570429315521194, -1.39180257516060693404e-5},
       {0, 0, -0.0923364619367118555360, -0.0169364939002081722752, -1.40086798182036094347e-5}},
      {one, a, a2, a3, matmul(a3, a3)});
  return plus_products(r, s, t, p, q);
}

/// How exp of a matrix is computed: the polynomial of a / 2^times, squared so often.
using Way = std::pair<int, int>;
Way way_of(double norm, Dtype dtype) {
  const auto& largest = kLargestNorms[dtype == Dtype::f64];
  for (int i = 0; i < 5; ++i)
    if (norm <= largest[i]) return {kDegrees[i], 0};
  const int times = std::isfinite(norm) ? int(std::ceil(std::log2(norm / largest[4]))) : 0;
  return {kDegrees[4], std::min(times, dtype == Dtype::f64 ? 1022 : 126)};
}
Tensor exp_by(const Tensor& a, Way way) {
  const auto [degree, times] = way;
  Tensor e = taylor(times > 0 ? a * std::ldexp(1.0, -times) : a, degree);
  for (int k = 0; k < times; ++k) e = matmul(e, e);
  return e;
}

/// Matrices with the same way are computed together, so that no matrix changes how another one is computed.
Tensor exp_values(const Tensor& given) {
  const Tensor a = reshape(given.detach(), {-1, rows_of(given), rows_of(given)}),
               norms = to(amax(sum(abs(a), {-2}), {-1}), Dtype::f64);
  std::map<Way, std::vector<int64_t>> groups;
  for (int64_t i = 0; i < a.size(0); ++i)
    groups[way_of(norms.data_as<double>()[i], a.dtype())].push_back(i);
  if (groups.size() == 1) return reshape(exp_by(a, groups.begin()->first), given.shape());
  const Tensor out = empty(a.shape(), a.dtype());
  for (const auto& [way, matrices] : groups) {
    const Tensor at = constants(matrices);
    index_copy(out, 0, at, exp_by(index_select(a, 0, at), way), true);
  }
  return reshape(out, given.shape());
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

Tensor matrix_exp(const Tensor& given) {
  const Tensor a = square_matrices("matrix_exp", given);
  if (a.numel() == 0) return clone(given);
  const Tensor out = exp_values(a);
  if (wants_grad(a)) record(kExp, out, {&a}).save(0, a, 0);
  return back(out, given);
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
  square_matrices("cholesky_inverse", factor);
  const Tensor one = eye(rows_of(factor), rows_of(factor), factor.dtype(), factor.device());
  return cholesky_solve(one, factor, upper);
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
