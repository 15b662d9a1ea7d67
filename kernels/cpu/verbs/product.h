// product.h -- a matrix product as an argument of the kernels of kernels/cpu/verbs/matmul.cpp and thin_product.h
#pragma once
#include <cstdint>

#include "kernels/cpu/simd/simd.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

using namespace simd;

// Arrays of vectors are kept in registers only if the loops over them are unrolled early.
#define MT_UNROLL _Pragma("GCC unroll 16")

/// to[i] = the sum of the elements of register i. N is a multiple of the elements of a lane.
template <class T, int N> MT_SIMD void store_sums(T* to, const Vector<T> (&registers)[N]) {
  constexpr int L = kLane<T>;
  MT_UNROLL for (int i = 0; i < N; i += L) {
    Vector<T> r[L];
    MT_UNROLL for (int l = 0; l < L; ++l) r[l] = registers[i + l];
    transpose_lanes(r);
    Vector<T> sum = add(r[0], r[1]);
    if constexpr (L == 4) sum = add(sum, add(r[2], r[3]));
    store_lane_sum(to + i, sum);
  }
}

/// Element (i, j) is at `at + i * row + j * col`.
template <class T> struct Mat {
  T* at;
  int64_t row, col;
  T* operator()(int64_t i, int64_t j) const { return at + i * row + j * col; }
  Mat from(int64_t i, int64_t j) const { return {(*this)(i, j), row, col}; }
  Mat transposed() const { return {at, col, row}; }
};

constexpr int64_t kThin = 12;   // rows or columns of a thin product, at most
constexpr int64_t kDeep = 256;  // rows of b in a panel: 2 registers of columns fill half of L1

/// Splits k into equal parts of at most kDeep.
inline int64_t depth_of(int64_t k) {
  return k <= kDeep ? k : ceil_div(ceil_div(k, ceil_div(k, kDeep)), 8) * 8;
}

/// automatic: the fastest kernel, or OpenBLAS; own: the outer form; onednn: oneDNN, which sums in the order of the
/// outer form.
enum class GemmBackend { automatic, own, onednn };

template <class T> struct Product {
  int64_t m, n, k;
  Mat<const T> a, b;
  Mat<T> c;
  bool accumulate;
  int64_t depth;  // the number of terms of a chain of fma, in every backend that sums in chains
  GemmBackend backend = GemmBackend::automatic;
  bool* skipped = nullptr;  // set to true where OpenBLAS is needed and missing
  double work() const { return double(m) * double(n) * double(k); }
  /// c^T = b^T . a^T: every kernel is written for rows of c, and computes columns through this.
  Product transposed() const {
    return {n,          m,     k,       b.transposed(), a.transposed(), c.transposed(),
            accumulate, depth, backend, skipped};
  }
};

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
