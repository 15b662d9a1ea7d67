// householder.h -- QR, and the factorizations of eigh and svd, by blocks of Householder reflectors on all threads
//
// The methods of LAPACK's geqrf, sytrd and gebrd (Dongarra, Sorensen and Hammarling 1989); matrices are column-major.
// Half of a reduction to two diagonals is products of the whole matrix with one vector, which memory limits.
#pragma once

namespace mt::lapack {

/// lapack::qr and lapack::qr_q for large matrices.
template <class T> int blocked_qr(int m, int n, T* a, T* tau);
template <class T> int blocked_qr_q(int m, int columns, int k, T* a, const T* tau);
/// lapack::eigh for large matrices, from the lower triangle.
template <class T> int blocked_eigh(bool vectors, int n, T* a, T* values);
/// lapack::svd for large matrices with at least as many rows as columns.
template <class T> int blocked_svd(char job, int m, int n, T* a, T* s, T* u, T* vt);

}  // namespace mt::lapack
