// eig.cpp -- eigenvalues and eigenvectors of square matrices, complex ones as two real tensors

#include "engine/linalg/common.h"

namespace mt::linalg {
namespace {

Eig eig_values(const char* name, const Tensor& a, bool vectors) {
  const int64_t n = rows_of(a), sides = vectors ? n : 0;
  const Shape batch = batch_of(a);
  check_workspace(name, n);
  const auto values = [&] { return empty(joined(batch, {n}), a.dtype()); };
  const auto matrices = [&] { return empty(joined(batch, {sides, sides}), a.dtype()); };
  Eig f{values(), values(), matrices(), matrices()};
  const Tensor work = clone(mT(a.detach())), columns = matrices();
  const auto run = [&]<class T>(T* w, T* v, T* wr, T* wi, T* vr, T* vi) {
    if (!lapack::finite(w, n * n)) return -1;
    if (const int failed = n ? lapack::eig(vectors, int(n), w, wr, wi, v) : 0) return failed;
    for (int64_t c = 0; c < sides; ++c) {
      // The first one of a conjugate pair has the positive imaginary part.
      const bool complex = wi[c] != 0, second = wi[c] < 0;
      const T *re = v + (second ? c - 1 : c) * n, *im = v + (second ? c : c + 1) * n;
      for (int64_t r = 0; r < n; ++r) {
        vr[r * n + c] = re[r];
        vi[r * n + c] = !complex ? T(0) : second ? -im[r] : im[r];
      }
    }
    return 0;
  };
  check_converged(
      name, batch,
      each(name, batch, double(n) * double(n), run, work, columns, f.wr, f.wi, f.vr, f.vi));
  return f;
}

/// A complex tensor as two real tensors.
struct Complex {
  Tensor re, im;
};
/// v' x, v' the conjugate transpose.
Complex adjoint_times(const Complex& v, const Complex& x) {
  const Tensor vr = mT(v.re), vi = mT(v.im);
  return {matmul(vr, x.re) + matmul(vi, x.im), matmul(vr, x.im) - matmul(vi, x.re)};
}

/// A V = V diag(w) in differentials, for vectors of length 1 with arbitrary phase (Boeddeker et al.
/// 2017, in PyTorch's form): V^-H (diag(gw) + (V^H gV - V^H V diag(re V^H gV)) / conj(E)) V^H with
/// E(i, j) = w(j) - w(i).
Tensor eig_gradient(const TensorList& saved, const TensorList& g) {
  const Complex w{saved[0], saved[1]}, v{saved[2], saved[3]}, gw{g[0], g[1]}, gv{g[2], g[3]};
  const int64_t n = rows_of(v.re);
  const Tensor one = eye(n, n, w.re.dtype()), diagonal_only = to(one, Dtype::b8);
  Complex inner{where(diagonal_only, unsqueeze(gw.re, -1), 0.0),
                where(diagonal_only, unsqueeze(gw.im, -1), 0.0)};
  const bool uses_vectors = any(gv.re).item() != 0 || any(gv.im).item() != 0;
  if (uses_vectors && n > 0) {
    Complex vhgv = adjoint_times(v, gv);
    if (amax(abs(diagonal(vhgv.im, 0, -2, -1))).item() > 1e-2)
      fail(
          "eig: the result depends on the phase of the eigenvectors, which is arbitrary; use what does "
          "not depend on it, such as vr^2 + vi^2");
    const Tensor length = unsqueeze(diagonal(vhgv.re, 0, -2, -1), -2);
    const Complex own = adjoint_times(v, {v.re * length, v.im * length});
    vhgv = {vhgv.re - own.re, vhgv.im - own.im};
    const Tensor er = unsqueeze(w.re, -2) - unsqueeze(w.re, -1) + one,
                 ei = unsqueeze(w.im, -2) - unsqueeze(w.im, -1);
    const Tensor size = square(er) + square(ei);
    inner.re = where(diagonal_only, inner.re, (vhgv.re * er - vhgv.im * ei) / size);
    inner.im = where(diagonal_only, inner.im, (vhgv.re * ei + vhgv.im * er) / size);
  }
  // Multiplies (inner V^H) from the left by V^-H: solves a real system of twice the size, of which
  // the real half is the result.
  const Tensor vr = mT(v.re), vi = mT(v.im);
  const Tensor right = cat(
      {matmul(inner.re, vr) + matmul(inner.im, vi), matmul(inner.im, vr) - matmul(inner.re, vi)},
      -2);
  const Tensor left = cat({cat({vr, vi}, -1), cat({-vi, vr}, -1)}, -2);
  return slice(solve(left, right, true, "eig's gradient"), -2, 0, n);
}

}  // namespace

Eig eig(const Tensor& given, const char* name) {
  const Tensor a = square_matrices(name, given);
  const Eig f = eig_values(name, a, true);
  const TensorList y = record_results("eig", a, {f.wr, f.wi, f.vr, f.vi}, eig_gradient);
  return back(Eig{y[0], y[1], y[2], y[3]}, given);
}

Eig eigvals(const Tensor& given) {
  const Tensor a = square_matrices("eigvals", given);
  return back(wants_grad(a) ? eig(a, "eigvals") : eig_values("eigvals", a, false), given);
}

}  // namespace mt::linalg
