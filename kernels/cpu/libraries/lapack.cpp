// lapack.cpp -- the factorizations of OpenBLAS's LAPACK, and large LU and Cholesky in blocks on all threads
#include "kernels/math/lapack.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "kernels/cpu/libraries/openblas.h"
#include "kernels/cpu/pool/parallel.h"
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

// ---- blocks ---------------------------------------------------------------------------------------
// A panel of columns is factored by LAPACK; the other columns are updated in strips, several at a time. Panels and
// strips depend only on the size, so that bits do not depend on the number of threads.

constexpr int kPanel = 64, kStrip = 128, kMinSplit = 256, kMinColumns = 16;

/// Calls `f(first, count)` for strips of the columns begin .. end - 1.
template <class F> void for_strips(int begin, int end, int width, const F& f) {
  if (begin >= end) return;
  const int64_t strips = (end - begin + width - 1) / width;
  parallel(strips, true, [&](int64_t i) {
    const int first = begin + int(i) * width;
    f(first, std::min(width, end - first));
  });
}

/// Columns of a matrix: row i of column j is at(i, j). All matrices of a call have as many rows.
template <class T> struct Columns {
  T* const a;
  const int ld;
  T* at(int i, int j) const { return a + i + int64_t(j) * ld; }

  /// c -= a b, or a' b; c has m x n elements, k are added.
  void subtract_product(bool transposed, int m, int n, int k, const T* x, const T* y, T* z) const {
    constexpr int kColumns = 102, kPlain = 111, kTransposed = 112;
    if (m > 0 && n > 0)
      choose<T>(&openblas::Library::cblas_sgemm, &openblas::Library::cblas_dgemm)(
          kColumns, transposed ? kTransposed : kPlain, kPlain, m, n, k, T(-1), x, ld, y, ld, T(1),
          z, ld);
  }
  /// Replaces n columns at `b` by the solution with the triangle of k rows at `t`.
  void solve_triangle(const char* upper, const char* transposed, const char* unit, int k, int n,
                      const T* t, T* b) const {
    const T one = 1;
    MT_ROUTINE(trsm)("L", upper, transposed, unit, &k, &n, &one, t, &ld, b, &ld, 1, 1, 1, 1);
  }
  /// Exchanges the rows first .. end - 1 of `count` columns with the rows of their pivots, from 1.
  void exchange_rows(int column, int count, int first, int end, const int* pivots) const {
    for (int j = column; j < column + count; ++j) {
      T* const x = at(0, j);
      for (int i = first; i < end; ++i) std::swap(x[i], x[pivots[i] - 1]);
    }
  }
};

/// The inverse of the triangle L of a panel. Its elements are at most 1 by pivoting, so a product with it is about as
/// exact as OpenBLAS's triangular solve, and five times as fast.
template <class T> struct LowerInverse {
  T elements[kPanel * kPanel] = {};
  LowerInverse(int k, const T* lower, int ld) {
    const T one = 1;
    for (int i = 0; i < k; ++i) elements[i * kPanel + i] = 1;
    MT_ROUTINE(trsm)("L", "L", "N", "U", &k, &k, &one, lower, &ld, elements, &kPanel, 1, 1, 1, 1);
  }
  /// Replaces k rows of at most kStrip columns at `b` by their product with the inverse.
  void multiply(int k, int n, T* b, int ld) const {
    T copy[kPanel * kStrip];
    for (int j = 0; j < n; ++j)
      std::memcpy(copy + j * kPanel, b + int64_t(j) * ld, size_t(k) * sizeof(T));
    constexpr int kColumns = 102, kPlain = 111;
    choose<T>(&openblas::Library::cblas_sgemm, &openblas::Library::cblas_dgemm)(
        kColumns, kPlain, kPlain, k, n, k, T(1), elements, kPanel, copy, kPanel, T(0), b, ld);
  }
};

/// Substitution: a panel of unknowns, then the other rows in strips. `pivoted`: the triangle is the L of lu().
template <class T>
void substitute(bool upper, bool transposed, bool unit, int n, int columns, const T* a, T* b,
                bool pivoted = false) {
  const Columns<const T> from{a, lead(n)};
  const Columns<T> to{b, lead(n)};
  const int panel = n < kMinSplit || columns < kMinColumns ? n : kPanel;
  const bool backward = upper != transposed;
  for (int done = 0; done < n && !mt_interrupted; done += panel) {
    const int w = std::min(panel, n - done), j = backward ? n - done - w : done;
    if (pivoted && panel == kPanel) {
      const LowerInverse<T> inverse(w, from.at(j, j), from.ld);
      for_strips(0, columns, kStrip,
                 [&](int i, int count) { inverse.multiply(w, count, to.at(j, i), to.ld); });
    } else
      to.solve_triangle(upper ? "U" : "L", transposed ? "T" : "N", unit ? "U" : "N", w, columns,
                        from.at(j, j), to.at(j, 0));
    for_strips(backward ? 0 : j + w, backward ? j : n, kStrip, [&](int i, int count) {
      to.subtract_product(transposed, count, columns, w, transposed ? from.at(j, i) : from.at(i, j),
                          to.at(j, 0), to.at(i, 0));
    });
  }
}

}  // namespace

template <class T> bool finite(const T* x, int64_t n) {
  T sum = 0;  // x - x is 0 for a finite number, else NaN
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] - x[i];
  return sum == 0;
}

template <class T> int lu(int m, int n, T* a, int* pivots) {
  const SerialBlasScope one;
  const Columns<T> in{a, lead(m)};
  const int k = std::min(m, n), panel = k < kMinSplit ? k : kPanel;
  int info = 0;
  for (int j = 0; j < k && !mt_interrupted; j += panel) {
    const int w = std::min(panel, k - j), next = j + w, rows = m - j;
    const int width = panel == k ? n : w;  // a small matrix as a whole
    int failed = 0;
    MT_ROUTINE(getrf)(&rows, &width, in.at(j, j), &in.ld, pivots + j, &failed);
    if (failed != 0 && info == 0) info = j + failed;
    if (width == n) break;
    for (int i = j; i < next; ++i) pivots[i] += j;
    const LowerInverse<T> inverse(w, in.at(j, j), in.ld);
    for_strips(next, n, kStrip, [&](int at, int count) {
      in.exchange_rows(at, count, j, next, pivots);
      inverse.multiply(w, count, in.at(j, at), in.ld);
      in.subtract_product(false, m - next, count, w, in.at(next, j), in.at(j, at), in.at(next, at));
    });
  }
  if (panel < k)  // the columns of a panel take part in the exchanges of later ones
    for_strips(0, k, panel,
               [&](int at, int count) { in.exchange_rows(at, count, at + count, k, pivots); });
  return info;
}

template <class T>
int lu_solve(bool transposed, int n, int columns, const T* a, const int* pivots, T* b) {
  const SerialBlasScope one;
  const int ld = lead(n), first = 1, step = transposed ? -1 : 1;
  if (transposed) {
    substitute(true, true, false, n, columns, a, b);
    substitute(false, true, true, n, columns, a, b);
  }
  if (columns > 0) MT_ROUTINE(laswp)(&columns, b, &ld, &first, &n, pivots, &step);
  if (!transposed) {
    substitute(false, false, true, n, columns, a, b, true);
    substitute(true, false, false, n, columns, a, b);
  }
  return 0;
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
  const Columns<T> in{a, lead(n)};
  const int panel = n < kMinSplit ? n : kPanel;
  for (int j = 0; j < n && !mt_interrupted; j += panel) {
    const int w = std::min(panel, n - j), next = j + w;
    int failed = 0;
    MT_ROUTINE(potrf)("U", &w, in.at(j, j), &in.ld, &failed, 1);
    if (failed != 0) return j + failed;
    for_strips(next, n, kStrip, [&](int at, int count) {
      in.solve_triangle("U", "T", "N", w, count, in.at(j, j), in.at(j, at));
    });
    for_strips(next, n, kStrip, [&](int at, int count) {
      const T less = -1, same = 1;
      in.subtract_product(true, at - next, count, w, in.at(j, next), in.at(j, at), in.at(next, at));
      MT_ROUTINE(syrk)
      ("U", "T", &count, &w, &less, in.at(j, at), &in.ld, &same, in.at(at, at), &in.ld, 1, 1);
    });
  }
  return 0;
}

template <class T>
void triangle_solve(bool upper, bool transposed, bool unit, int n, int columns, const T* a, T* b) {
  const SerialBlasScope one;
  substitute(upper, transposed, unit, n, columns, a, b);
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
