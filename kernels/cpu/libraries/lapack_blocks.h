// lapack_blocks.h -- what blocked factorizations share: routines by type, workspaces, strips of columns, products
//
// A panel of columns is factored by LAPACK; the other columns are updated in strips, several at a time. Panels and
// strips depend only on the size, so that bits do not depend on the number of threads.
#pragma once
#include <cstdlib>
#include <utility>

#include <omp.h>

#include <algorithm>
#include <atomic>

#include "kernels/cpu/factor_kernels.h"
#include "kernels/cpu/libraries/openblas.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/interrupt.h"
#include "kernels/math/lapack.h"

namespace mt::lapack {

/// A LAPACK routine for T. The engine has called openblas::open() before.
#define MT_ROUTINE(name) openblas::open()->of<T>().name

/// OpenBLAS splits its work by its number of threads, which changes bits: a scope sets one thread.
inline std::atomic<int> calls_under_way{0};
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

/// c = alpha a b + beta c, where a, b or both may be transposed; c has m x n elements, k are added.
template <class T>
void multiply(bool ta, bool tb, int m, int n, int k, T alpha, const T* a, int lda, const T* b,
              int ldb, T beta, T* c, int ldc) {
  constexpr int kColumns = 102, kPlain = 111, kTransposed = 112;
  MT_ROUTINE(gemm)
  (kColumns, ta ? kTransposed : kPlain, tb ? kTransposed : kPlain, m, n, k, alpha, a, lda, b, ldb,
   beta, c, ldc);
}

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

/// The same with `whole_length` integers: calls `routine(work, length, integers, their length, info)`.
template <class T> int with_workspaces(int whole_length, const auto& routine, double least = 1) {
  const Array<int> whole(whole_length);
  if (!whole.at) return kNoMemory;
  return with_workspace<T>(
      [&](T* work, const int* length, int* info) {
        // A query for the real workspace must also be one for the integer workspace.
        const bool query = *length == -1;
        int wish = 0;
        routine(work, length, query ? &wish : whole.at, query ? length : &whole_length, info);
      },
      least);
}

/// The leading dimension of columns of n rows.
constexpr int lead(int n) { return n > 1 ? n : 1; }

/// Columns of a panel and of a strip; smaller matrices are factored as a whole.
constexpr int kPanel = 64, kStrip = 128, kMinSplit = 256;
constexpr int kMinColumns = 16;  // fewer right sides are solved as a whole
constexpr int kSmall = 16;       // rows of matrices for which LAPACK is not called

/// Neighbouring columns, or rows: first .. first + count - 1.
struct Strip {
  int first, count;
};
/// The strips of begin .. end - 1.
struct Strips {
  int begin, end, width;
  int64_t count() const { return (std::max(end - begin, 0) + width - 1) / width; }
  Strip operator[](int64_t i) const {
    const int first = begin + int(i) * width;
    return {first, std::min(width, end - first)};
  }
};

/// Calls `next()` and `f(strip)` for the strips of begin .. end - 1. A thread begins with `next`, which computes
/// what the following step needs first: that is slow because it is serial, so others work on strips meanwhile.
void for_next_and_strips(const auto& next, int begin, int end, const auto& f) {
  const Strips strips{begin, end, kStrip};
  parallel(1 + strips.count(), true, [&](int64_t i) { i == 0 ? next() : f(strips[i - 1]); });
}

/// Calls `f(strip)` for the strips of begin .. end - 1.
void for_strips(int begin, int end, int width, const auto& f) {
  const Strips strips{begin, end, width};
  parallel(strips.count(), true, [&](int64_t i) { f(strips[i]); });
}

/// Columns of a matrix: row i of column j is at(i, j). All matrices of a call have as many rows.
template <class T> struct Columns {
  T* const a;
  const int ld;
  T* at(int i, int j) const { return a + i + int64_t(j) * ld; }

  /// c -= a b, or a' b; c has m x n elements, k are added.
  void subtract_product(bool transposed, int m, int n, int k, const T* x, const T* y, T* z) const {
    if (m > 0 && n > 0) multiply(transposed, false, m, n, k, T(-1), x, ld, y, ld, T(1), z, ld);
  }
  /// Replaces n columns at `b` by the solution with the triangle of k rows at `t`.
  void solve_triangle(const char* upper, const char* transposed, const char* unit, int k, int n,
                      const T* t, T* b) const {
    if (k <= TriangularSystem<T>::kMaxUnknowns && n >= (k <= kSmall ? 4 : kMinColumns)) {
      const bool flipped = *transposed == 'T', backward = (*upper == 'U') != flipped;
      return solve_triangle_on_cpu(TriangularSystem<T>{k, n, backward, *unit == 'U', t,
                                                       flipped ? ld : 1, flipped ? 1 : ld, b, ld});
    }
    if (k <= kSmall)
      return solve_small(*upper == 'U', *transposed == 'T', *unit == 'U', k, n, t, b);
    const T one = 1;
    MT_ROUTINE(trsm)("L", upper, transposed, unit, &k, &n, &one, t, &ld, b, &ld, 1, 1, 1, 1);
  }
  /// The same for a triangle of a few rows.
  void solve_small(bool upper, bool transposed, bool unit, int k, int n, const T* t, T* b) const {
    const int row_step = transposed ? ld : 1, column_step = transposed ? 1 : ld;
    const bool backward = upper != transposed;
    for (T* x = b; x < b + int64_t(n) * ld; x += ld)
      for (int done = 0; done < k; ++done) {
        const int at = backward ? k - 1 - done : done;
        const T* const column = t + at * column_step;
        if (!unit) x[at] /= column[at * row_step];
        const int from = backward ? 0 : at + 1, end = backward ? at : k;
        for (int i = from; i < end; ++i) x[i] -= column[i * row_step] * x[at];
      }
  }
  /// Exchanges the rows first .. end - 1 of `count` columns with the rows of their pivots, from 1.
  void exchange_rows(int column, int count, int first, int end, const int* pivots) const {
    for (int j = column; j < column + count; ++j) {
      T* const x = at(0, j);
      for (int i = first; i < end; ++i) std::swap(x[i], x[pivots[i] - 1]);
    }
  }
};

/// Eigenvalues and eigenvectors of the symmetric tridiagonal matrix of d and e (n elements, the last is 0), which they
/// replace or destroy; q is 0 before. Column order[i] - 1 has the i-th smallest eigenvalue. (tridiagonal_eigen.cpp)
template <class T> int tridiagonal_eigen(int n, T* d, T* e, T* q, int* order);

// ---- by blocks of Householder reflectors (householder.cpp)

/// lapack::qr and lapack::qr_q for large matrices.
template <class T> int blocked_qr(int m, int n, T* a, T* tau);
template <class T> int blocked_qr_q(int m, int columns, int k, T* a, const T* tau);
/// lapack::eigh for large matrices, from the lower triangle.
template <class T> int blocked_eigh(bool vectors, int n, T* a, T* values);
/// lapack::svd for large matrices with at least as many rows as columns.
template <class T> int blocked_svd(char job, int m, int n, T* a, T* s, T* u, T* vt);

}  // namespace mt::lapack
