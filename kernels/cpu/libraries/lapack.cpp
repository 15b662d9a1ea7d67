// lapack.cpp -- the factorizations of OpenBLAS's LAPACK, on one thread
#include "kernels/math/lapack.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include <omp.h>

#include <atomic>

#include "kernels/cpu/libraries/openblas.h"
#include "kernels/interrupt.h"

namespace mt::lapack {
namespace {

/// A LAPACK routine for T. The engine has called openblas::open() before.
template <class T, class Single, class Double>
auto choose(Single openblas::Library::*single, Double openblas::Library::*wide) {
  if constexpr (sizeof(T) == 4) return openblas::open()->*single;
  else return openblas::open()->*wide;
}
#define MT_ROUTINE(name) choose<T>(&openblas::Library::s##name##_, &openblas::Library::d##name##_)

/// OpenBLAS splits its work by its number of threads, which changes bits: a scope sets one thread.
std::atomic<int> calls_under_way{0};
struct SerialBlasScope {
  const int before = omp_get_max_threads();
  SerialBlasScope() {
    ++calls_under_way;
    if (before > 1) omp_set_num_threads(1);
  }
  ~SerialBlasScope() {
    --calls_under_way;
    if (before > 1) omp_set_num_threads(before);
  }
  SerialBlasScope(const SerialBlasScope&) = delete;
};

/// An array that is freed by the destructor; null if it cannot be allocated.
template <class T> struct Array {
  T* const at;
  explicit Array(double n) : at(static_cast<T*>(std::calloc(size_t(n < 1 ? 1 : n), sizeof(T)))) {}
  ~Array() { std::free(at); }
  Array(const Array&) = delete;
  operator T*() const { return at; }
};

/// Calls `routine(work, length, info)` twice: as a workspace query, and for the computation.
template <class T> int with_workspace(const auto& routine, double least = 1) {
  T wish = 0;
  int query = -1, info = 0;
  routine(&wish, &query, &info);
  if (info != 0) return info;
  double size = double(wish) * (sizeof(T) == 4 ? 1.0000003 : 1) + 1;  // a float may be rounded down
  if (size < least) size = least;
  if (size > 2147483000.0) return kNoMemory;
  const Array<T> work(size);
  if (!work.at) return kNoMemory;
  const int length = int(size);
  routine(work.at, &length, &info);
  return info;
}

constexpr int lead(int n) { return n > 1 ? n : 1; }

}  // namespace

template <class T> bool finite(const T* x, int64_t n) {
  T sum = 0;  // x - x is 0 for a finite number, else NaN
  for (int64_t i = 0; i < n; ++i) sum += x[i] - x[i];
  return sum == 0;
}

template <class T> int lu(int m, int n, T* a, int* pivots) {
  const SerialBlasScope one;
  const int ld = lead(m);
  int info = 0;
  MT_ROUTINE(getrf)(&m, &n, a, &ld, pivots, &info);
  return info;
}

template <class T>
int lu_solve(bool transposed, int n, int columns, const T* a, const int* pivots, T* b) {
  const SerialBlasScope one;
  const int ld = lead(n);
  int info = 0;
  MT_ROUTINE(getrs)(transposed ? "T" : "N", &n, &columns, a, &ld, pivots, b, &ld, &info, 1);
  return info;
}

template <class T> int lu_inverse(int n, T* a, const int* pivots) {
  const SerialBlasScope one;
  const int ld = lead(n);
  return with_workspace<T>([&](T* work, const int* length, int* info) {
    MT_ROUTINE(getri)(&n, a, &ld, pivots, work, length, info);
  });
}

template <class T> int cholesky(int n, T* a) {
  const SerialBlasScope one;
  const int ld = lead(n);
  int info = 0;
  MT_ROUTINE(potrf)("U", &n, a, &ld, &info, 1);
  return info;
}

template <class T>
void triangle_solve(bool upper, bool transposed, bool unit, int n, int columns, const T* a, T* b) {
  const SerialBlasScope one;
  const int ld = lead(n);
  const T alpha = 1;
  MT_ROUTINE(trsm)
  ("L", upper ? "U" : "L", transposed ? "T" : "N", unit ? "U" : "N", &n, &columns, &alpha, a, &ld,
   b, &ld, 1, 1, 1, 1);
}

template <class T> int qr(int m, int n, T* a, T* tau) {
  const SerialBlasScope one;
  const int ld = lead(m);
  return with_workspace<T>([&](T* work, const int* length, int* info) {
    MT_ROUTINE(geqrf)(&m, &n, a, &ld, tau, work, length, info);
  });
}

template <class T> int qr_q(int m, int columns, int k, T* a, const T* tau) {
  const SerialBlasScope one;
  const int ld = lead(m);
  return with_workspace<T>([&](T* work, const int* length, int* info) {
    MT_ROUTINE(orgqr)(&m, &columns, &k, a, &ld, tau, work, length, info);
  });
}

template <class T> int svd(char job, int m, int n, T* a, T* s, T* u, T* vt) {
  const SerialBlasScope one;
  const int k = m < n ? m : n, ldm = lead(m), ldvt = lead(job == 'S' ? k : n);
  const size_t bytes = sizeof(T) * size_t(m) * size_t(n);
  const Array<T> copy(double(m) * n);
  const Array<int> whole(8.0 * k);
  if (!copy.at || !whole.at) return kNoMemory;
  std::memcpy(copy.at, a, bytes);
  int info = with_workspace<T>([&](T* work, const int* length, int* result) {
    MT_ROUTINE(gesdd)
    (&job, &m, &n, a, &ldm, s, u, &ldm, vt, &ldvt, work, length, whole.at, result, 1);
  });
  if (info <= 0 || mt_interrupted) return info;
  // Divide and conquer can fail where the slower method does not.
  std::memcpy(a, copy.at, bytes);
  return with_workspace<T>([&](T* work, const int* length, int* result) {
    MT_ROUTINE(gesvd)
    (&job, &job, &m, &n, a, &ldm, s, u, &ldm, vt, &ldvt, work, length, result, 1, 1);
  });
}

template <class T> int eigh(bool vectors, bool upper, int n, T* a, T* values) {
  const SerialBlasScope one;
  const int ld = lead(n), whole_length = 3 + 5 * n;
  const Array<int> whole(whole_length);
  if (!whole.at) return kNoMemory;
  return with_workspace<T>(
      [&](T* work, const int* length, int* info) {
        // A query for the real workspace must also be one for the integer workspace.
        const int whole_query = *length == -1 ? -1 : whole_length;
        int wish = 0;
        MT_ROUTINE(syevd)
        (vectors ? "V" : "N", upper ? "U" : "L", &n, a, &ld, values, work, length,
         *length == -1 ? &wish : whole.at, &whole_query, info, 1, 1);
      },
      1 + 6.0 * n + 2.0 * n * n);
}

template <class T> int eig(bool vectors, int n, T* a, T* wr, T* wi, T* v) {
  const SerialBlasScope one;
  const int ld = lead(n);
  T none = 0;  // left eigenvectors are not requested
  return with_workspace<T>([&](T* work, const int* length, int* info) {
    MT_ROUTINE(geev)
    ("N", vectors ? "V" : "N", &n, a, &ld, wr, wi, &none, &ld, v, &ld, work, length, info, 1, 1);
  });
}

template <class T>
int least_squares(LeastSquares how, int m, int n, int columns, T* a, T* b, T rcond, T* s,
                  int* rank) {
  const SerialBlasScope one;
  const int ldm = lead(m), ldb = lead(m > n ? m : n);
  const double levels = std::log2(double(m < n ? m : n) + 1) + 2;  // bounds the recursion depth
  const Array<int> whole(double(n) + (m < n ? m : n) * (3 * levels + 11));
  if (!whole.at) return kNoMemory;
  return with_workspace<T>([&](T* work, const int* length, int* info) {
    switch (how) {
      case LeastSquares::qr:
        MT_ROUTINE(gels)("N", &m, &n, &columns, a, &ldm, b, &ldb, work, length, info, 1);
        break;
      case LeastSquares::pivoted:
        MT_ROUTINE(gelsy)
        (&m, &n, &columns, a, &ldm, b, &ldb, whole.at, &rcond, rank, work, length, info);
        break;
      case LeastSquares::svd:
        MT_ROUTINE(gelss)(&m, &n, &columns, a, &ldm, b, &ldb, s, &rcond, rank, work, length, info);
        break;
      case LeastSquares::divide:
        MT_ROUTINE(gelsd)
        (&m, &n, &columns, a, &ldm, b, &ldb, s, &rcond, rank, work, length, whole.at, info);
        break;
    }
  });
}

bool under_way() { return calls_under_way.load() > 0; }

#define MT_INSTANCES(T)                                                   \
  template bool finite(const T*, int64_t);                                \
  template int lu(int, int, T*, int*);                                    \
  template int lu_solve(bool, int, int, const T*, const int*, T*);        \
  template int lu_inverse(int, T*, const int*);                           \
  template int cholesky(int, T*);                                         \
  template void triangle_solve(bool, bool, bool, int, int, const T*, T*); \
  template int qr(int, int, T*, T*);                                      \
  template int qr_q(int, int, int, T*, const T*);                         \
  template int svd(char, int, int, T*, T*, T*, T*);                       \
  template int eigh(bool, bool, int, T*, T*);                             \
  template int eig(bool, int, T*, T*, T*, T*);                            \
  template int least_squares(LeastSquares, int, int, int, T*, T*, T, T*, int*);
MT_INSTANCES(float)
MT_INSTANCES(double)

}  // namespace mt::lapack
