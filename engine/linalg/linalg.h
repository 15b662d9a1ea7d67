// linalg.h -- linear algebra on batches of matrices, with gradients of every order (CPU, LAPACK)
//
// The last two dimensions are rows and columns, the ones before them a batch. float32 or float64.
// Matrices of a GPU go to the CPU, and the results back. Conventions as in torch.linalg.
#pragma once
#include <optional>
#include <string>

#include "engine/core/tensor.h"

namespace mt::linalg {

// Of matrices (.., m, n) and all their leading dimensions as batches, float32 or float64; gradients where not said
// otherwise. Throws Error for other shapes, and where an algorithm does not converge.

/// X with A X = B, or X A = B unless `left`; B is a vector where its shape is A's without a
/// dimension. Refuses singular matrices.
Tensor solve(const Tensor& a, const Tensor& b, bool left = true, const char* name = "solve");
/// The inverse of square matrices. Refuses singular ones.
Tensor inv(const Tensor&, const char* name = "inv");
/// The determinants of square matrices, (..).
Tensor det(const Tensor&);
/// solve and inv without refusing singular matrices, whose results are NaN: `info` (int32) says of each
/// which pivot is 0, from 1, or 0. With `check` they are refused nevertheless.
struct Checked {
  Tensor result, info;
};
Checked solve_ex(const Tensor& a, const Tensor& b, bool left = true, bool check = false);
Checked inv_ex(const Tensor&, bool check = false);

/// L and U in one matrix; the rows that were exchanged, from 1, as LAPACK's.
struct LuFactors {
  Tensor packed, pivots;
};
/// A = P L U for matrices of any shape. Refuses a 0 on U's diagonal.
LuFactors lu_factor(const Tensor&);
struct Plu {
  Tensor p, l, u;
};
Plu lu(const Tensor&);
/// X with A X = B, or A' X = B, or X A = B, X A' = B, from lu_factor.
Tensor lu_solve(const Tensor& packed, const Tensor& pivots, const Tensor& b, bool left = true,
                bool adjoint = false);
struct Slogdet {
  Tensor sign, logabsdet;
};
/// 0 and -inf for singular matrices.
Slogdet slogdet(const Tensor&);
/// log det, NaN where det is negative.
Tensor logdet(const Tensor&);
/// L with A = L L', or U with A = U' U. Only that triangle of A is read.
Tensor cholesky(const Tensor&, bool upper = false);
/// X with A X = B from the Cholesky factor of A.
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper = false);
/// The same as solve for a triangle; the rest of A is not read.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left = true,
                        bool unitriangular = false, const char* name = "solve_triangular");

struct Qr {
  Tensor q, r;
};
/// mode: 'reduced', 'complete' or 'r' (then Q is empty).
Qr qr(const Tensor&, const std::string& mode = "reduced");
struct Svd {
  Tensor u, s, vh;
};
/// A = U diag(S) Vh, S descending. Gradients flow to the first min(m, n) vectors.
Svd svd(const Tensor&, bool full_matrices = true, const char* name = "svd");
/// S alone.
Tensor svdvals(const Tensor&, const char* name = "svdvals");
struct Eigh {
  Tensor values, vectors;
};
/// A = V diag(w) V', w ascending, from one triangle of A.
Eigh eigh(const Tensor&, bool upper = false, const char* name = "eigh");
/// w alone.
Tensor eigvalsh(const Tensor&, bool upper = false, const char* name = "eigvalsh");

/// Real and imaginary parts of the eigenvalues of any square matrix, then of the vectors, which have
/// length 1 and a free phase: functions that depend on it have no gradient.
struct Eig {
  Tensor wr, wi, vr, vi;
};
Eig eig(const Tensor&, const char* name = "eig");
/// Without vectors.
Eig eigvals(const Tensor&);
/// The sum of A^k / k!.
Tensor matrix_exp(const Tensor&);

/// What counts as zero among singular values: those up to max(atol, rtol * the largest).
struct Tolerance {
  std::optional<double> atol, rtol;
};
/// The pseudoinverse (Moore and Penrose), by the SVD; `hermitian`: by eigh, of symmetric matrices.
Tensor pinv(const Tensor&, const Tolerance& = {}, bool hermitian = false);
/// How many singular values do not count as zero, int64.
Tensor matrix_rank(const Tensor&, const Tolerance& = {}, bool hermitian = false);
struct Lstsq {
  Tensor solution, residuals, rank, singular_values;
};
/// X with the least |A X - B|; rcond: singular values up to rcond times the largest count as zero.
/// driver: 'gelsy', 'gels', 'gelsd' or 'gelss', as LAPACK calls them.
Lstsq lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond = {},
            const std::string& driver = "gelsy");

/// (sum |x|^p)^(1/p) over dims, or over all when there are none; p may be 0, inf, -inf.
Tensor vector_norm(const Tensor&, double p = 2, const Dims& dims = {}, bool keepdim = false,
                   const char* name = "vector_norm");
/// The order of a norm: a number, 'fro', 'nuc', or none.
struct Order {
  enum Kind { none, number, fro, nuc } kind = none;
  double p = 2;
};
/// A matrix's norm, over the two dimensions.
Tensor matrix_norm(const Tensor&, const Order& = {Order::fro}, const Dims& dims = {-2, -1},
                   bool keepdim = false, const char* name = "matrix_norm");
/// A vector's norm over one dimension (or all), a matrix's over two.
Tensor norm(const Tensor&, const Order& = {}, const Dims& dims = {}, bool keepdim = false);
/// The norm times that of the inverse; inf for singular matrices.
Tensor cond(const Tensor&, const Order& = {});

/// The products of vectors along a dimension.
Tensor vecdot(const Tensor& x, const Tensor& y, Dim dim = -1);
/// The powers 0 .. n - 1 of each element, along a new last dimension; n: as many as elements.
Tensor vander(const Tensor& x, std::optional<int64_t> n = {});
/// X with tensordot(A, X, its dimensions) = B; `dims` of A go last before.
Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& dims = {});
/// The inverse of A as a map from its last dimensions to the first `ind`.
Tensor tensorinv(const Tensor& a, int64_t ind = 2);
/// The inverse of the matrix of which this is the Cholesky factor.
Tensor cholesky_inverse(const Tensor& factor, bool upper = false);
/// x to the n-th power, for batches of square matrices; a negative n takes the inverse.
Tensor matrix_power(const Tensor&, int64_t n);

}  // namespace mt::linalg
