// lapack.h -- the factorizations of LAPACK, for one matrix at a time
//
// These are plain functions, not verbs: a GPU library factors whole batches in its own layouts, so
// a second device would share no signature; until then the engine rejects other devices.
//
// Matrices are column-major, without gaps. T is float or double. The engine has checked every
// argument: sizes fit 32 bits, values are finite where required, openblas::open() is not null. Large
// LU, Cholesky, QR, eigh and svd, and triangular systems, run on all threads, the others on one; bits
// do not depend on the number of threads. Results are LAPACK's `info`: 0 is success, i > 0 is the
// index of the pivot, minor or value that failed. kNoMemory is not a code of LAPACK.
#pragma once
#include "kernels/base.h"

namespace mt::lapack {

constexpr int kNoMemory = -1000;
/// The largest side, and the largest shorter side if the workspace grows with its square: LAPACK's
/// own 32-bit sizes overflow above these.
constexpr int64_t kMaxSide = 1 << 24, kMaxSquare = 16000;

/// Whether a call is running, which Ctrl-C cannot interrupt; safe to call in a signal handler.
bool is_running();
/// Whether all n elements are finite, neither NaN nor infinite.
template <class T> bool finite(const T* x, int64_t n);

/// Replaces an m x n matrix A = P L U by L and U. i > 0: U(i, i) is exactly 0. pivots: min(m, n), from 1.
template <class T> int lu(int m, int n, T* a, int* pivots);
/// Replaces b (n x columns) by the solution of A x = b, or A' x = b, with the result of lu.
template <class T>
int lu_solve(bool transposed, int n, int columns, const T* a, const int* pivots, T* b);
/// The inverse from the result of lu, in place.
template <class T> int lu_inverse(int n, T* a, const int* pivots);
/// Replaces the upper triangle by U with A = U' U; the lower one is not accessed.
template <class T> int cholesky(int n, T* a);
/// Replaces b (n x columns) by the solution of A x = b, A triangular; a zero diagonal gives inf.
template <class T>
void solve_triangle(bool upper, bool transposed, bool unit, int n, int columns, const T* a, T* b);
/// Replaces a by R and, below the diagonal, the Householder vectors. tau: min(m, n).
template <class T> int qr(int m, int n, T* a, T* tau);
/// Computes the first `columns` columns of Q from k Householder vectors, in place (m x columns).
template <class T> int qr_q(int m, int columns, int k, T* a, const T* tau);
/// job: 'N' only values, 'S' the first min(m, n) vectors, 'A' all. Needs finite values; destroys a. Large matrices run
/// on all threads if m >= n.
template <class T> int svd(char job, int m, int n, T* a, T* s, T* u, T* vt);
/// Ascending eigenvalues from the upper (or lower) triangle; a is replaced by the vectors if
/// requested. Needs finite values.
template <class T> int eigh(bool vectors, bool upper, int n, T* a, T* values);
/// Eigenvalues of a square matrix as real and imaginary parts; the right vectors if requested: a
/// complex pair's are v[i] + i v[i + 1] and its conjugate. Needs finite values; destroys a.
template <class T> int eig(bool vectors, int n, T* a, T* wr, T* wi, T* v);

enum class LeastSquares : int { qr, pivoted, svd, divide };  // LAPACK's gels, gelsy, gelss, gelsd
/// Minimizes |A x - b| for A m x n; b has max(m, n) rows and is replaced by x. `s`: min(m, n)
/// singular values, set by svd and divide. `rcond`: singular values below rcond times the largest
/// count as 0. `rank` is set, except by qr, which needs full rank. Needs finite values.
template <class T>
int least_squares(LeastSquares how, int m, int n, int columns, T* a, T* b, T rcond, T* s,
                  int* rank);

}  // namespace mt::lapack
