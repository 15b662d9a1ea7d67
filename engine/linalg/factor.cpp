// factor.cpp -- QR, singular values, eigenvalues, and functions based on them
#include <limits>

#include "engine/linalg/common.h"
#include "engine/ops/random.h"

namespace mt::linalg {
namespace {

// ---- QR -----------------------------------------------------------------------------------------

/// The number of columns that means that Q is not computed.
constexpr int64_t kNoQ = -1;
Qr qr_values(const Tensor& a, int64_t q_columns) {
  const int64_t m = rows_of(a), n = columns_of(a), k = std::min(m, n),
                wide = std::max(n, q_columns);
  const Shape batch = batch_of(a);
  // Column-major: the matrix, then the additional columns of Q.
  Tensor work = empty(joined(batch, {wide, m}), a.dtype());
  copy_elements(slice(work, -2, 0, n), mT(a.detach()));
  const int64_t r_rows = std::max(k, q_columns);
  const Tensor tau = empty(joined(batch, {k}), a.dtype()),
               r = empty(joined(batch, {n, r_rows}), a.dtype());
  const auto run = [&]<class T>(T* w, T* t, T* to) {
    const bool finite = lapack::finite(w, m * n);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    if (const int info = finite ? lapack::qr(int(m), int(n), w, t) : 0; info != 0) return info;
    for (int64_t c = 0; c < n; ++c)
      for (int64_t row = 0; row < r_rows; ++row)
        to[c * r_rows + row] = row > c ? T(0) : finite ? w[c * m + row] : nan;
    for (int64_t e = 0; !finite && e < wide * m; ++e) w[e] = nan;
    if (q_columns <= 0 || !finite) return 0;
    return lapack::qr_q(int(m), int(q_columns), int(std::min(k, q_columns)), w, t);
  };
  each("qr", batch, double(m) * double(n), run, work, tau, r);
  return {q_columns == kNoQ ? empty({0}, a.dtype()) : contiguous(mT(slice(work, -2, 0, q_columns))),
          contiguous(mT(r))};
}

/// For matrices with at least as many rows as columns (Walter and Lehmann 2018).
Tensor tall_gradient(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr) {
  const Tensor m = matmul(r, mT(gr)) - matmul(mT(gq), q);
  const Tensor symmetric = tril(m) + mT(tril(m, -1));
  const Tensor right = gq + matmul(q, symmetric);
  return mT(solve_triangular(r, mT(right), true, true, false, "qr's gradient"));
}

Tensor qr_gradient(const TensorList& saved, const TensorList& g) {
  const Tensor &q = saved[0], &r = saved[1], &a = saved[2], &gq = g[0], &gr = g[1];
  const int64_t m = rows_of(a), n = columns_of(a);
  if (columns_of(q) > std::min(m, n))
    fail("qr: with mode 'complete' and more rows than columns there is no gradient; use 'reduced'");
  if (m >= n) return tall_gradient(q, r, gq, gr);
  // A = [X Y] = Q [U V]: V = Q' Y.
  const Tensor y = slice(a, -1, m, n - m), gv = slice(gr, -1, m, n - m);
  const Tensor gx =
      tall_gradient(q, slice(r, -1, 0, m), gq + matmul(y, mT(gv)), slice(gr, -1, 0, m));
  return cat({gx, matmul(q, gv)}, -1);
}

// ---- singular values ----------------------------------------------------------------------------

/// job is LAPACK's: 'N', 'S', 'A'. The memory of a matrix with more columns than rows is its column-major transpose,
/// which LAPACK decomposes: left vectors are then right ones. Others are transposed, so that LAPACK's is never wide.
Svd svd_values(const char* name, const Tensor& a, char job) {
  if (rows_of(a) > columns_of(a)) {
    const Svd f = svd_values(name, mT(a), job);
    return {contiguous(mT(f.vh)), f.s, contiguous(mT(f.u))};
  }
  const int64_t m = rows_of(a), n = columns_of(a);
  const Shape batch = batch_of(a);
  check_workspace(name, m);
  const int64_t mu = job == 'N' ? 0 : m, nv = job == 'A' ? n : mu;
  Svd f{empty(joined(batch, {m, mu}), a.dtype()), empty(joined(batch, {m}), a.dtype()),
        empty(joined(batch, {nv, n}), a.dtype())};
  const Tensor work = clone(a.detach());
  const auto run = [&]<class T>(T* w, T* u, T* s, T* vh) {
    if (!lapack::finite(w, m * n)) return -1;
    for (int64_t e = 0; m == 0 && e < nv * n; ++e) vh[e] = T(e % (n + 1) == 0);
    return m == 0 ? 0 : lapack::svd(job, int(n), int(m), w, s, vh, u);
  };
  check_converged(name, batch, each(name, batch, double(m) * double(n), run, work, f.u, f.s, f.vh));
  return f;
}

/// Whether the result depends on vectors with this gradient.
bool has_gradient(const Tensor& g) { return g.numel() > 0 && any(g).item() != 0; }

/// 1 / x. Vectors are not unique where x is 0: inf, as in PyTorch, if the result uses them, or 0.
Tensor reciprocal_for(bool used, const Tensor& x) {
  return used ? reciprocal(x) : reciprocal_or_zero(x);
}

Tensor skew(const Tensor& x) { return x - mT(x); }

/// As in PyTorch (Townsend 2016); `gaps` are the reciprocal differences of squared singular values.
Tensor svd_gradient(const TensorList& saved, const TensorList& g) {
  const Tensor &u = saved[0], &s = saved[1], &vh = saved[2], &gu = g[0], &gs = g[1], &gvh = g[2];
  const int64_t m = rows_of(u), n = columns_of(vh), k = s.size(-1);
  const Tensor row = unsqueeze(s, -2), column = unsqueeze(s, -1);
  const bool left = has_gradient(gu), right = has_gradient(gvh);
  if (!left && !right && !grad_enabled()) return matmul(u * unsqueeze(gs, -2), vh);
  const Tensor ones = eye(k, k, s.dtype());
  const Tensor gaps = reciprocal_for(left || right, (row - column) * (row + column) + ones);
  const Tensor ugu = matmul(mT(u), gu), vgv = matmul(vh, mT(gvh));
  const Tensor identity = to(ones, Dtype::b8);
  const Tensor inner = skew(ugu) * gaps * row + column * (skew(vgv) * gaps) +
                       where(identity, unsqueeze(gs, -1), 0.0);
  Tensor sum = matmul(matmul(u, inner), vh);
  if (m > k) {
    const Tensor rest = (gu - matmul(u, ugu)) * unsqueeze(reciprocal_for(left, s), -2);
    sum = sum + matmul(rest, vh);
  }
  if (n > k) {
    const Tensor rest = unsqueeze(reciprocal_for(right, s), -1) * (gvh - matmul(mT(vgv), vh));
    sum = sum + matmul(u, rest);
  }
  return sum;
}

// ---- eigenvalues --------------------------------------------------------------------------------

Eigh eigh_values(const char* name, const Tensor& a, bool upper, bool vectors) {
  const int64_t n = rows_of(a);
  const Shape batch = batch_of(a);
  check_workspace(name, n);
  Eigh f{empty(joined(batch, {n}), a.dtype()), clone(a.detach())};
  const auto run = [&]<class T>(T* w, T* values) {
    for (int64_t r = 0; r < n; ++r)
      if (!lapack::finite(w + r * n + (upper ? r : 0), upper ? n - r : r + 1)) return -1;
    return lapack::eigh(vectors, !upper, int(n), w, values);
  };
  check_converged(name, batch, each(name, batch, double(n) * double(n), run, f.vectors, f.values));
  f.vectors = contiguous(mT(f.vectors));
  return f;
}

Tensor eigh_gradient(const TensorList& saved, const TensorList& g) {
  const Tensor &w = saved[0], &v = saved[1], &gw = g[0], &gv = g[1];
  const bool used = has_gradient(gv);
  if (!used && !grad_enabled()) return matmul(v * unsqueeze(gw, -2), mT(v));
  const Tensor ones = eye(w.size(-1), w.size(-1), w.dtype());
  const Tensor gaps = reciprocal_for(used, unsqueeze(w, -2) - unsqueeze(w, -1) + ones);
  // V stays orthogonal: only the skew part of its differential contributes, and A's gradient is
  // symmetric.
  const Tensor inner =
      where(to(ones, Dtype::b8), unsqueeze(gw, -1), skew(matmul(mT(v), gv)) * gaps * 0.5);
  return matmul(v, matmul(inner, mT(v)));
}

}  // namespace

Qr qr(const Tensor& given, const std::string& mode) {
  if (mode != "reduced" && mode != "complete" && mode != "r")
    fail("qr: the mode is '{}'; use 'reduced', 'complete' or 'r'", mode);
  const Tensor a = matrices("qr", given);
  const int64_t m = rows_of(a), k = std::min(m, columns_of(a));
  const bool no_q = mode == "r";
  const Qr f = qr_values(a, no_q && !wants_grad(a) ? kNoQ : mode == "complete" ? m : k);
  const TensorList y = record_results("qr", a, {f.q, f.r}, qr_gradient, true);
  return back(Qr{no_q ? empty({0}, a.dtype()) : y[0], y[1]}, given);
}

Svd svd(const Tensor& given, bool full_matrices, const char* name) {
  const Tensor a = matrices(name, given);
  const int64_t m = rows_of(a), n = columns_of(a), k = std::min(m, n);
  const Svd f = svd_values(name, a, full_matrices ? 'A' : 'S');
  if (!wants_grad(a)) return back(f, given);
  const auto first = [&](const Tensor& x, int d) {
    return x.size(d) > k ? clone(slice(x, d, 0, k)) : x;
  };
  const TensorList y =
      record_results("svd", a, {first(f.u, -1), f.s, first(f.vh, -2)}, svd_gradient);
  Svd out{y[0], y[1], y[2]};
  // The additional vectors are an arbitrary basis of the complement: constants.
  if (full_matrices && m > k) out.u = cat({out.u, slice(f.u, -1, k, m - k)}, -1);
  if (full_matrices && n > k) out.vh = cat({out.vh, slice(f.vh, -2, k, n - k)}, -2);
  return back(out, given);
}

Tensor svdvals(const Tensor& given, const char* name) {
  const Tensor a = matrices(name, given);
  return back(wants_grad(a) ? svd(a, false, name).s : svd_values(name, a, 'N').s, given);
}

Eigh eigh(const Tensor& given, bool upper, const char* name) {
  const Tensor a = square_matrices(name, given);
  const Eigh f = eigh_values(name, a, upper, true);
  const TensorList y = record_results("eigh", a, {f.values, f.vectors}, eigh_gradient);
  return back(Eigh{y[0], y[1]}, given);
}

Tensor eigvalsh(const Tensor& given, bool upper, const char* name) {
  const Tensor a = square_matrices(name, given);
  const Eigh f = wants_grad(a) ? eigh(a, upper, name) : eigh_values(name, a, upper, false);
  return back(f.values, given);
}

// ---- from singular values -----------------------------------------------------------------------

namespace {

double eps_of(Dtype d) { return d == Dtype::f64 ? 0x1p-52 : 0x1p-23; }

/// The threshold of zero, relative to the largest of `values` (last dimension, kept).
Tensor threshold_of(const char* name, const Tensor& a, const Tensor& values, const Tolerance& t) {
  if ((t.atol && !(*t.atol >= 0)) || (t.rtol && !(*t.rtol >= 0)))
    fail("{}: atol and rtol must be 0 or more", name);
  const double sides = double(std::max(rows_of(a), columns_of(a)));
  const double rtol = t.rtol ? *t.rtol : t.atol && *t.atol > 0 ? 0 : sides * eps_of(a.dtype());
  return maximum(amax(values, {-1}, true) * rtol, t.atol.value_or(0));
}

Tensor pinv_values(const char* name, const Tensor& a, const Tolerance& t, bool hermitian) {
  if (a.numel() == 0) return zeros(joined(batch_of(a), {columns_of(a), rows_of(a)}), a.dtype());
  // V diag(values)^-1 U'
  const auto inverted = [&](const Tensor& v, const Tensor& values, const Tensor& u) {
    const Tensor size = abs(values), is_zero = le(size, threshold_of(name, a, size, t));
    return matmul(v * unsqueeze(where(is_zero, 0.0, reciprocal(values)), -2), mT(u));
  };
  if (hermitian) {
    const Eigh f = eigh(a.detach(), false, name);
    return inverted(f.vectors, f.values, f.vectors);
  }
  const Svd f = svd(a.detach(), false, name);
  return inverted(mT(f.vh), f.s, f.u);
}

/// The gradient of <g, pinv(A)> by A, for constant rank (Golub and Pereyra 1973).
Tensor pinv_gradient(const Tensor& a, const Tensor& p, const Tensor& g) {
  const Tensor pt = mT(p), gt = mT(g);
  const Tensor gp = matmul(gt, p), pg = matmul(p, gt);
  const Tensor outside = matmul(gp, pt), inside = matmul(pt, pg);
  return outside - matmul(a, matmul(p, outside)) + inside - matmul(matmul(inside, p), a) -
         matmul(pt, matmul(g, pt));
}

const NodeType kPinv{"pinv", [](Node& node, const Tensor& g, Tensor* dx) {
                       dx[0] = pinv_gradient(node.get(0), node.get(1), g);
                     }};

}  // namespace

Tensor pinv(const Tensor& given, const Tolerance& t, bool hermitian, const char* name) {
  const Tensor a = (hermitian ? square_matrices : matrices)(name, given);
  const Tensor out = pinv_values(name, a, t, hermitian);
  if (wants_grad(a)) record(kPinv, out, {&a}).save(0, a, 0).save(1, out, Node::kOutput);
  return back(out, given);
}

Tensor matrix_rank(const Tensor& given, const Tolerance& t, bool hermitian) {
  NoGrad off;
  const Tensor a = (hermitian ? square_matrices : matrices)("matrix_rank", given);
  if (a.numel() == 0) return zeros(batch_of(a), Dtype::i64, given.device());
  const Tensor s = hermitian ? abs(eigvalsh(a, false, "matrix_rank")) : svdvals(a, "matrix_rank");
  return back(sum(to(gt(s, threshold_of("matrix_rank", a, s, t)), Dtype::i64), {-1}), given);
}

// ---- by random projection (Halko, Martinsson and Tropp 2011, algorithm 5.1) ----------------------

/// Orthonormal columns whose span is close to that of A's first q left singular vectors.
static Tensor basis(const Tensor& a, int64_t q, int64_t niter, Generator* generator) {
  const Tensor random = randn({columns_of(a), q}, a.dtype(), a.device(), generator);
  Tensor columns = qr(matmul(a, random)).q;
  for (int64_t i = 0; i < niter; ++i) columns = qr(matmul(a, qr(matmul(mT(a), columns)).q)).q;
  return columns;
}

static LowRank low_rank(const char* name, const Tensor& a, int64_t wanted, int64_t niter,
                        Generator* generator) {
  if (wanted < 1) fail("{}: q is {}, it must be at least 1", name, wanted);
  if (niter < 0 || niter > 1000) fail("{}: niter is {}, it must be from 0 to 1000", name, niter);
  const int64_t q = std::min({wanted, rows_of(a), columns_of(a)});
  if (rows_of(a) < columns_of(a)) {
    const Tensor b = basis(mT(a), q, niter, generator);
    const Svd f = svd(matmul(a, b), false, name);
    return {f.u, f.s, matmul(b, mT(f.vh))};
  }
  const Tensor b = basis(a, q, niter, generator);
  const Svd f = svd(matmul(mT(b), a), false, name);
  return {matmul(b, f.u), f.s, mT(f.vh)};
}

LowRank svd_lowrank(const Tensor& a, int64_t q, int64_t niter, const Tensor& mean,
                    Generator* generator) {
  matrices("svd_lowrank", a);
  return low_rank("svd_lowrank", mean.defined() ? a - mean : a, q, niter, generator);
}

LowRank pca_lowrank(const Tensor& a, std::optional<int64_t> q, bool center, int64_t niter,
                    Generator* generator) {
  matrices("pca_lowrank", a);
  const int64_t most = std::min(rows_of(a), columns_of(a));
  if (q && *q > most)
    fail("pca_lowrank: q is {}, {} has at most {} components", *q, a.shape(), most);
  return low_rank("pca_lowrank", center ? a - mean(a, {-2}, true) : a,
                  q.value_or(std::min<int64_t>(6, most)), niter, generator);
}

// ---- least squares ------------------------------------------------------------------------------

namespace {

lapack::LeastSquares driver_named(const std::string& name) {
  if (name == "gelsy") return lapack::LeastSquares::pivoted;
  if (name == "gels") return lapack::LeastSquares::qr;
  if (name == "gelsd") return lapack::LeastSquares::divide;
  if (name == "gelss") return lapack::LeastSquares::svd;
  fail("lstsq: the driver is '{}'; use 'gelsy', 'gels', 'gelsd' or 'gelss'", name);
}

/// The result without residuals. `full`: whether every matrix has full rank.
Lstsq solve_least_squares(const Tensor& a, const Tensor& b, double rcond, lapack::LeastSquares how,
                          bool& full) {
  using lapack::LeastSquares;
  const Shape batch = batch_of(a);
  const int64_t m = rows_of(a), n = columns_of(a), k = std::min(m, n), columns = columns_of(b),
                tall = std::max(m, n);
  check_workspace("lstsq", k);
  const Tensor work = clone(mT(a.detach())), x = zeros(joined(batch, {columns, tall}), a.dtype());
  copy_elements(slice(x, -1, 0, m), mT(b.detach()));
  Lstsq out{
      {}, empty({0}, a.dtype()), empty(batch, Dtype::i64), empty(joined(batch, {k}), a.dtype())};
  const auto run = [&]<class T>(T* one, T* to, T* values, int64_t* rank) {
    int found = int(k);
    if (!lapack::finite(one, m * n) || !lapack::finite(to, columns * tall)) return -1;
    const int failed = k == 0 || columns == 0
                           ? 0
                           : lapack::least_squares(how, int(m), int(n), int(columns), one, to,
                                                   T(rcond), values, &found);
    for (int64_t e = 0; k == 0 && e < columns * tall; ++e) to[e] = 0;
    *rank = found;
    return failed;
  };
  const std::vector<int> info = each("lstsq", batch, double(m) * double(n), run, work, x,
                                     out.singular_values, As<int64_t>{out.rank});
  if (const int64_t i = first_failed(info); i >= 0) {
    if (info[i] < 0)
      fail("lstsq: {} or its right side has NaN or infinite elements", which(batch, i));
    if (how == LeastSquares::qr)
      fail("lstsq: {} lacks full rank, which driver 'gels' needs; use 'gelsy'", which(batch, i));
    check_converged("lstsq", batch, info);
  }
  full = true;
  for (int64_t i = 0; i < out.rank.numel(); ++i) full &= out.rank.at_integer(i) == k;
  if (how == LeastSquares::qr) out.rank = empty({0}, Dtype::i64);
  if (how != LeastSquares::svd && how != LeastSquares::divide)
    out.singular_values = empty({0}, a.dtype());
  out.solution = contiguous(mT(slice(x, -1, 0, n)));
  return out;
}

void lstsq_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor a = node.get(0), b = node.get(1);
  const Tensor p = pinv(a, {{}, node.kept<double>()}, false, "lstsq");
  if (node.wants(0)) dx[0] = pinv_gradient(a, p, matmul(g, mT(b)));
  if (node.wants(1)) dx[1] = matmul(mT(p), g);
}
const NodeType kLstsq{"lstsq", lstsq_backward};

}  // namespace

Lstsq lstsq(const Tensor& a0, const Tensor& b0, std::optional<double> rcond,
            const std::string& driver) {
  const lapack::LeastSquares how = driver_named(driver);
  const auto [a, b, vector] = system_of("lstsq", a0, b0, true, true, false);
  const double limit =
      rcond.value_or(eps_of(a.dtype()) * double(std::max(rows_of(a), columns_of(a))));
  if (!(limit == limit)) fail("lstsq: rcond is nan");
  bool full;
  Lstsq out = solve_least_squares(a, b, limit, how, full);
  if (wants_grad(a, b))
    record(kLstsq, out.solution, {&a, &b}).save(0, a, 0).save(1, b, 1).keep(std::max(limit, 0.0));
  if (rows_of(a) > columns_of(a) && columns_of(a) > 0 && full)
    out.residuals = sum(square(matmul(a, out.solution) - b), {-2});
  if (vector) out.solution = squeeze(out.solution, -1);
  return back(out, a0);
}

}  // namespace mt::linalg
