// lapack.h -- the factorisations of LAPACK, for one matrix at a time
//
// Plain functions, not verbs: a GPU's library factors whole batches in its own layouts, so a second
// device would share none of these signatures; until one comes the engine refuses by name.
//
// Matrices lie in memory by columns, without gaps. T is float or double. Every argument has been
// checked by the engine: sizes fit 32 bits, values are finite where it says so, openblas::open() is
// not null. The work is done on one thread, so that bits do not depend on their number. Results are
// LAPACK's `info`: 0 is success, i > 0 names the i-th pivot, minor or value that failed; kNoMemory is
// ours.
#pragma once
#include "kernels/base.h"

namespace mt::lapack {

constexpr int kNoMemory = -1000;
/// The longest side, and the longest shorter side where the work is of its square: beyond these
/// LAPACK's own 32-bit sizes overflow.
constexpr int64_t kMaxSide = 1 << 24, kMaxSquare = 16000;

/// Whether a call is under way, which Ctrl-C cannot end; a signal's handler may ask.
bool under_way();
/// Whether all n elements are numbers, none NaN or infinite.
template <class T> bool finite(const T* x, int64_t n);

/// P L U in place of an m x n matrix. i > 0: U(i, i) is exactly 0. pivots: min(m, n), from 1.
template <class T> int lu(int m, int n, T* a, int* pivots);
/// b (n x columns) becomes the solution of A x = b, or A' x = b, from lu.
template <class T>
int lu_solve(bool transposed, int n, int columns, const T* a, const int* pivots, T* b);
/// The inverse from lu, in place.
template <class T> int lu_inverse(int n, T* a, const int* pivots);
/// The upper triangle becomes U with A = U' U; the lower is not touched.
template <class T> int cholesky(int n, T* a);
/// b (n x columns) becomes the solution of A x = b for a triangle; a 0 on its diagonal gives inf.
template <class T>
void triangle_solve(bool upper, bool transposed, bool unit, int n, int columns, const T* a, T* b);
/// Householder vectors below the diagonal, R above, tau: min(m, n).
template <class T> int qr(int m, int n, T* a, T* tau);
/// The first `columns` columns of Q from k Householder vectors, in place of an m x columns matrix.
template <class T> int qr_q(int m, int columns, int k, T* a, const T* tau);
/// job: 'N' values alone, 'S' the first min(m, n) vectors, 'A' all. Needs finite values. a is lost.
template <class T> int svd(char job, int m, int n, T* a, T* s, T* u, T* vt);
/// Ascending eigenvalues from the upper (or lower) triangle; a becomes the vectors, if wanted.
/// Needs finite values.
template <class T> int eigh(bool vectors, bool upper, int n, T* a, T* values);
/// Eigenvalues of any square matrix as real and imaginary parts, and the right vectors, if wanted: a
/// complex pair's are v[i] + i v[i + 1] and its conjugate. a is lost. Needs finite values.
template <class T> int eig(bool vectors, int n, T* a, T* wr, T* wi, T* v);

enum class LeastSquares : int { qr, pivoted, svd, divide };  // gels, gelsy, gelss, gelsd
/// Minimises |A x - b| for A m x n; b has max(m, n) rows and becomes x. `s`: min(m, n) singular
/// values, from svd and divide. The rank is known but from qr, which needs a full one. Needs
/// finite values.
template <class T>
int least_squares(LeastSquares how, int m, int n, int columns, T* a, T* b, T rcond, T* s,
                  int* rank);

}  // namespace mt::lapack
