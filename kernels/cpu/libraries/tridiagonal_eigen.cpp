// tridiagonal_eigen.cpp -- eigenvalues and eigenvectors of a symmetric tridiagonal matrix on all threads
//
// Divide and conquer as in LAPACK's stedc (Cuppen 1981, Gu and Eisenstat 1995): two halves and a matrix of rank one,
// whose eigenvalues are the roots of a secular equation. LAPACK finds the deflation and single roots.
#include <cmath>
#include <numeric>

#include "kernels/cpu/libraries/lapack_blocks.h"

namespace mt::lapack {
namespace {

constexpr int kLeaf = 32;  // smaller matrices are solved by the QR iteration
constexpr int kOne = 1;

/// A matrix of `size` rows, and memory for its parts: a part uses the elements of its columns. The names are those of
/// the secular equation 1 + rho * sum of weights^2 / (poles - eigenvalue) = 0; LAPACK's permutations indx, indxc, indxp
/// are `sorted`, `grouped` (by the halves in which a vector has elements) and `kept`.
template <class T> struct DivideAndConquer {
  const int size;
  T *const d, *const e;  // the diagonal, replaced by eigenvalues, and the one beside it, destroyed
  const Columns<T> q;    // eigenvectors; 0 before
  int* const order;      // the columns by increasing eigenvalue, from 1 within a part
  const Array<T> halves{1.0 * size * size}, z{1.0 * size}, poles{1.0 * size}, weights{1.0 * size};
  const Array<int> sorted{1.0 * size}, grouped{1.0 * size}, kept{1.0 * size}, types{1.0 * size};

  bool allocated() const {
    return halves.at && z.at && poles.at && weights.at && sorted.at && grouped.at && kept.at &&
           types.at;
  }

  /// Solves the part of n columns from `first`. Returns 0, or LAPACK's info.
  int solve(int first, int n) const {
    if (n <= kLeaf) return solve_leaf(first, n);
    const int n1 = n / 2, second = first + n1;
    const T beside = e[second - 1];
    d[second - 1] -= std::abs(beside);
    d[second] -= std::abs(beside);
    int info[2] = {1, 1};                 // of a half that an interrupt skips
    const bool spread = n <= 4 * kStrip;  // larger halves use all threads one after the other
    const auto solve_half = [&](int64_t i) {
      info[i] = i == 0 ? solve(first, n1) : solve(second, n - n1);
    };
    parallel(2, spread, solve_half);
    if (info[0] != 0 || info[1] != 0) return info[info[0] == 0];
    return Merge{*this, first, n, n1, beside}.run();
  }

 private:
  int solve_leaf(int first, int n) const {
    T work[2 * kLeaf];
    int info = 0;
    MT_ROUTINE(steqr)("I", &n, d + first, e + first, q.at(first, first), &q.ld, work, &info, 1);
    std::iota(order + first, order + first + n, 1);
    return info;
  }

  /// The eigenvectors of two neighbouring parts become those of both.
  struct Merge {
    const DivideAndConquer& all;
    const int first, n, n1;
    T rho;      // the element that connects the parts
    int k = 0;  // columns that change
    int top = 0, both = 0,
        bottom = 0;  // of them: with elements in the upper half, in both, in the lower

    T* column(int i) const { return all.q.at(first, first + i); }
    T* diagonal() const { return all.d + first; }

    int run() {
      int *const order = all.order + first, info = 0;
      deflate(&info);
      if (info != 0) return info;
      if (k == 0) {
        std::iota(order, order + n, 1);
        return 0;
      }
      if (info = find_roots(); info != 0) return info;
      if (k > 2) compute_weights();
      const bool complete = compute_vectors();
      const int deflated = n - k, backward = -1;
      MT_ROUTINE(lamrg)(&k, &deflated, diagonal(), &kOne, &backward, order);
      return complete ? 0 : kNoMemory;
    }

    /// Sets aside eigenvalues that the merge does not change, and copies the other vectors' halves to `halves`.
    void deflate(int* info) {
      T* const z = all.z + first;
      for (int i = 0; i < n; ++i) z[i] = *all.q.at(first + n1 - (i < n1), first + i);
      int* const types = all.types + first;
      MT_ROUTINE(laed2)
      (&k, &n, &n1, diagonal(), column(0), &all.q.ld, all.order + first, &rho, z, all.poles + first,
       all.weights + first, saved(), all.sorted + first, all.grouped + first, all.kept + first,
       types, info);
      top = types[0], both = types[1], bottom = types[2];
    }
    T* saved() const { return all.halves + int64_t(first) * all.size; }

    /// The eigenvalues that change; column i becomes the differences between the poles and eigenvalue i.
    int find_roots() const {
      std::atomic<int> failed{0};
      for_strips(0, k, kLeaf, [&](Strip s) {
        for (int i = s.first + 1; i <= s.first + s.count; ++i) {
          int info = 0;
          MT_ROUTINE(laed4)
          (&k, &i, all.poles + first, all.weights + first, column(i - 1), &rho, diagonal() + i - 1,
           &info);
          if (info != 0) failed = info;
        }
      });
      return failed;
    }

    /// Weights for which the computed eigenvalues are exact, so that the vectors are orthogonal (Gu and Eisenstat).
    void compute_weights() const {
      const T* const poles = all.poles + first;
      for_strips(0, k, kStrip, [&](Strip s) {
        const int begin = s.first, end = s.first + s.count;
        T product[kStrip];
        for (int i = begin; i < end; ++i) product[i - begin] = column(i)[i];
        for (int j = 0; j < k; ++j) {
          const T *const differences = column(j), pole = poles[j];
          const auto multiply_range = [&](int from, int to) {
#pragma omp simd
            for (int i = from; i < to; ++i)
              product[i - begin] *= differences[i] / (poles[i] - pole);
          };
          multiply_range(begin, std::min(end, j));
          multiply_range(std::max(begin, j + 1), end);
        }
        T* const weights = all.weights + first;
        for (int i = begin; i < end; ++i)
          weights[i] = std::copysign(std::sqrt(-product[i - begin]), weights[i]);
      });
    }

    /// Products of the halves of the old vectors with the vectors of the secular equation. False without memory.
    bool compute_vectors() const {
      std::atomic<bool> complete{true};
      for_strips(0, k, kStrip, [&](Strip s) {
        const Array<T> inner(double(k) * s.count);
        if (!inner.at) return void(complete = false);
        for (int j = 0; j < s.count; ++j) inner_vector(column(s.first + j), inner + int64_t(j) * k);
        const int n2 = n - n1, upper = top + both, lower = both + bottom;
        T* const to = column(s.first);
        multiply(false, false, n1, s.count, upper, T(1), saved(), n1, inner.at, k, T(0), to,
                 all.q.ld);
        multiply(false, false, n2, s.count, lower, T(1), saved() + int64_t(n1) * upper, n2,
                 inner + top, k, T(0), to + n1, all.q.ld);
      });
      return complete;
    }
    /// The vector of an eigenvalue in the order of the halves' columns; LAPACK gives it itself for k up to 2.
    void inner_vector(T* x, T* to) const {
      const int* const from = all.grouped + first;
      double square = 0;
      for (int i = 0; i < k; ++i) {
        if (k > 2) x[i] = all.weights[first + i] / x[i];
        square += double(x[i]) * x[i];
      }
      const T norm = k > 2 ? T(std::sqrt(square)) : 1;
      for (int i = 0; i < k; ++i) to[i] = x[from[i] - 1] / norm;
    }
  };
};

}  // namespace

template <class T> int tridiagonal_eigen(int n, T* d, T* e, T* q, int* order) {
  // Squares must not overflow or vanish; a power of two changes no bits.
  T largest = 0;
  for (int i = 0; i < n; ++i) largest = std::max({largest, std::abs(d[i]), std::abs(e[i])});
  int exponent = 0;
  std::frexp(largest, &exponent);
  for (int i = 0; i < n; ++i)
    d[i] = std::ldexp(d[i], -exponent), e[i] = std::ldexp(e[i], -exponent);
  const DivideAndConquer<T> all{n, d, e, {q, n}, order};
  if (!all.allocated()) return kNoMemory;
  std::iota(order, order + n, 1);  // the sort reads it also after an interrupt
  const int info = all.solve(0, n);
  // Rounding can exchange close eigenvalues.
  std::stable_sort(order, order + n, [d](int i, int j) { return d[i - 1] < d[j - 1]; });
  for (int i = 0; i < n; ++i) d[i] = std::ldexp(d[i], exponent);
  return info;
}

template int tridiagonal_eigen(int, float*, float*, float*, int*);
template int tridiagonal_eigen(int, double*, double*, double*, int*);

}  // namespace mt::lapack
