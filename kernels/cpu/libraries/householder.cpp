// householder.cpp -- QR, and the factorizations of eigh and svd, by blocks of Householder reflectors on all threads
//
// The methods of LAPACK's geqrf, sytrd and gebrd (Dongarra, Sorensen and Hammarling 1989); matrices are column-major.
// Half of a reduction to two diagonals is products of the whole matrix with one vector, which memory limits.
#include "kernels/cpu/libraries/lapack_blocks.h"

#include <cstring>

#include "kernels/cpu/factor_kernels.h"

namespace mt::lapack {
namespace {

constexpr int kBlock = 32;    // reflectors of a panel
constexpr int kApplied = 64;  // reflectors that are applied together
constexpr int kOne = 1;

/// y = alpha A x + beta y, or A' x; A has m x n elements.
template <class T>
void product(const char* transposed, int m, int n, T alpha, const T* a, int ld, const T* x,
             int step_x, T beta, T* y, int step_y = 1) {
  MT_ROUTINE(gemv)(transposed, &m, &n, &alpha, a, &ld, x, &step_x, &beta, y, &step_y, 1);
}
/// kBlock vectors: an element is `step` after the one before it, a vector `next`.
template <class T> struct Vectors {
  const T* at;
  int step, next;
  void copy(int n, T* to) const {
    for (int c = 0; c < kBlock; ++c)
      for (int r = 0; r < n; ++r)
        to[r + int64_t(c) * n] = at[int64_t(r) * step + int64_t(c) * next];
  }
};
/// c -= v w' + x y' as one product of 2 kBlock terms; c has m x n elements. `lower`: those above the diagonal strips
/// are not needed.
template <class T>
int subtract_products(bool lower, int m, int n, Vectors<T> v, Vectors<T> w, Vectors<T> x,
                      Vectors<T> y, T* c, int ldc) {
  const Array<T> left(2.0 * kBlock * m), right(2.0 * kBlock * n);
  if (!left.at || !right.at) return kNoMemory;
  v.copy(m, left.at), x.copy(m, left.at + int64_t(kBlock) * m);
  w.copy(n, right.at), y.copy(n, right.at + int64_t(kBlock) * n);
  for_strips(0, n, kStrip, [&](Strip s) {
    const int row = lower ? s.first : 0;
    multiply(false, true, m - row, s.count, 2 * kBlock, T(-1), left.at + row, m, right.at + s.first,
             n, T(1), c + row + int64_t(s.first) * ldc, ldc);
  });
  return 0;
}

/// Q = H(1) H(2) .. H(k) of order m: the reflectors are the columns (or rows) of v, and begin with 1 on its diagonal,
/// which is not read. Each panel of them is I - V t V'.
template <class T> struct Reflectors {
  const int m, k;
  const bool by_rows;
  const T* const v;
  const int ld;
  const Array<T> t;
  Reflectors(int rows, int count, bool stored_by_rows, const T* vectors, int lead_v, const T* tau)
      : m(rows),
        k(count),
        by_rows(stored_by_rows),
        v(vectors),
        ld(lead_v),
        t(double(kApplied) * (count + kApplied)) {
    if (t.at)
      parallel(panels(), true, [&](int64_t p) {
        const int first = int(p) * kApplied, rest = m - first, w = width(first);
        MT_ROUTINE(larft)
        ("F", by_rows ? "R" : "C", &rest, &w, at(first), &ld, tau + first, factor(first), &kApplied,
         1, 1);
      });
  }
  int64_t panels() const { return (k + kApplied - 1) / kApplied; }
  int width(int first) const { return std::min(kApplied, k - first); }
  const T* at(int i) const { return v + i + int64_t(i) * ld; }
  T* factor(int first) const { return t.at + int64_t(first) * kApplied; }

  /// Replaces n columns at c by Q c, or n rows by c Q' if the reflectors are rows, in strips. `upper`: the columns are
  /// 0 below the diagonal.
  int apply(int n, T* c, int ldc, bool upper = false) const {
    const Array<T> work(double(kApplied) * n);
    if (!t.at || !work.at) return kNoMemory;
    for_strips(0, n, kStrip, [&](Strip s) {
      for (int first = int(panels() - 1) * kApplied; first >= 0 && !mt_interrupted;
           first -= kApplied) {
        // A panel changes no column that is 0 in its rows.
        const int from = upper ? std::max(s.first, first) : s.first, end = s.first + s.count;
        if (from < end)
          apply_panel(first, from, end - from, c, ldc, work.at + int64_t(s.first) * kApplied);
      }
    });
    return 0;
  }

 private:
  void apply_panel(int first, int from, int count, T* c, int ldc, T* work) const {
    const int rest = m - first, w = width(first);
    T* const to = by_rows ? c + from + int64_t(first) * ldc : c + first + int64_t(from) * ldc;
    MT_ROUTINE(larfb)
    (by_rows ? "R" : "L", by_rows ? "T" : "N", "F", by_rows ? "R" : "C", by_rows ? &count : &rest,
     by_rows ? &rest : &count, &w, at(first), &ld, factor(first), &kApplied, to, &ldc, work, &count,
     1, 1, 1, 1);
  }
};

/// y = the sum of the strips' parts, of n elements each, in order. `lower`: a part begins at its strip's first element.
template <class T> void add_parts(bool lower, int strips_end, int n, const T* parts, T* y) {
  std::memcpy(y, parts, sizeof(T) * size_t(n));
  for (int i = kStrip; i < strips_end; i += kStrip)
    for (int row = lower ? i : 0; row < n; ++row) y[row] += parts[int64_t(i / kStrip) * n + row];
}

/// y = A x with the lower triangle of A (n x n).
template <class T> void symmetric_product(int n, const T* a, int ld, const T* x, T* y, T* parts) {
  for_strips(0, n, kStrip, [&](Strip s) {
    const auto [i, count] = s;
    T* const part = parts + int64_t(i / kStrip) * n;
    const T one = 1, zero = 0, *const diagonal = a + i + int64_t(i) * ld;
    MT_ROUTINE(symv)("L", &count, &one, diagonal, &ld, x + i, &kOne, &zero, part + i, &kOne, 1);
    const int below = i + count;
    std::fill(part + below, part + n, T(0));
    multiply_symmetric_strip_on_cpu(SymmetricStrip<T>{n - below, count, diagonal + count, ld, x + i,
                                                      x + below, part + below, part + i});
  });
  add_parts(true, n, n, parts, y);
}

/// y = A x by strips of columns.
template <class T>
void parallel_product(int m, int n, const T* a, int ld, const T* x, T* y, T* parts) {
  for_strips(0, n, kStrip, [&](Strip s) {
    product("N", m, s.count, T(1), a + int64_t(s.first) * ld, ld, x + s.first, 1, T(0),
            parts + int64_t(s.first / kStrip) * m);
  });
  add_parts(false, n, m, parts, y);
}
/// y = A' x by strips of columns.
template <class T>
void parallel_transposed_product(int m, int n, const T* a, int ld, const T* x, T* y) {
  for_strips(0, n, kStrip, [&](Strip s) {
    product("T", m, s.count, T(1), a + int64_t(s.first) * ld, ld, x, 1, T(0), y + s.first);
  });
}

/// Reduces the first kBlock columns of the symmetric matrix of m rows at a, and gives W of A - V W' - W V'.
template <class T> void tridiagonal_panel(int m, T* a, int ld, T* d, T* e, T* tau, T* w, T* parts) {
  const Columns<T> in{a, ld}, update{w, m};
  for (int i = 0; i < kBlock && !mt_interrupted; ++i) {
    const int rest = m - i - 1;
    product("N", m - i, i, T(-1), in.at(i, 0), ld, update.at(i, 0), m, T(1), in.at(i, i));
    product("N", m - i, i, T(-1), update.at(i, 0), m, in.at(i, 0), ld, T(1), in.at(i, i));
    T *const v = in.at(i + 1, i), *const to = update.at(i + 1, i), *const inner = update.at(0, i);
    MT_ROUTINE(larfg)(&rest, v, v + 1, &kOne, tau + i);
    d[i] = *in.at(i, i);
    e[i] = *v;
    *v = 1;
    symmetric_product(rest, in.at(i + 1, i + 1), ld, v, to, parts);
    product("T", rest, i, T(1), update.at(i + 1, 0), m, v, 1, T(0), inner);
    product("N", rest, i, T(-1), in.at(i + 1, 0), ld, inner, 1, T(1), to);
    product("T", rest, i, T(1), in.at(i + 1, 0), ld, v, 1, T(0), inner);
    product("N", rest, i, T(-1), update.at(i + 1, 0), m, inner, 1, T(1), to);
    T dot = 0;
    for (int r = 0; r < rest; ++r) dot += (to[r] *= tau[i]) * v[r];
    for (int r = 0; r < rest; ++r) to[r] -= T(0.5) * tau[i] * dot * v[r];
  }
}

/// Q' A Q = the tridiagonal matrix of d and e; the reflectors of Q replace the lower triangle from the second row on.
template <class T> int tridiagonal(int n, T* a, T* d, T* e, T* tau) {
  const Columns<T> in{a, n};
  const Array<T> w(double(n) * kBlock), parts((double(n) / kStrip + 1) * n);
  if (!w.at || !parts.at) return kNoMemory;
  int j = 0;
  for (; n - j > kMinSplit / 2 && !mt_interrupted; j += kBlock) {
    const int m = n - j, rest = m - kBlock;
    tridiagonal_panel(m, in.at(j, j), n, d + j, e + j, tau + j, w.at, parts.at);
    const Vectors<T> v{in.at(j + kBlock, j), 1, n}, update{w.at + kBlock, 1, m};
    T* const c = in.at(j + kBlock, j + kBlock);
    if (const int info = subtract_products(true, rest, rest, v, update, update, v, c, n); info != 0)
      return info;
  }
  if (mt_interrupted) return 0;
  const int rest = n - j;
  return with_workspace<T>([&](T* work, const int* length, int* info) {
    MT_ROUTINE(sytrd)("L", &rest, in.at(j, j), &n, d + j, e + j, tau + j, work, length, info, 1);
  });
}

/// The columns and rows that a panel of gebrd has reduced: A - V Y' - X U'.
template <class T> struct BidiagonalPanel {
  const int m, n;  // of the rest of the matrix
  const Columns<T> in, x, y;
  T *const row, *const parts;  // n elements, and m for each strip of columns

  void reduce_column(int i, T* d, T* tau) const {
    const int rows = m - i, rest = n - i - 1, ld = in.ld;
    T *const v = in.at(i, i), *const to = y.at(i + 1, i), *const inner = y.at(0, i);
    product("N", rows, i, T(-1), in.at(i, 0), ld, y.at(i, 0), y.ld, T(1), v);
    product("N", rows, i, T(-1), x.at(i, 0), x.ld, in.at(0, i), 1, T(1), v);
    MT_ROUTINE(larfg)(&rows, v, v + 1, &kOne, tau + i);
    d[i] = *v;
    *v = 1;
    parallel_transposed_product(rows, rest, in.at(i, i + 1), ld, v, to);
    product("T", rows, i, T(1), in.at(i, 0), ld, v, 1, T(0), inner);
    product("N", rest, i, T(-1), y.at(i + 1, 0), y.ld, inner, 1, T(1), to);
    product("T", rows, i, T(1), x.at(i, 0), x.ld, v, 1, T(0), inner);
    product("T", i, rest, T(-1), in.at(0, i + 1), ld, inner, 1, T(1), to);
    for (int r = 0; r < rest; ++r) to[r] *= tau[i];
  }
  void reduce_row(int i, T* e, T* tau) const {
    const int columns = n - i - 1, rest = m - i - 1, ld = in.ld;
    T *const u = in.at(i, i + 1), *const to = x.at(i + 1, i), *const inner = x.at(0, i);
    product("N", columns, i + 1, T(-1), y.at(i + 1, 0), y.ld, in.at(i, 0), ld, T(1), u, ld);
    product("T", i, columns, T(-1), in.at(0, i + 1), ld, x.at(i, 0), x.ld, T(1), u, ld);
    MT_ROUTINE(larfg)(&columns, u, u + ld, &ld, tau + i);
    e[i] = *u;
    *u = 1;
    for (int c = 0; c < columns; ++c) row[c] = u[int64_t(c) * ld];
    parallel_product(rest, columns, in.at(i + 1, i + 1), ld, row, to, parts);
    product("T", columns, i + 1, T(1), y.at(i + 1, 0), y.ld, row, 1, T(0), inner);
    product("N", rest, i + 1, T(-1), in.at(i + 1, 0), ld, inner, 1, T(1), to);
    product("N", i, columns, T(1), in.at(0, i + 1), ld, row, 1, T(0), inner);
    product("N", rest, i, T(-1), x.at(i + 1, 0), x.ld, inner, 1, T(1), to);
    for (int r = 0; r < rest; ++r) to[r] *= tau[i];
  }
};

/// Q' A P = the upper bidiagonal matrix of d and e, for m >= n: the reflectors of Q are columns from the diagonal on,
/// those of P are rows from the second column on.
template <class T> int bidiagonal(int m, int n, T* a, T* d, T* e, T* tau_q, T* tau_p) {
  const Columns<T> in{a, m};
  const Array<T> x(double(m) * kBlock), y(double(n) * kBlock), row(n),
      parts((double(n) / kStrip + 1) * m);
  if (!x.at || !y.at || !row.at || !parts.at) return kNoMemory;
  int j = 0;
  for (; n - j > kMinSplit / 2 && !mt_interrupted; j += kBlock) {
    const BidiagonalPanel<T> panel{m - j, n - j, {in.at(j, j), m}, {x.at, m - j}, {y.at, n - j},
                                   row,   parts};
    for (int i = 0; i < kBlock && !mt_interrupted; ++i) {
      panel.reduce_column(i, d + j, tau_q + j);
      panel.reduce_row(i, e + j, tau_p + j);
    }
    const Vectors<T> v{in.at(j + kBlock, j), 1, m}, u{in.at(j, j + kBlock), m, 1},
        to_y{y.at + kBlock, 1, n - j}, to_x{x.at + kBlock, 1, m - j};
    T* const c = in.at(j + kBlock, j + kBlock);
    if (const int info =
            subtract_products(false, m - j - kBlock, n - j - kBlock, v, to_y, to_x, u, c, m);
        info != 0)
      return info;
  }
  if (mt_interrupted) return 0;
  const int rows = m - j, columns = n - j;
  return with_workspace<T>([&](T* work, const int* length, int* info) {
    MT_ROUTINE(gebrd)
    (&rows, &columns, in.at(j, j), &m, d + j, e + j, tau_q + j, tau_p + j, work, length, info);
  });
}

}  // namespace

template <class T> int blocked_qr(int m, int n, T* a, T* tau) {
  const Columns<T> in{a, m};
  const int k = std::min(m, n);
  T factors[2][kBlock * kBlock];  // of this panel and of the next one
  const auto reduce = [&](int j) {
    const int rows = m - j, w = std::min(kBlock, k - j);
    T* const t = factors[j / kBlock % 2];
    int info = 0;
    MT_ROUTINE(geqrt3)(&rows, &w, in.at(j, j), &m, t, &kBlock, &info);
    for (int i = 0; i < w; ++i) tau[j + i] = t[i + i * kBlock];
  };
  reduce(0);
  for (int j = 0; j < k && !mt_interrupted; j += kBlock) {
    const int rows = m - j, w = std::min(kBlock, k - j), next = j + w,
              ahead = std::min(kBlock, k - next);
    const auto update = [&](Strip s) {
      T work[kBlock * kStrip];
      MT_ROUTINE(larfb)
      ("L", "T", "F", "C", &rows, &s.count, &w, in.at(j, j), &m, factors[j / kBlock % 2], &kBlock,
       in.at(j, s.first), &m, work, &s.count, 1, 1, 1, 1);
    };
    const auto update_and_reduce = [&] {
      if (ahead > 0) update({next, ahead}), reduce(next);
    };
    for_next_and_strips(update_and_reduce, next + ahead, n, update);
  }
  return 0;
}

template <class T> int blocked_qr_q(int m, int columns, int k, T* a, const T* tau) {
  const Array<T> copy(double(m) * k);
  if (!copy.at) return kNoMemory;
  std::memcpy(copy.at, a, sizeof(T) * size_t(m) * size_t(k));
  std::memset(a, 0, sizeof(T) * size_t(m) * size_t(columns));
  for (int i = 0; i < columns; ++i) a[i + int64_t(i) * m] = 1;
  return Reflectors<T>(m, k, false, copy.at, m, tau).apply(columns, a, m, true);
}

template <class T> int blocked_eigh(bool vectors, int n, T* a, T* values) {
  const Array<T> d(n), e(n), tau(n), z(vectors ? double(n) * n : 1);
  const Array<int> order(n);
  if (!d.at || !e.at || !tau.at || !z.at || !order.at) return kNoMemory;
  int info = tridiagonal(n, a, d.at, e.at, tau.at);
  if (info != 0 || mt_interrupted) return info;
  if (!vectors) {
    std::memcpy(values, d.at, sizeof(T) * size_t(n));
    MT_ROUTINE(sterf)(&n, values, e.at, &info);
    return info;
  }
  info = tridiagonal_eigen(n, d.at, e.at, z.at, order.at);
  if (info != 0 || mt_interrupted) return info;
  info = Reflectors<T>(n - 1, n - 1, false, a + 1, n, tau.at).apply(n, z.at + 1, n);
  for (int i = 0; i < n; ++i) {
    const int from = order[i] - 1;
    values[i] = d[from];
    std::memcpy(a + int64_t(i) * n, z + int64_t(from) * n, sizeof(T) * size_t(n));
  }
  return info;
}

template <class T> int blocked_svd(char job, int m, int n, T* a, T* s, T* u, T* vt) {
  const bool vectors = job != 'N', tall = m >= 2 * n;  // then A = Q R, and R is reduced
  const Array<T> e(n), tau(n), tau_q(n), tau_p(n), triangle(tall ? double(n) * n : 1),
      core(vectors ? double(n) * n : 1), work(vectors ? 3.0 * n * n + 4.0 * n : 8.0 * n);
  const Array<int> whole(8.0 * n);
  if (!e.at || !tau.at || !tau_q.at || !tau_p.at || !triangle.at || !core.at || !work.at ||
      !whole.at)
    return kNoMemory;
  T* const reduced = tall ? triangle.at : a;
  const int rows = tall ? n : m;
  if (tall) {
    blocked_qr(m, n, a, tau.at);
    for (int j = 0; j < n; ++j)
      std::memcpy(reduced + int64_t(j) * n, a + int64_t(j) * m, sizeof(T) * size_t(j + 1));
  }
  int info = bidiagonal(rows, n, reduced, s, e.at, tau_q.at, tau_p.at), unused_index = 0;
  if (info != 0 || mt_interrupted) return info;
  T unused = 0;
  MT_ROUTINE(bdsdc)
  ("U", vectors ? "I" : "N", &n, s, e.at, core.at, &n, vt, &n, &unused, &unused_index, work.at,
   whole.at, &info, 1, 1);
  if (info != 0 || !vectors || mt_interrupted) return info;
  const int columns = job == 'A' ? m : n;
  std::memset(u, 0, sizeof(T) * size_t(m) * size_t(columns));
  for (int j = 0; j < n; ++j)
    std::memcpy(u + int64_t(j) * m, core.at + int64_t(j) * n, sizeof(T) * size_t(n));
  for (int j = n; j < columns; ++j) u[j + int64_t(j) * m] = 1;
  info = Reflectors<T>(rows, n, false, reduced, rows, tau_q.at).apply(tall ? n : columns, u, m);
  if (info == 0 && tall) info = Reflectors<T>(m, n, false, a, m, tau.at).apply(columns, u, m);
  if (info != 0) return info;
  return Reflectors<T>(n - 1, n - 1, true, reduced + rows, rows, tau_p.at).apply(n, vt + n, n);
}

#define MT_INSTANCES(T)                                   \
  template int blocked_qr(int, int, T*, T*);              \
  template int blocked_qr_q(int, int, int, T*, const T*); \
  template int blocked_eigh(bool, int, T*, T*);           \
  template int blocked_svd(char, int, int, T*, T*, T*, T*);
MT_INSTANCES(float)
MT_INSTANCES(double)

}  // namespace mt::lapack
