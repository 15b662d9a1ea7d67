// linalg.h -- linear algebra on batches of matrices, with gradients of every order (CPU, LAPACK)
//
// The last two dimensions are rows and columns, the ones before them a batch. The conventions are
// those of torch.linalg. Matrices of a GPU are copied to the CPU, and the results back.
#pragma once
#include <optional>
#include <string>

#include "engine/core/tensor.h"

namespace mt {
class Generator;  // engine/ops/generator.h

/// Maps (.., m, d) and (.., n, d) to the p-norms of all differences, (.., m, n). The gradient at
/// distance 0 is 0.
Tensor cdist(const Tensor&, const Tensor&, double p = 2);
}  // namespace mt
namespace mt::linalg {

// The functions take float32 or float64 and are differentiable unless noted otherwise. They throw
// Error for wrong shapes, and if an algorithm does not converge.

/// X with A X = B, or X A = B unless `left`; B is a vector if it has A's shape but the last size.
/// Throws Error for singular matrices.
Tensor solve(const Tensor& a, const Tensor& b, bool left = true, const char* name = "solve");
/// The inverse of square matrices. Throws Error for singular ones.
Tensor inv(const Tensor&, const char* name = "inv");
/// The determinants of square matrices, (..).
Tensor det(const Tensor&);
/// solve and inv without an Error for singular matrices, whose results are NaN: `info` (int32) has
/// for each matrix the number of its zero pivot, from 1, or 0. With `check` they throw Error.
struct Checked {
  Tensor result, info;
};
Checked solve_ex(const Tensor& a, const Tensor& b, bool left = true, bool check = false);
Checked inv_ex(const Tensor&, bool check = false);

/// L and U in one matrix; the row exchanges, from 1, as in LAPACK.
struct LuFactors {
  Tensor packed, pivots;
};
/// A = P L U for matrices of any shape. Throws Error for a 0 on U's diagonal.
LuFactors lu_factor(const Tensor&);
struct Plu {
  Tensor p, l, u;
};
Plu lu(const Tensor&);
/// X with A X = B, or A' X = B, or X A = B, X A' = B, with the factors of lu_factor.
Tensor lu_solve(const Tensor& packed, const Tensor& pivots, const Tensor& b, bool left = true,
                bool adjoint = false);
struct Slogdet {
  Tensor sign, logabsdet;
};
/// 0 and -inf for singular matrices.
Slogdet slogdet(const Tensor&);
/// log det; NaN where det is negative.
Tensor logdet(const Tensor&);
/// L with A = L L', or U with A = U' U. Only this triangle of A is read.
Tensor cholesky(const Tensor&, bool upper = false);
/// X with A X = B, given the Cholesky factor of A.
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper = false);
/// solve for triangular matrices; the other triangle of A is not read.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left = true,
                        bool unitriangular = false, const char* name = "solve_triangular");

struct Qr {
  Tensor q, r;
};
/// mode: 'reduced', 'complete' or 'r' (Q is empty).
Qr qr(const Tensor&, const std::string& mode = "reduced");
struct Svd {
  Tensor u, s, vh;
};
/// A = U diag(S) Vh, S descending. Gradients flow only through the first min(m, n) vectors.
Svd svd(const Tensor&, bool full_matrices = true, const char* name = "svd");
/// The first q singular values and vectors, A - mean = U diag(S) V', of a random projection of A, after
/// niter power iterations. S has fewer values if A has a smaller side.
struct LowRank {
  Tensor u, s, v;
};
LowRank svd_lowrank(const Tensor&, int64_t q = 6, int64_t niter = 2, const Tensor& mean = {},
                    Generator* = nullptr);
/// The same of A minus the mean of its rows: principal components; by default up to 6.
LowRank pca_lowrank(const Tensor&, std::optional<int64_t> q = {}, bool center = true,
                    int64_t niter = 2, Generator* = nullptr);
/// Only S.
Tensor svdvals(const Tensor&, const char* name = "svdvals");
struct Eigh {
  Tensor values, vectors;
};
/// A = V diag(w) V', w ascending, computed from one triangle of A.
Eigh eigh(const Tensor&, bool upper = false, const char* name = "eigh");
/// Only w.
Tensor eigvalsh(const Tensor&, bool upper = false, const char* name = "eigvalsh");

/// The real and imaginary parts of the eigenvalues of square matrices, then of the eigenvectors,
/// which have length 1 and arbitrary phase: functions that depend on the phase have no gradient.
struct Eig {
  Tensor wr, wi, vr, vi;
};
Eig eig(const Tensor&, const char* name = "eig");
/// Only the eigenvalues.
Eig eigvals(const Tensor&);
/// The matrix exponential.
Tensor matrix_exp(const Tensor&);

/// The threshold for singular values: those up to max(atol, rtol * the largest) are zero.
struct Tolerance {
  std::optional<double> atol, rtol;
};
/// The pseudoinverse (Moore and Penrose) by SVD; `hermitian`: by eigh, for symmetric matrices.
Tensor pinv(const Tensor&, const Tolerance& = {}, bool hermitian = false,
            const char* name = "pinv");
/// The number of singular values above the threshold, int64.
Tensor matrix_rank(const Tensor&, const Tolerance& = {}, bool hermitian = false);
struct Lstsq {
  Tensor solution, residuals, rank, singular_values;
};
/// X with the smallest |A X - B|; rcond: singular values up to rcond times the largest are zero.
/// driver: LAPACK's 'gelsy', 'gels', 'gelsd' or 'gelss'.
Lstsq lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond = {},
            const std::string& driver = "gelsy");

/// (sum |x|^p)^(1/p) over dims, or over all if dims is empty; p may be 0, inf, -inf.
Tensor vector_norm(const Tensor&, double p = 2, const Dims& dims = {}, bool keepdim = false,
                   const char* name = "vector_norm");
/// The order of a norm: a number, 'fro', 'nuc', or not given.
struct Order {
  enum Kind { none, number, fro, nuc } kind = none;
  double p = 2;
};
/// The norm of matrices in two dimensions.
Tensor matrix_norm(const Tensor&, const Order& = {Order::fro}, const Dims& dims = {-2, -1},
                   bool keepdim = false, const char* name = "matrix_norm");
/// The norm of a vector over one dimension (or all), or of a matrix over two.
Tensor norm(const Tensor&, const Order& = {}, const Dims& dims = {}, bool keepdim = false);
/// The norm times the norm of the inverse; inf for singular matrices.
Tensor cond(const Tensor&, const Order& = {});

/// The dot products of vectors along a dimension.
Tensor vecdot(const Tensor& x, const Tensor& y, Dim dim = -1);
/// The powers 0 .. n - 1 of each element, along a new last dimension; default n: x's size.
Tensor vander(const Tensor& x, std::optional<int64_t> n = {});
/// X with tensordot(A, X, X's dimensions) = B; first moves `dims` of A to the end.
Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& dims = {});
/// The inverse of A as a map from its last dimensions to the first `ind` ones.
Tensor tensorinv(const Tensor& a, int64_t ind = 2);
/// The inverse of the matrix with this Cholesky factor.
Tensor cholesky_inverse(const Tensor& factor, bool upper = false);
/// The n-th power of square matrices; a negative n uses the inverse.
Tensor matrix_power(const Tensor&, int64_t n);

}  // namespace mt::linalg
