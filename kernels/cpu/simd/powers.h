// powers.h -- the loops of pow: products, roots and quotients for a few common exponents
//
// An element's result depends only on its base and its exponent. Loops whose elements have the same
// exponent are compiled with it as a constant, which reduces the formula to about one product.
#pragma once
#include <type_traits>

#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/simd/fast_path.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/ops.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {

/// The exponents, times two, that have a special path. Builder::power
/// (engine/compiler/program/builder.cpp) generates the same code for programs.
template <int... Twice> struct HalfPowers {};
using ShortPowers = HalfPowers<2, 4, 6, 8, -2, -4, 1, -1>;

/// x to the power Twice / 2, with the special cases of pow in C99 Annex F.
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

/// op::Pow and its derivative by x, times g; Short: whether `y` (in the derivative `y` - 1) may be in ShortPowers.
template <bool Short, class T> MT_SIMD T power(T x, T y) {
  return Short ? power_of(x, y, ShortPowers{}) : math::pow(x, y);
}
template <bool Short, class T> MT_SIMD T power_gradient(T g, T x, T y) {
  return y == T(0) ? T(0) : g * power<Short>(x, y - T(1)) * y;
}

/// If y is one of the exponents, calls `loop` with twice its value as a constant; otherwise returns false.
template <class T, int... Twice, class Loop>
bool with_short_power(T y, HalfPowers<Twice...>, const Loop& loop) {
  return ((y == T(Twice) / 2 && (loop(std::integral_constant<int, Twice>{}), true)) || ...);
}

/// What the exponents y[i] - less of a block have in common. `none_short`: none is in ShortPowers, in whose numbers
/// only the three highest bits of the mantissa can be set.
enum class Exponents { equal, none_short, mixed };
template <class T> Exponents classify(int64_t n, const T* y, T less) {
  using Bits = math::core::bits_of<T>;
  constexpr Bits tail = (Bits(1) << (math::core::Real<T>::mantissa - 3)) - 1;
  const Bits first = math::core::to_bits(*y - less);
  Bits differs = 0, least = tail;
  for (int64_t i = 0; i < n; ++i) {
    const Bits bits = math::core::to_bits(y[i] - less), rest = bits & tail;
    differs |= bits ^ first, least = rest < least ? rest : least;
  }
  return differs == 0 ? Exponents::equal : least ? Exponents::none_short : Exponents::mixed;
}
/// Calls `loop` with true_type if an exponent may be in ShortPowers, else with false_type.
template <class Loop> MT_SIMD void with_any_short(Exponents kind, const Loop& loop) {
  kind == Exponents::none_short ? loop(std::false_type{}) : loop(std::true_type{});
}

/// Powers of at most kProbe elements; `one` as in run_power.
template <class T> void power_block(int64_t n, T* out, const T* x, const T* y, int one) {
  const Exponents kind = one == 1 ? Exponents::equal : classify(n, y, T(0));
  if (one == 0) {
    const T base = *x;
    with_any_short(kind, [=](auto any) {
      MT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) out[i] = power<any.value>(base, y[i]);
    });
  } else if (kind == Exponents::equal) {
    const T exponent = *y;
    if (with_short_power(exponent, ShortPowers{}, [&](auto twice) {
          MT_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) out[i] = half_power<decltype(twice)::value>(x[i]);
        }))
      return;
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = math::pow(x[i], exponent);
  } else {
    with_any_short(kind, [=](auto any) {
      MT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) out[i] = power<any.value>(x[i], y[i]);
    });
  }
}
template <class T>
void power_gradient_block(int64_t n, T* out, const T* g, const T* x, const T* y) {
  const Exponents kind = classify(n, y, T(1));
  if (kind != Exponents::equal || *y == T(0)) {
    with_any_short(kind, [=](auto any) {
      MT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) out[i] = power_gradient<any.value>(g[i], x[i], y[i]);
    });
    return;
  }
  const T exponent = *y, less = exponent - T(1);
  if (with_short_power(less, ShortPowers{}, [&](auto twice) {
        MT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i)
          out[i] = g[i] * half_power<decltype(twice)::value>(x[i]) * exponent;
      }))
    return;
  MT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = g[i] * math::pow(x[i], less) * exponent;
}

/// data: the result, x and y. `one`: the index of the input, from 0, that is one element; -1: none.
template <class T> void run_power(char* const* data, int64_t n, int one) {
  T* const out = reinterpret_cast<T*>(data[0]);
  const T* const x = reinterpret_cast<const T*>(data[1]);
  const T* const y = reinterpret_cast<const T*>(data[2]);
  for (int64_t at = 0; at < n; at += kProbe)
    power_block(smaller(kProbe, n - at), out + at, x + (one == 0 ? 0 : at), y + (one == 1 ? 0 : at),
                one);
}
/// data: the result, the incoming gradient, x and y.
template <class T> void run_power_gradient(char* const* data, int64_t n) {
  T* const out = reinterpret_cast<T*>(data[0]);
  const T* const g = reinterpret_cast<const T*>(data[1]);
  const T* const x = reinterpret_cast<const T*>(data[2]);
  const T* const y = reinterpret_cast<const T*>(data[3]);
  for (int64_t at = 0; at < n; at += kProbe)
    power_gradient_block(smaller(kProbe, n - at), out + at, g + at, x + at, y + at);
}

}  // namespace MT_ISA
}  // namespace mt
