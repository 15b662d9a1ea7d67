// linalg.cpp -- systems of equations: LU, inverse, determinant, Cholesky, triangular systems
//
// A row-major matrix is its transpose in column-major order: LAPACK gets the memory unchanged, and
// solves the transposed problem.
#include "engine/linalg/linalg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/linalg/common.h"

namespace mt::linalg {
namespace {

// ---- LU -----------------------------------------------------------------------------------------

/// The LU factors of the transposes.
Lu factor(const char* name, const Tensor& a) { return factor_columns(name, clone(a.detach())); }

/// LAPACK's info for every matrix; fills the results of failed ones with NaN.
Tensor info_of(const Lu& lu, const Shape& batch, const Tensor& result) {
  const Tensor info = tensor(lu.info.data(), batch);
  const Tensor failed = for_matrices(ne(info, 0.0));
  copy_elements(result, where(failed, std::nan(""), result));
  return info;
}

/// Solves A X = B for matrices with the same batch. With `info` singular ones do not throw Error.
Tensor solve_matrices(const char* name, const Tensor& a, const Tensor& b, Tensor* info = nullptr) {
  const int64_t n = rows_of(a), columns = columns_of(b);
  const Shape batch = batch_of(a);
  const Lu lu = factor(name, a);
  if (!info) check_regular(name, lu);
  const Tensor x = clone(mT(b.detach()));
  const auto run = [&]<class T>(T* to, const T* factors, const int* pivots) {
    return lapack::lu_solve(true, int(n), int(columns), factors, pivots, to);
  };
  each(name, batch, double(n) * double(n + columns), run, x, lu.factors, As<int>{lu.pivots});
  const Tensor out = contiguous(mT(x));
  if (info) *info = info_of(lu, batch, out);
  static const NodeType type{"solve", [](Node& node, const Tensor& g, Tensor* dx) {
                               const Tensor gb = solve_matrices("solve", mT(node.get(0)), g);
                               if (node.wants(0)) dx[0] = -matmul(gb, mT(node.get(1)));
                               if (node.wants(1)) dx[1] = gb;
                             }};
  if (wants_grad(a, b))
    record(type, out, {&a, &b}).save(0, a, 0).save_for(0, 1, out, Node::kOutput);
  return out;
}

/// The result in the shape of the B that was given.
Tensor as_given(const System& s, bool left, const Tensor& x) {
  return s.vector ? squeeze(x, -1) : left ? x : mT(x);
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b, bool left, const char* name) {
  const System s = system_of(name, a, b, left, left);
  return back(as_given(s, left, solve_matrices(name, s.a, s.b)), a);
}

Checked solve_ex(const Tensor& a, const Tensor& b, bool left, bool check) {
  const System s = system_of("solve_ex", a, b, left, left);
  Checked out;
  if (check) out.info = zeros(batch_of(s.a), Dtype::i32);
  const Tensor x = solve_matrices("solve_ex", s.a, s.b, check ? nullptr : &out.info);
  out.result = as_given(s, left, x);
  return back(out, a);
}

/// Replaces the factors by the inverses.
static void invert(const char* name, const Lu& lu) {
  const int64_t n = rows_of(lu.factors);
  const auto run = [&]<class T>(T* to, const int* pivots) {
    const bool has_nan = std::any_of(to, to + n * n, [](T v) { return std::isnan(v); });
    if (!has_nan) return lapack::lu_inverse(int(n), to, pivots);
    std::fill(to, to + n * n, T(NAN));  // LAPACK would give zeros too
    return 0;
  };
  each(name, batch_of(lu.factors), double(n) * double(n), run, lu.factors, As<int>{lu.pivots});
}

static Tensor inverse(const char* name, const Tensor& given, Tensor* info = nullptr) {
  const Tensor a = square_matrices(name, given);
  const Lu lu = factor(name, a);
  if (!info) check_regular(name, lu);
  invert(name, lu);
  const Tensor out = lu.factors;
  if (info) *info = info_of(lu, batch_of(a), out);
  if (wants_grad(a)) {
    static const NodeType type{"inv", [](Node& node, const Tensor& g, Tensor* dx) {
                                 const Tensor back = mT(node.get(0));
                                 dx[0] = -matmul(back, matmul(g, back));
                               }};
    record(type, out, {&a}).save(0, out, Node::kOutput);
  }
  return back(out, given);
}

Tensor inv(const Tensor& a, const char* name) { return inverse(name, a); }

Checked inv_ex(const Tensor& a, bool check) {
  Checked out;
  out.result = inverse("inv_ex", a, check ? nullptr : &out.info);
  if (check) out.info = zeros(batch_of(a), Dtype::i32);
  return back(out, a);
}

// ---- determinants -------------------------------------------------------------------------------

namespace {

/// Calls f(matrix, element, whether its row was swapped) for the diagonal elements of U.
void each_pivot(const Lu& lu, const auto& f) {
  const int64_t n = rows_of(lu.factors), count = lu.pivots.numel();
  const Tensor u = contiguous(to(diagonal(lu.factors, 0, -2, -1), Dtype::f64));
  const double* const pivot = u.data_as<double>();
  const int* const row = lu.pivots.data_as<int>();
  for (int64_t i = 0, at = 0; at < count; ++i)
    for (int64_t k = 0; k < n; ++k, ++at) f(i, pivot[at], row[at] != k + 1);
}

/// The positions of the nearly singular matrices, estimated from the pivots, and those of the others:
/// of A^-T det A, the gradient, of these about two thirds of the digits are correct.
std::array<std::vector<int64_t>, 2> by_regularity(const Lu& lu, size_t count) {
  const double limit = std::cbrt(lu.factors.dtype() == Dtype::f64 ? 0x1p-52 : 0x1p-23);
  std::vector<double> smallest(count, HUGE_VAL), largest(count, 0.0);
  each_pivot(lu, [&](size_t i, double pivot, bool) {
    const double u = std::fabs(pivot);
    if (!(u >= smallest[i])) smallest[i] = u;
    if (!(u <= largest[i])) largest[i] = u;
  });
  std::array<std::vector<int64_t>, 2> at;
  for (size_t i = 0; i < count; ++i)
    at[smallest[i] <= limit * largest[i] ? 0 : 1].push_back(int64_t(i));
  return at;
}

/// Cofactors from the SVD: correct for every matrix, but not differentiable again.
Tensor cofactors_by_svd(const Tensor& a) {
  const int64_t n = rows_of(a);
  const Svd f = svd(a, false, "det");
  const Tensor mask = to(eye(n, n), Dtype::b8);
  const Tensor others = prod(where(mask, 1.0, unsqueeze(f.s, -2)), {-1});
  const Tensor sign = for_matrices(det(f.u) * det(f.vh));
  return matmul(f.u * unsqueeze(others, -2), f.vh) * op::sign(sign);
}

/// Cofactors as determinants of the minors without a row and a column: n^2 of them.
Tensor cofactors_by_minors(const Tensor& a) {
  const int64_t n = rows_of(a);
  if (n > 32)
    fail(
        "det: the second derivative of a singular {} x {} matrix is not available, only up to 32 x "
        "32",
        n, n);
  Tensor rest = empty({n * (n - 1)}, Dtype::i64);
  int64_t* at = rest.data_as<int64_t>();
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k)
      if (k != i) *at++ = k;
  const Tensor row = range(0, double(n) - 1, 1, a.dtype());
  const Tensor signs = 1.0 - remainder(unsqueeze(row, 1) + row, 2.0) * 2.0;
  const Shape batch = batch_of(a);
  Tensor m = reshape(index_select(a, -2, rest), joined(batch, {n, n - 1, n}));
  m = reshape(index_select(m, -1, rest), joined(batch, {n, n - 1, n, n - 1}));
  return det(transpose(m, -3, -2)) * signs;
}

void det_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor a = node.get(0), d = node.get(1);
  const Tensor grad = for_matrices(g);
  const Lu lu = factor("det", a);
  const auto [singular, regular] = by_regularity(lu, size_t(g.numel()));
  if (singular.empty() && !grad_enabled()) {
    invert("det", lu);
    return void(dx[0] = grad * for_matrices(d) * mT(lu.factors));
  }
  if (singular.empty()) return void(dx[0] = grad * for_matrices(d) * inv(mT(a), "det"));
  if (grad_enabled()) return void(dx[0] = grad * cofactors_by_minors(a));
  const Shape flat{g.numel(), rows_of(a), rows_of(a)};
  const Tensor cofactors = empty(flat, a.dtype());
  const auto set = [&](const std::vector<int64_t>& positions, const auto& cofactors_of) {
    const Tensor at = tensor(positions, {int64_t(positions.size())});
    const Tensor of = cofactors_of(index_select(reshape(a, flat), 0, at), at);
    index_copy(cofactors, 0, at, of, true);
  };
  set(singular, [](const Tensor& m, const Tensor&) { return cofactors_by_svd(m); });
  set(regular, [&](const Tensor& m, const Tensor& at) {
    return for_matrices(index_select(flatten(d), 0, at)) * inv(mT(m), "det");
  });
  dx[0] = grad * reshape(cofactors, a.shape());
}
const NodeType kDet{"det", det_backward};

Tensor from_values(const Shape& shape, Dtype dtype, const std::vector<double>& values) {
  Tensor out = empty(shape, dtype);
  with_dtype(dtype, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) out.data_as<T>()[i] = T(values[i]);
  });
  return out;
}

}  // namespace

Tensor det(const Tensor& given) {
  const Tensor a = square_matrices("det", given);
  const Lu lu = factor("det", a);
  std::vector<double> values(checked_count("det", batch_of(a)), 1.0);
  each_pivot(lu, [&](size_t i, double u, bool exchanged) { values[i] *= exchanged ? -u : u; });
  const Tensor out = from_values(batch_of(a), a.dtype(), values);
  if (wants_grad(a)) record(kDet, out, {&a}).save(0, a, 0).save(1, out, Node::kOutput);
  return back(out, given);
}

Slogdet slogdet(const Tensor& given) {
  const Tensor a = square_matrices("slogdet", given);
  const Lu lu = factor("slogdet", a);
  const Shape batch = batch_of(a);
  const size_t count = checked_count("slogdet", batch);
  std::vector<double> sign(count, 1.0), log(count, 0.0);
  each_pivot(lu, [&](size_t i, double u, bool exchanged) {
    sign[i] = u == 0 ? 0 : u != u ? u : u < 0 ? -sign[i] : sign[i];
    if (exchanged) sign[i] = -sign[i];
    log[i] += std::log(std::fabs(u));
  });
  const Slogdet out{from_values(batch, a.dtype(), sign), from_values(batch, a.dtype(), log)};
  if (wants_grad(a)) {
    static const NodeType type{"slogdet", [](Node& node, const Tensor& g, Tensor* dx) {
                                 dx[0] =
                                     for_matrices(g) * inv(mT(node.get(0)), "slogdet's gradient");
                               }};
    record(type, out.logabsdet, {&a}).save(0, a, 0);
  }
  return back(out, given);
}

Tensor logdet(const Tensor& a) {
  const Slogdet s = slogdet(a);
  return where(lt(s.sign, 0.0), std::nan(""), s.logabsdet);
}

// ---- triangular systems, Cholesky ---------------------------------------------------------------

namespace {

struct Triangle {
  bool upper, unit;
};

Tensor solve_triangles(const char* name, const Tensor& a, const Tensor& b, Triangle t) {
  const int64_t n = rows_of(a), columns = columns_of(b);
  const Shape batch = batch_of(a);
  const Tensor m = contiguous(a.detach()), x = clone(mT(b.detach()));
  const auto run = [&]<class T>(const T* one, T* to) {
    for (int64_t k = 0; k < n && !t.unit; ++k)
      if (one[k * (n + 1)] == 0) return int(k + 1);
    lapack::solve_triangle(!t.upper, true, t.unit, int(n), int(columns), one, to);
    return 0;
  };
  const std::vector<int> info = each(name, batch, double(n) * double(n + columns), run, m, x);
  if (const int64_t i = first_failed(info); i >= 0)
    fail("{}: {} is singular (element {} of its diagonal is 0)", name, which(batch, i),
         info[i] - 1 + message_base());
  const Tensor out = contiguous(mT(x));
  static const NodeType type{
      "solve_triangular", [](Node& node, const Tensor& g, Tensor* dx) {
        const auto [upper, unit] = node.kept<Triangle>();
        const Tensor gb = solve_triangles(node.type->name, mT(node.get(0)), g, {!upper, unit});
        if (node.wants(1)) dx[1] = gb;
        if (!node.wants(0)) return;
        const Tensor ga = -matmul(gb, mT(node.get(1)));
        dx[0] = upper ? triu(ga, unit) : tril(ga, -int64_t(unit));
      }};
  if (wants_grad(a, b))
    record(type, out, {&a, &b}).save(0, a, 0).save_for(0, 1, out, Node::kOutput).keep(t);
  return out;
}

/// dL = L phi(L^-1 dA L^-T) in reverse mode; phi keeps the lower triangle and halves the diagonal.
void cholesky_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor l = node.get(0), lt = mT(l);
  const Tensor phi = matmul(lt, g);
  const Tensor half = (tril(phi) + tril(phi, -1)) * 0.5;
  const Tensor left = solve_triangles("cholesky", lt, half, {true, false});
  const Tensor both = mT(solve_triangles("cholesky", lt, mT(left), {true, false}));
  dx[0] = (both + mT(both)) * 0.5;
}
const NodeType kCholesky{"cholesky", cholesky_backward};

Tensor cholesky_lower(const Tensor& a) {
  const int64_t n = rows_of(a);
  const Shape batch = batch_of(a);
  const Tensor out = clone(a.detach());
  const auto run = [&]<class T>(T* m) {
    for (int64_t r = 0; r < n; ++r) {
      if (!lapack::finite(m + r * n, r + 1)) return -1;
      for (int64_t c = r + 1; c < n; ++c) m[r * n + c] = 0;
    }
    return lapack::cholesky(int(n), m);
  };
  const std::vector<int> info = each("cholesky", batch, double(n) * double(n), run, out);
  if (const int64_t i = first_failed(info); i >= 0) {
    if (info[i] < 0) fail("cholesky: {} has NaN or infinite elements", which(batch, i));
    fail("cholesky: {} is not positive-definite (its leading minor of order {} is not positive)",
         which(batch, i), info[i]);
  }
  if (wants_grad(a)) record(kCholesky, out, {&a}).save(0, out, Node::kOutput);
  return out;
}

}  // namespace

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unitriangular,
                        const char* name) {
  if (b.dim() < 2)
    fail("{}: the right side must be a matrix, got {}; use b:unsqueeze(-1)", name, b.shape());
  const System s = system_of(name, a, b, left, false);
  const Triangle t{left ? upper : !upper, unitriangular};
  return back(as_given(s, left, solve_triangles(name, s.a, s.b, t)), a);
}

Tensor cholesky(const Tensor& given, bool upper) {
  const Tensor a = square_matrices("cholesky", given);
  return back(upper ? mT(cholesky_lower(mT(a))) : cholesky_lower(a), given);
}

Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper) {
  const Tensor first =
      solve_triangular(upper ? mT(factor) : factor, b, false, true, false, "cholesky_solve");
  return solve_triangular(upper ? factor : mT(factor), first, true, true, false, "cholesky_solve");
}

}  // namespace mt::linalg
