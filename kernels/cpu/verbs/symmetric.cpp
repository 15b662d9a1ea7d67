// symmetric.cpp -- both products of a strip of a symmetric matrix, four columns at a time
#include "kernels/cpu/symmetric.h"

#include "kernels/cpu/simd/simd.h"

namespace mt {
inline namespace MT_ISA {
namespace {

template <int kColumns, class T> void columns_from(int j, const SymmetricStrip<T>& s) {
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

template <class T> void each_column(const SymmetricStrip<T>& s) {
  int j = 0;
  for (; j + 4 <= s.columns; j += 4) columns_from<4>(j, s);
  for (; j < s.columns; ++j) columns_from<1>(j, s);
}

}  // namespace

void symmetric_strip(const SymmetricStrip<float>& s) { each_column(s); }
void symmetric_strip(const SymmetricStrip<double>& s) { each_column(s); }

}  // namespace MT_ISA
}  // namespace mt
