// lapack.cpp -- the factorizations of OpenBLAS's LAPACK, and large LU and Cholesky in blocks on all threads
#include "kernels/math/lapack.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/cpu/libraries/lapack_blocks.h"

namespace mt::lapack {
namespace {

/// Smaller matrices are reduced by LAPACK: for them, waking threads at each column costs more than it saves.
constexpr int kMinReduction = 512;

// ---- matrices that are factored in less time than a call of LAPACK takes

/// LU factors of at most kSmall rows and columns.
template <class T> int small_lu(int m, int n, T* a, int* pivots) {
  int info = 0;
  for (int j = 0; j < std::min(m, n); ++j) {
    T* const column = a + j * m;
    int p = j;
    for (int i = j + 1; i < m; ++i)
      if (std::abs(column[i]) > std::abs(column[p])) p = i;
    pivots[j] = p + 1;
    if (column[p] == 0) {
      if (info == 0) info = j + 1;
      continue;
    }
    for (int k = 0; p != j && k < n; ++k) std::swap(a[k * m + j], a[k * m + p]);
    for (int i = j + 1; i < m; ++i) column[i] /= column[j];
    for (int k = j + 1; k < n; ++k) {
      T* const to = a + k * m;
      for (int i = j + 1; i < m; ++i) to[i] -= column[i] * to[j];
    }
  }
  return info;
}

/// Exchanges the rows of b as LU did, or back.
template <class T> void exchange_small(bool back, int n, int columns, const int* pivots, T* b) {
  for (int c = 0; c < columns; ++c, b += n)
    for (int i = 0; i < n; ++i) {
      const int row = back ? n - 1 - i : i;
      std::swap(b[row], b[pivots[row] - 1]);
    }
}

/// U' U of the upper triangle.
template <class T> int small_cholesky(int n, T* a) {
  for (int j = 0; j < n; ++j) {
    T* const column = a + j * n;
    for (int i = 0; i <= j; ++i) {
      const T* const other = a + i * n;
      T x = column[i];
      for (int k = 0; k < i; ++k) x -= other[k] * column[k];
      if (i == j && !(x > 0)) return j + 1;
      column[i] = i == j ? std::sqrt(x) : x / other[i];
    }
  }
  return 0;
}

/// Substitution for `columns` right sides, by panels of unknowns.
template <class T>
void substitute_columns(bool upper, bool transposed, bool unit, int n, int columns, const T* a,
                        T* b) {
  const Columns<const T> from{a, lead(n)};
  const Columns<T> to{b, lead(n)};
  const int panel = n < kMinSplit || columns < kMinColumns ? n : kPanel;
  const bool backward = upper != transposed;
  const auto panel_after = [&](int done) {
    const int w = std::min(panel, n - done);
    return Strip{backward ? n - done - w : done, w};
  };
  const auto solve = [&](Strip p) {
    to.solve_triangle(upper ? "U" : "L", transposed ? "T" : "N", unit ? "U" : "N", p.count, columns,
                      from.at(p.first, p.first), to.at(p.first, 0));
  };
  solve(panel_after(0));
  for (int done = panel; done < n && !mt_interrupted; done += panel) {
    const Strip known = panel_after(done - panel), next = panel_after(done);
    const auto update = [&](Strip rows) {
      to.subtract_product(
          transposed, rows.count, columns, known.count,
          transposed ? from.at(known.first, rows.first) : from.at(rows.first, known.first),
          to.at(known.first, 0), to.at(rows.first, 0));
    };
    const auto update_and_solve = [&] { update(next), solve(next); };
    for_next_and_strips(update_and_solve, backward ? 0 : next.first + next.count,
                        backward ? next.first : n, update);
  }
}

/// The same for any number of right sides, in equal strips of at most kStrip.
template <class T>
void substitute(bool upper, bool transposed, bool unit, int n, int columns, const T* a, T* b) {
  if (columns <= kStrip) return substitute_columns(upper, transposed, unit, n, columns, a, b);
  const int strips = (columns + kStrip - 1) / kStrip;
  for_strips(0, columns, strips > 0 ? (columns + strips - 1) / strips : 1, [&](Strip s) {
    substitute_columns(upper, transposed, unit, n, s.count, a, b + int64_t(s.first) * lead(n));
  });
}

template <class T> bool finite_piece(const T* x, int64_t n) {
  T sum = 0;  // x - x is 0 for a finite number, else NaN
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] - x[i];
  return sum == 0;
}

}  // namespace

template <class T> bool finite(const T* x, int64_t n) {
  constexpr int64_t kPiece = 1 << 16;
  if (n <= kPiece) return finite_piece(x, n);
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  std::atomic<int64_t> finite_pieces{0};  // an interrupt skips pieces: they may have NaNs
  parallel(pieces, true, [&](int64_t i) {
    finite_pieces += finite_piece(x + i * kPiece, std::min(kPiece, n - i * kPiece));
  });
  return finite_pieces == pieces;
}

template <class T> int lu(int m, int n, T* a, int* pivots) {
  if (m <= kSmall && n <= kSmall) return small_lu(m, n, a, pivots);
  const SerialBlasScope one;
  const Columns<T> in{a, lead(m)};
  const int k = std::min(m, n), panel = k < kMinSplit ? k : kPanel;
  int info = 0;
  std::iota(pivots, pivots + k, 1);  // a panel that an interrupt skips exchanges no rows
  const auto factor = [&](int j, int columns) {
    const int rows = m - j, w = std::min(rows, columns);
    int failed = 0;
    MT_ROUTINE(getrf)(&rows, &columns, in.at(j, j), &in.ld, pivots + j, &failed);
    if (failed != 0 && info == 0) info = j + failed;
    for (int i = j; i < j + w; ++i) pivots[i] += j;
  };
  if (panel == k) {
    factor(0, n);
    return info;
  }
  factor(0, panel);
  for (int j = 0; j < k && !mt_interrupted; j += panel) {
    const int w = std::min(panel, k - j), next = j + w, ahead = std::min(panel, k - next);
    const auto update = [&](Strip s) {
      in.exchange_rows(s.first, s.count, j, next, pivots);
      in.solve_triangle("L", "N", "U", w, s.count, in.at(j, j), in.at(j, s.first));
      in.subtract_product(false, m - next, s.count, w, in.at(next, j), in.at(j, s.first),
                          in.at(next, s.first));
    };
    const auto update_and_factor = [&] {
      if (ahead > 0) update({next, ahead}), factor(next, ahead);
    };
    for_next_and_strips(update_and_factor, next + ahead, n, update);
  }
  // The columns of a panel take part in the exchanges of later ones.
  for_strips(0, k, panel,
             [&](Strip s) { in.exchange_rows(s.first, s.count, s.first + s.count, k, pivots); });
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
  if (n <= kSmall) exchange_small(transposed, n, columns, pivots, b);
  else if (columns > 0) MT_ROUTINE(laswp)(&columns, b, &ld, &first, &n, pivots, &step);
  if (!transposed) {
    substitute(false, false, true, n, columns, a, b);
    substitute(true, false, false, n, columns, a, b);
  }
  return 0;
}

template <class T> int lu_inverse(int n, T* a, const int* pivots) {
  if (n <= kSmall) {
    T x[kSmall * kSmall] = {};
    for (int i = 0; i < n; ++i) x[i * (n + 1)] = 1;
    lu_solve(false, n, n, a, pivots, x);
    std::memcpy(a, x, sizeof(T) * n * n);
    return 0;
  }
  const SerialBlasScope one;
  const int ld = lead(n);
  return with_workspace<T>([&](T* work, const int* length, int* info) {
    MT_ROUTINE(getri)(&n, a, &ld, pivots, work, length, info);
  });
}

template <class T> int cholesky(int n, T* a) {
  if (n <= kSmall) return small_cholesky(n, a);
  const SerialBlasScope one;
  const Columns<T> in{a, lead(n)};
  const int panel = n < kMinSplit ? n : kPanel;
  for (int j = 0; j < n && !mt_interrupted; j += panel) {
    const int w = std::min(panel, n - j), next = j + w;
    int failed = 0;
    MT_ROUTINE(potrf)("U", &w, in.at(j, j), &in.ld, &failed, 1);
    if (failed != 0) return j + failed;
    for_strips(next, n, kStrip, [&](Strip s) {
      in.solve_triangle("U", "T", "N", w, s.count, in.at(j, j), in.at(j, s.first));
    });
    for_strips(next, n, kStrip, [&](Strip s) {
      const T less = -1, same = 1;
      in.subtract_product(true, s.first - next, s.count, w, in.at(j, next), in.at(j, s.first),
                          in.at(next, s.first));
      MT_ROUTINE(syrk)
      ("U", "T", &s.count, &w, &less, in.at(j, s.first), &in.ld, &same, in.at(s.first, s.first),
       &in.ld, 1, 1);
    });
  }
  return 0;
}

template <class T>
void solve_triangle(bool upper, bool transposed, bool unit, int n, int columns, const T* a, T* b) {
  const SerialBlasScope one;
  substitute(upper, transposed, unit, n, columns, a, b);
}

/// Whether squares of n elements neither overflow nor vanish: otherwise LAPACK's drivers scale the matrix.
template <class T> bool needs_no_scaling(int64_t n, const T* a) {
  T largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(a[i]));
  return largest > (sizeof(T) == 4 ? T(1e-12) : T(1e-145)) &&
         largest < (sizeof(T) == 4 ? T(1e12) : T(1e145));
}

template <class T> int qr(int m, int n, T* a, T* tau) {
  const SerialBlasScope one;
  if (std::min(m, n) >= kMinSplit) return blocked_qr(m, n, a, tau);
  const int ld = lead(m);
  return with_workspace<T>([&](T* work, const int* length, int* info) {
    MT_ROUTINE(geqrf)(&m, &n, a, &ld, tau, work, length, info);
  });
}

template <class T> int qr_q(int m, int columns, int k, T* a, const T* tau) {
  const SerialBlasScope one;
  if (k >= kMinSplit) return blocked_qr_q(m, columns, k, a, tau);
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
  int info =
      n <= m && n >= kMinReduction && needs_no_scaling(int64_t(m) * n, a)
          ? blocked_svd(job, m, n, a, s, u, vt)
          : with_workspace<T>([&](T* work, const int* length, int* result) {
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
  // Both triangles are made equal, so that neither what the other one had nor the choice changes method or bits.
  for (int j = 1; j < n; ++j)
    for (int i = 0; i < j; ++i) {
      T &above = a[i + int64_t(j) * n], &below = a[j + int64_t(i) * n];
      (upper ? below : above) = upper ? above : below;
    }
  if (n >= kMinReduction && needs_no_scaling(int64_t(n) * n, a))
    return blocked_eigh(vectors, n, a, values);
  const int ld = lead(n);
  return with_workspaces<T>(
      3 + 5 * n,
      [&](T* work, const int* length, int* whole, const int* whole_length, int* info) {
        MT_ROUTINE(syevd)
        (vectors ? "V" : "N", "U", &n, a, &ld, values, work, length, whole, whole_length, info, 1,
         1);
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

bool is_running() { return calls_under_way.load() > 0; }

#define MT_INSTANCES(T)                                                   \
  template bool finite(const T*, int64_t);                                \
  template int lu(int, int, T*, int*);                                    \
  template int lu_solve(bool, int, int, const T*, const int*, T*);        \
  template int lu_inverse(int, T*, const int*);                           \
  template int cholesky(int, T*);                                         \
  template void solve_triangle(bool, bool, bool, int, int, const T*, T*); \
  template int qr(int, int, T*, T*);                                      \
  template int qr_q(int, int, int, T*, const T*);                         \
  template int svd(char, int, int, T*, T*, T*, T*);                       \
  template int eigh(bool, bool, int, T*, T*);                             \
  template int eig(bool, int, T*, T*, T*, T*);                            \
  template int least_squares(LeastSquares, int, int, int, T*, T*, T, T*, int*);
MT_INSTANCES(float)
MT_INSTANCES(double)

}  // namespace mt::lapack
