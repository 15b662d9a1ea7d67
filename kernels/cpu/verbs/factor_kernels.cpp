// factor_kernels.cpp -- products of a symmetric strip, by four columns at a time; triangular systems, by four unknowns
#include "kernels/cpu/factor_kernels.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/simd/transpose.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// The products of kColumns columns from j on: y += A x, dots += A' v.
template <int kColumns, class T> void multiply_columns(int j, const SymmetricStrip<T>& s) {
  constexpr int kStep = simd::kWidth<T>;
  simd::Vector<T> x[kColumns], sum[kColumns];
  for (int c = 0; c < kColumns; ++c)
    x[c] = simd::broadcast(s.x[j + c]), sum[c] = simd::broadcast(T(0));
  const T* const a = s.a + int64_t(j) * s.ld;
  const auto step = [&](int i, const auto& load) {
    const simd::Vector<T> v = load(s.v + i);
    simd::Vector<T> y = load(s.y + i);
    for (int c = 0; c < kColumns; ++c) {
      const simd::Vector<T> element = load(a + int64_t(c) * s.ld + i);
      sum[c] = simd::fma(element, v, sum[c]);
      y = simd::fma(element, x[c], y);
    }
    return y;
  };
  int i = 0;
  for (; i + kStep <= s.rows; i += kStep)
    simd::store(s.y + i, step(i, [](const T* p) { return simd::load(p); }));
  if (const int rest = s.rows - i; rest > 0)
    simd::store_first(s.y + i, step(i, [&](const T* p) { return simd::load_first(p, rest); }),
                      rest);
  for (int c = 0; c < kColumns; ++c) {
    T lanes[kStep];
    simd::store(lanes, sum[c]);
    for (const T lane : lanes) s.dots[j + c] += lane;
  }
}

template <class T> void multiply_strip(const SymmetricStrip<T>& s) {
  int j = 0;
  for (; j + 4 <= s.columns; j += 4) multiply_columns<4>(j, s);
  for (; j < s.columns; ++j) multiply_columns<1>(j, s);
}

/// The unknowns of several systems: two vectors for each unknown, in which each lane is a column of B.
template <class T> struct Lanes {
  static constexpr int kVectors = 2, kCount = kVectors * simd::kWidth<T>;
  alignas(64) T x[TriangularSystem<T>::kMaxUnknowns][kCount];
};

/// Solves for kUnknowns unknowns from `first`, in the order of substitution, and subtracts their products from the
/// later equations.
template <int kUnknowns, class T>
void solve_unknowns(int first, const TriangularSystem<T>& s, Lanes<T>& lanes) {
  constexpr int kVectors = Lanes<T>::kVectors, kStep = simd::kWidth<T>;
  const auto row = [&](int k) { return s.backward ? s.unknowns - 1 - k : k; };
  const auto element = [&](int r, int k) {
    return s.a[int64_t(row(r)) * s.row_step + int64_t(row(k)) * s.column_step];
  };
  simd::Vector<T> known[kUnknowns][kVectors];
  // Loads right side r, minus the products of the first `count` known unknowns, to y.
  const auto subtract = [&](int r, int count, simd::Vector<T>* y) {
    for (int v = 0; v < kVectors; ++v) y[v] = simd::load(lanes.x[row(r)] + v * kStep);
    for (int k = 0; k < count; ++k) {
      const simd::Vector<T> factor = simd::broadcast(-element(r, first + k));
      for (int v = 0; v < kVectors; ++v) y[v] = simd::fma(factor, known[k][v], y[v]);
    }
  };
  const auto store = [&](int r, const simd::Vector<T>* y) {
    for (int v = 0; v < kVectors; ++v) simd::store(lanes.x[row(r)] + v * kStep, y[v]);
  };
  for (int k = 0; k < kUnknowns; ++k) {
    subtract(first + k, k, known[k]);
    if (!s.unit)
      for (auto& x : known[k]) x = x / simd::broadcast(element(first + k, first + k));
    store(first + k, known[k]);
  }
  for (int r = first + kUnknowns; r < s.unknowns; ++r) {
    simd::Vector<T> y[kVectors];
    subtract(r, kUnknowns, y);
    store(r, y);
  }
}

template <class T> void solve_by_lanes(const TriangularSystem<T>& s) {
  Lanes<T> lanes;
  for (int column = 0; column < s.columns; column += lanes.kCount) {
    const int count = std::min(lanes.kCount, s.columns - column);
    T* const b = s.b + int64_t(column) * s.ld;
    if (count < lanes.kCount) std::memset(lanes.x, 0, s.unknowns * sizeof lanes.x[0]);
    transpose(lanes.x[0], lanes.kCount, b, s.ld, s.unknowns, count);
    int k = 0;
    for (; k + 4 <= s.unknowns; k += 4) solve_unknowns<4>(k, s, lanes);
    for (; k < s.unknowns; ++k) solve_unknowns<1>(k, s, lanes);
    transpose(b, s.ld, lanes.x[0], lanes.kCount, count, s.unknowns);
  }
}

}  // namespace

void solve_triangle(const TriangularSystem<float>& s) { solve_by_lanes(s); }
void solve_triangle(const TriangularSystem<double>& s) { solve_by_lanes(s); }
void multiply_symmetric_strip(const SymmetricStrip<float>& s) { multiply_strip(s); }
void multiply_symmetric_strip(const SymmetricStrip<double>& s) { multiply_strip(s); }

}  // namespace MT_ISA
}  // namespace mt
