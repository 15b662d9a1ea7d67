// number.h -- limits, and arithmetic that differs between integers and floats
#pragma once
#include "kernels/math/math_wide.h"
#include "kernels/math/reduced_floats.h"

namespace mt {
inline namespace MT_ISA {
namespace math {

template <class T> inline constexpr bool is_integer = false;
template <> inline constexpr bool is_integer<bool> = true;
template <> inline constexpr bool is_integer<uint8_t> = true;
template <> inline constexpr bool is_integer<int8_t> = true;
template <> inline constexpr bool is_integer<int16_t> = true;
template <> inline constexpr bool is_integer<int32_t> = true;
template <> inline constexpr bool is_integer<int64_t> = true;
template <class T> inline constexpr bool is_floating = false;
template <> inline constexpr bool is_floating<float> = true;
template <> inline constexpr bool is_floating<double> = true;
/// Whether T is a storage-only float.
template <class T> inline constexpr bool is_stored = __is_base_of(StoredFloat, T);
/// Whether T is a plain number, so that a formula can be evaluated on it directly.
template <class T> inline constexpr bool is_number = is_integer<T> || is_floating<T>;

constexpr double kInfinity = __builtin_inf();
/// The value of a parameter that is nil and has no number for nil.
constexpr double kNil = __builtin_nan("");

/// The smallest value of T: -infinity for floats that have it.
template <class T> MT_HD constexpr T lowest() {
  if constexpr (is_stored<T>) return T(T(kInfinity) > 0 ? -kInfinity : -T::kLargest);
  else if constexpr (is_floating<T>) return static_cast<T>(-kInfinity);
  else if constexpr (T(-1) > T(0)) return T(0);
  else return static_cast<T>(int64_t(uint64_t(1) << 63) >> (64 - 8 * sizeof(T)));
}
/// The largest value of T: infinity for floats that have it, true for bool.
template <class T> MT_HD constexpr T highest() {
  if constexpr (is_stored<T>) return T(-lowest<T>());
  else if constexpr (is_floating<T>) return static_cast<T>(kInfinity);
  else if constexpr (T(-1) > T(0)) return T(-1);
  else return static_cast<T>(~lowest<T>());
}

/// The largest finite number of a float type.
template <class T> MT_HD constexpr T largest() {
  if constexpr (sizeof(T) == 8) return 0x1.fffffffffffffp1023;
  else return 0x1.fffffep127f;
}

/// Converts x to T. Values out of range are clamped, and NaN becomes 0: the same on every device.
template <class T, class From> MT_HD constexpr T convert(From x) {
  if constexpr (is_stored<From>) {
    return convert<T>(static_cast<float>(x));
  } else if constexpr (is_integer<T> && static_cast<T>(2) == static_cast<T>(1)) {  // bool
    return x != From(0);
  } else if constexpr (is_integer<T> && is_floating<From>) {
    // The limits of 8 to 32 bits are exact in floats, or rounded to a number outside of the range.
    constexpr From end = -2 * From(lowest<T>() / 2);
    if constexpr (T(-1) > T(0))
      return x >= From(255) ? T(255) : x > From(0) ? static_cast<T>(x) : T(0);
    else
      return x >= end ? highest<T>() : x < -end ? lowest<T>() : x != x ? T(0) : static_cast<T>(x);
  } else {
    return static_cast<T>(x);
  }
}

template <class T> MT_HD T abs(T x) {
  if constexpr (is_floating<T> || is_symbolic<T>) return fabs(x);
  else return static_cast<T>(x < T(0) ? T(0) - x : x);
}

// Integers have no fraction; the versions for floats are in math.h.
#define MT_WHOLE(name)                        \
  MT_HD uint8_t name(uint8_t x) { return x; } \
  MT_HD int32_t name(int32_t x) { return x; } \
  MT_HD int64_t name(int64_t x) { return x; }
MT_WHOLE(floor)
MT_WHOLE(ceil)
MT_WHOLE(round)
MT_WHOLE(trunc)
#undef MT_WHOLE
MT_HD float round(float x) { return rint(x); }
MT_HD double round(double x) { return rint(x); }
template <class T> MT_HD Symbolic<T> round(T x) { return rint(x); }

/// Logical and of two bools; the product of other types.
MT_HD bool times(bool x, bool y) { return x & y; }
template <class T> MT_HD T times(T x, T y) { return static_cast<T>(x * y); }

/// C's %; the engine has rejected y == 0. INT_MIN % -1 would trap, so -1 is a special case.
template <class T> MT_HD constexpr bool is_minus_one(T y) { return T(-1) < T(0) && y == T(-1); }
template <class T> MT_HD T fmod(T x, T y) {
  return static_cast<T>(is_minus_one(y) ? T(0) : x % (y == T(0) ? T(1) : y));
}

/// The floor of x / y for floats, given fmod(x, y), as Python computes it: exact if x / y would be
/// rounded up to an integer.
template <class T> MT_HD T floor_quotient(T x, T y, T rest) {
  T quotient = (x - rest) / y;
  quotient = ((rest != T(0)) & ((rest < T(0)) != (y < T(0)))) ? quotient - T(1) : quotient;
  T whole = floor(quotient);
  whole = quotient - whole > T(0.5) ? whole + T(1) : whole;
  whole = whole == T(0) ? copysign(T(0), x / y) : whole;
  return y == T(0) ? x / y : whole;
}
/// The remainder with the sign of the divisor, given C's.
template <class T> MT_HD T floor_rest(T rest, T y) {
  return static_cast<T>(((rest != T(0)) & ((rest < T(0)) != (y < T(0)))) ? rest + y : rest);
}

/// a / b rounded towards minus infinity.
template <class T> MT_HD T floor_divide(T x, T y) {
  if constexpr (is_floating<T>) {
    return floor_quotient(x, y, fmod(x, y));
  } else {
    if (is_minus_one(y)) return static_cast<T>(T(0) - x);
    T quotient = static_cast<T>(x / (y == T(0) ? T(1) : y));
    return static_cast<T>(quotient -
                          T(x % (y == T(0) ? T(1) : y) != T(0) && ((x < T(0)) != (y < T(0)))));
  }
}

/// a / b truncated.
template <class T> MT_HD T trunc_divide(T x, T y) {
  if constexpr (is_floating<T>) return trunc(x / y);
  else if (is_minus_one(y)) return static_cast<T>(T(0) - x);
  else return static_cast<T>(x / (y == T(0) ? T(1) : y));
}

/// The bits of an integer as an int64 for bitwise operators; 0 for a float.
template <class T> MT_HD constexpr int64_t bits(T x) {
  return is_integer<T> ? static_cast<int64_t>(x) : 0;
}
/// Whether a shift of T by y shifts out all bits: undefined in C++, defined here.
template <class T> MT_HD constexpr bool shifts_out(T y) {
  return bits(y) < 0 || bits(y) >= int64_t(8 * sizeof(T));
}
template <class T> MT_HD T shift_left(T x, T y) {
  return static_cast<T>(shifts_out(y) ? 0 : static_cast<uint64_t>(bits(x)) << bits(y));
}
template <class T> MT_HD T shift_right(T x, T y) {
  return static_cast<T>(shifts_out(y) ? bits(x) >> 63 : bits(x) >> bits(y));
}

/// Euclid's algorithm on the magnitudes; that of the smallest integer only fits without a sign.
MT_HD uint64_t common_divisor(uint64_t x, uint64_t y) {
  while (y != 0) {
    const uint64_t rest = x % y;
    x = y, y = rest;
  }
  return x;
}
template <class T> MT_HD uint64_t magnitude(T x) {
  return bits(x) < 0 ? 0 - static_cast<uint64_t>(bits(x)) : static_cast<uint64_t>(bits(x));
}
template <class T> MT_HD T gcd(T x, T y) {
  return static_cast<T>(common_divisor(magnitude(x), magnitude(y)));
}
template <class T> MT_HD T lcm(T x, T y) {
  const uint64_t divisor = common_divisor(magnitude(x), magnitude(y));
  return static_cast<T>(divisor == 0 ? 0 : magnitude(x) / divisor * magnitude(y));
}

/// The remainder with the sign of the divisor.
template <class T> MT_HD T remainder(T x, T y) { return floor_rest(fmod(x, y), y); }

/// Integer power by squaring; the engine has rejected negative powers.
template <class T> MT_HD T pow(T x, T y) {
  T result = T(1);
  for (; y > T(0); y = static_cast<T>(y >> 1)) {
    if (y & 1) result = static_cast<T>(result * x);
    x = static_cast<T>(x * x);
  }
  return result;
}

MT_HD float hypot(float x, float y) {
  constexpr float infinity = static_cast<float>(kInfinity);
  const float length = static_cast<float>(sqrt(double(x) * x + double(y) * y));
  const bool far = abs(x) == infinity, high = abs(y) == infinity;
  return (far | high) ? infinity : length;  // also if the other is NaN, as in C
}
/// sqrt(h^2 + l^2), corrected for the rounding of the larger square, the sum and the root.
MT_HD double hypot(double x, double y) {
  const double a = fabs(x), b = fabs(y), larger = select(a > b, a, b);
  const bool big = larger > 0x1p500, small = larger < 0x1p-500;
  const double unit = select(big, 0x1p-600, select(small, 0x1p600, 1.0));
  const double h = larger * unit, l = select(a > b, b, a) * unit, t = h * h, w = l * l, q = t + w;
  const double lost = core::fused(h, h, -t) + (w - (q - t)), s = sqrt(q);
  const double length = s + (core::fused(-s, s, q) + lost) / fma(s, 2.0, 0x1p-900);
  const bool infinite = (a == kInfinity) | (b == kInfinity);
  return select(infinite, kInfinity, length * select(big, 0x1p600, select(small, 0x1p-600, 1.0)));
}

#ifndef __CUDA_ARCH__
/// A number in the range of the fast path, so that a formula called with it uses that path. The
/// loop that creates it has checked all its elements (kernels/cpu/simd/fast_path.h).
template <class T> struct Reduced {
  T v;
  template <class U> explicit constexpr Reduced(U x) : v(static_cast<T>(x)) {}
  explicit constexpr operator T() const { return v; }
};
template <class T> inline constexpr bool is_number<Reduced<T>> = true;
#define MT_REDUCED_OPERATOR(operation, Result)                                     \
  template <class T> MT_HD Result operator operation(Reduced<T> x, Reduced<T> y) { \
    return Result(x.v operation y.v);                                              \
  }
MT_REDUCED_OPERATOR(+, Reduced<T>)
MT_REDUCED_OPERATOR(-, Reduced<T>)
MT_REDUCED_OPERATOR(*, Reduced<T>)
MT_REDUCED_OPERATOR(/, Reduced<T>)
MT_REDUCED_OPERATOR(<, bool)
MT_REDUCED_OPERATOR(>, bool)
#undef MT_REDUCED_OPERATOR
template <class T> MT_HD Reduced<T> operator-(Reduced<T> x) { return Reduced<T>(-x.v); }

// |x| <= core::Real<T>::near
template <class T> MT_HD Reduced<T> sin(Reduced<T> x) { return Reduced<T>(core::near_sin(x.v)); }
template <class T> MT_HD Reduced<T> cos(Reduced<T> x) { return Reduced<T>(core::near_cos(x.v)); }
template <class T> MT_HD Reduced<T> tan(Reduced<T> x) { return Reduced<T>(core::near_tan(x.v)); }

/// x > 0, for which elu does not use the result.
template <class T> MT_HD Reduced<T> half_expm1(Reduced<T> x) { return x; }

/// x - y trunc(x / y), exact with one fma. A float's quotient below 2^28, computed in double,
/// cannot be rounded up to an integer; a double's can, and then the remainder has the wrong sign.
MT_HD float near_fmod(float x, float y) {
  double a = x, b = y, rest = core::fused(-trunc(a / b), b, a);
  return copysign(float(rest), x);
}
MT_HD double near_fmod(double x, double y) {
  double a = abs(x), b = abs(y), rest = core::fused(-trunc(a / b), b, a);
  return copysign(rest < 0 ? rest + b : rest, x);
}
/// Requires integers below 2^52 (bytes use float), so that a quotient that is not an integer is not
/// rounded to one. 0 and -1 divide as above.
template <class T> MT_HD T near_quotient(T x, T y) {
  const T by = (is_minus_one(y) | (y == T(0))) ? T(1) : y;
  T quotient;
  if constexpr (sizeof(T) == 1) quotient = static_cast<T>(float(x) / float(by));
  else quotient = static_cast<T>(double(x) / double(by));
  return static_cast<T>(is_minus_one(y) ? T(0) - x : quotient);
}
/// The remainder of x for the result of near_quotient.
template <class T> MT_HD T near_rest(T x, T y, T quotient) {
  return static_cast<T>(y == T(0) ? T(0) : x - quotient * y);
}
template <class T> MT_HD T near_fmod(T x, T y) { return near_rest(x, y, near_quotient(x, y)); }
/// Requires |x| < 2^28 |y| and a finite y, or integers below 2^52.
template <class T> MT_HD Reduced<T> fmod(Reduced<T> x, Reduced<T> y) {
  return Reduced<T>(near_fmod(x.v, y.v));
}
template <class T> MT_HD Reduced<T> floor_divide(Reduced<T> x, Reduced<T> y) {
  if constexpr (is_floating<T>) {
    return Reduced<T>(floor_quotient(x.v, y.v, near_fmod(x.v, y.v)));
  } else {
    const T quotient = near_quotient(x.v, y.v), rest = near_rest(x.v, y.v, quotient);
    return Reduced<T>(quotient - T((rest != T(0)) & ((x.v < T(0)) != (y.v < T(0)))));
  }
}
template <class T> MT_HD Reduced<T> remainder(Reduced<T> x, Reduced<T> y) {
  return Reduced<T>(floor_rest(near_fmod(x.v, y.v), y.v));
}
template <class T> MT_HD Reduced<T> trunc(Reduced<T> x) { return Reduced<T>(trunc(x.v)); }
#endif

}  // namespace math
}  // namespace MT_ISA
}  // namespace mt
