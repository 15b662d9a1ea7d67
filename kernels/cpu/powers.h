// powers.h -- the loops of pow: products, roots and quotients where the exponent is one of a few
//
// An element's result follows from its base and its exponent alone. Loops whose elements share an exponent
// are compiled with it as a constant, which leaves of the formula one product or so.
#pragma once
#include <type_traits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/ops.h"

namespace mt {
inline namespace MT_ISA {

/// The exponents, times two, that have a way of their own. Builder::power (engine/compile/builder.cpp) writes
/// the same for programs.
template <int... Twice> struct HalfPowers {};
using ShortPowers = HalfPowers<2, 4, 6, 8, -2, -4, 1, -1>;

/// x to the power Twice / 2, with what C99 Annex F asks of pow.
template <int Twice, class T> MT_SIMD T half_power(T x) {
  constexpr T infinity = T(math::kInfinity);
  if constexpr (Twice == 2) return x;
  if constexpr (Twice == 4) return x * x;
  if constexpr (Twice == 6) return x * x * x;
  if constexpr (Twice == 8) return (x * x) * (x * x);
  const T inverse = T(1) / x, root = math::sqrt(x) + T(0);
  if constexpr (Twice == -2) return inverse;
  if constexpr (Twice == -4) return inverse * inverse;
  if constexpr (Twice == 1) return x == -infinity ? infinity : root;
  return x == -infinity ? T(0) : T(1) / root;
}
template <class T, int... Twice> MT_SIMD T power_of(T x, T y, HalfPowers<Twice...>) {
  T r = math::pow(x, y);
  ((r = y == T(Twice) / 2 ? half_power<Twice>(x) : r), ...);
  return r;
}

/// op::Pow and its slope by x, with these ways.
template <class T> MT_SIMD T power(T x, T y) { return power_of(x, y, ShortPowers{}); }
template <class T> MT_SIMD T power_slope(T g, T x, T y) {
  return y == T(0) ? T(0) : g * y * power(x, y - T(1));
}

template <class T, int... Twice, class Loop>
bool with_short_power(T y, HalfPowers<Twice...>, const Loop& loop) {
  return ((y == T(Twice) / 2 && (loop(std::integral_constant<int, Twice>{}), true)) || ...);
}

template <class T> bool all_equal(int64_t n, const T* y) {
  int64_t i = 1;
  while (i < n && y[i] == *y) ++i;
  return n > 0 && i == n;
}

/// data: the result, x and y; or the result, the incoming gradient, x and y. `one`: the input, from 0, that
/// is one element for all; -1 for none.
template <class T> void run_power(char* const* data, int64_t n, int one) {
  T* const out = reinterpret_cast<T*>(data[0]);
  const T* const x = reinterpret_cast<const T*>(data[1]);
  const T* const y = reinterpret_cast<const T*>(data[2]);
  if (one == 0) {
    const T base = *x;
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = power(base, y[i]);
  } else if (one == 1 || all_equal(n, y)) {
    const T exponent = *y;
    if (with_short_power(exponent, ShortPowers{}, [&](auto twice) {
          MT_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) out[i] = half_power<decltype(twice)::value>(x[i]);
        }))
      return;
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = math::pow(x[i], exponent);
  } else {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = power(x[i], y[i]);
  }
}
template <class T> void run_power_slope(char* const* data, int64_t n) {
  T* const out = reinterpret_cast<T*>(data[0]);
  const T* const g = reinterpret_cast<const T*>(data[1]);
  const T* const x = reinterpret_cast<const T*>(data[2]);
  const T* const y = reinterpret_cast<const T*>(data[3]);
  if (!all_equal(n, y) || *y == T(0)) {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = power_slope(g[i], x[i], y[i]);
    return;
  }
  const T exponent = *y, less = exponent - T(1);
  if (with_short_power(less, ShortPowers{}, [&](auto twice) {
        MT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i)
          out[i] = g[i] * exponent * half_power<decltype(twice)::value>(x[i]);
      }))
    return;
  MT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = g[i] * exponent * math::pow(x[i], less);
}

}  // namespace MT_ISA
}  // namespace mt
