// math.h -- exp, log, tanh, erf and similar functions, branch-free so that loops are vectorized
#pragma once
#include "kernels/base.h"
#include "kernels/math/estimate.h"

/// The properties of all functions in this file:
/// - `for (...) y[i] = math::exp(x[i])` becomes SIMD code in every instruction set. There are no
/// branches and no tables: `select` blends two values that are both computed.
/// - One formula works for float, double and symbolic numbers (is_symbolic); constants and
/// polynomials depend on the format, Real<T>.
/// - Each polynomial is a minimax fit by the Remez exchange in 300 bits; the coefficients were
/// rounded one by one from the lowest power, and the others fitted again. The stated bounds are
/// those of the rounded coefficients.
/// - NaN, infinities, signed zeros and denormals follow C99 Annex F; floating-point flags do not.
/// - It needs `-ffp-contract=off -fno-math-errno -fno-trapping-math`, and never `-ffast-math`.
/// - On CUDA the same names call the CUDA library.
#ifdef __CUDA_ARCH__
#define MT_LIBM(name) ::name
#else
#define MT_LIBM(name) __builtin_##name
#endif
#define MT_FROM_LIBM(name)                                  \
  MT_HD float name(float x) { return MT_LIBM(name##f)(x); } \
  MT_HD double name(double x) { return MT_LIBM(name)(x); }
#define MT_FROM_LIBM2(name)                                             \
  MT_HD float name(float x, float y) { return MT_LIBM(name##f)(x, y); } \
  MT_HD double name(double x, double y) { return MT_LIBM(name)(x, y); }
// Calls the function in the symbolic number's namespace, which overload resolution prefers.
#define MT_OWN_OF_SYMBOLS(name) \
  template <class T> MT_HD Symbolic<T> name(T x) { return name(x); }
#define MT_FROM_CORE(name)                              \
  MT_HD float name(float x) { return core::name(x); }   \
  MT_HD double name(double x) { return core::name(x); } \
  MT_OF_SYMBOLS(name)
#define MT_OF_SYMBOLS(name) \
  template <class T> MT_HD Symbolic<T> name(T x) { return core::name(x); }

namespace mt {
inline namespace MT_ISA {
namespace math {

/// Whether T is a symbolic number: it records the operations on it, and the record is compiled or
/// printed. Such a T has T(), explicit T(constant); + - * / and unary -; comparisons, whose results
/// have & | ^ !; and in its own namespace fma, fabs, sqrt, floor, ceil, trunc, rint, copysign,
/// select, to_bits and from_bits<T>. Real<T> is derived from that of its format, with a `Bits` that
/// has Bits(constant), + - & | ^, << and logical >> by constants, == and !=.
template <class T> inline constexpr bool is_symbolic = false;

template <bool Holds, class T> struct Only {};
template <class T> struct Only<true, T> { using type = T; };
/// T if it is a symbolic number; otherwise SFINAE removes the function that returns it.
template <class T> using Symbolic = typename Only<is_symbolic<T>, T>::type;
template <class T> using Plain = typename Only<!is_symbolic<T>, T>::type;

template <class T> MT_HD constexpr T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}

MT_FROM_LIBM(fabs)
MT_FROM_LIBM(sqrt)
MT_FROM_LIBM(floor)
MT_FROM_LIBM(ceil)
MT_FROM_LIBM(trunc)
MT_FROM_LIBM(rint)  // rounds ties to even
MT_FROM_LIBM2(copysign)
MT_OWN_OF_SYMBOLS(fabs)
MT_OWN_OF_SYMBOLS(sqrt)
MT_OWN_OF_SYMBOLS(floor)
MT_OWN_OF_SYMBOLS(ceil)
MT_OWN_OF_SYMBOLS(trunc)
MT_OWN_OF_SYMBOLS(rint)
template <class T> MT_HD Symbolic<T> copysign(T x, T y) { return copysign(x, y); }
MT_FROM_LIBM2(fmod)  // the sign is that of x, as in C

/// a * b + c, rounded once if the instruction set has FMA and twice if it has not.
#ifdef __CUDA_ARCH__
MT_HD float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
MT_HD double fma(double a, double b, double c) { return ::fma(a, b, c); }
#elif defined(MT_HAS_FMA)
MT_HD float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MT_HD double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
MT_HD float fma(float a, float b, float c) { return a * b + c; }
MT_HD double fma(double a, double b, double c) { return a * b + c; }
#endif

namespace core {
/// c0 + c1 x + c2 x^2 + ... by Horner's rule.
template <class T, class C> MT_HD T poly(T, C c0) { return T(c0); }
template <class T, class C, class... More> MT_HD T poly(T x, C c0, More... c) {
  return fma(poly(x, c...), x, T(c0));
}
/// The same polynomial, given z = x^2, by pairs (Estrin), with half as many dependent steps.
template <class T, class C> MT_HD T poly_pairs(T, T, C c0) { return T(c0); }
template <class T, class C> MT_HD T poly_pairs(T x, T, C c0, C c1) { return fma(x, T(c1), T(c0)); }
template <class T, class C, class... More> MT_HD T poly_pairs(T x, T z, C c0, C c1, More... c) {
  return fma(z, poly_pairs(x, z, c...), fma(x, T(c1), T(c0)));
}

/// A floating-point format and the constants that depend on it. A `_hi` has so few bits that its
/// product with an exponent, or with a number of half the mantissa, is exact; `_lo` is the rest.
template <class T> struct Real;
template <> struct Real<float> {
  using Bits = uint32_t;
  static constexpr int mantissa = 23;
  static constexpr Bits bias = 127;
  static constexpr float smallest = 0x1p-126f;    // the smallest normal number
  static constexpr float min_fraction = 0.75f;    // for log: the smallest m
  static constexpr float two_mantissa = 0x1p23f;  // 2^mantissa
  static constexpr float round = 0x1.8p23f;       // adding and subtracting it rounds to an integer
  static constexpr float ln2_hi = 0x1.62e4p-1f, ln2_lo = 0x1.7f7d1cp-20f;
  static constexpr float log2e = 1.44269502f;
  static constexpr float log10_2_hi = 0x1.344134p-2f, log10_2_lo = 0x1.09f7ap-26f;
  static constexpr float exp_max = 104, exp2_max = 151, expm1_max = 89, tanh_max = 10;
  static constexpr float logistic_least = -120;  // x / (1 + e^-x) is 0 below it
  static constexpr float half_pi_hi = 0x1.921fb6p+0f, half_pi_lo = -0x1.777a5cp-25f;
  /// Angles up to this size are reduced by subtracting a multiple of pi/2 in three pieces. The
  /// first difference is exact: it is below 1, and its last bit is that of a number near 1.
  static constexpr float near = 0x1p14f, two_over_pi = 0x1.45f306p-1f, quarter1 = 0x1.921fb4p+0f,
                         quarter2 = 0x1.4442dp-24f, quarter3 = 0x1.846988p-48f;
  static constexpr float erfc_centre = 2.125f, erfc_end = 10.06f;  // erfc is 0 from there on
};
template <> struct Real<double> {
  using Bits = uint64_t;
  static constexpr int mantissa = 52;
  static constexpr Bits bias = 1023, upper_half = 0xfffffffff8000000u;
  static constexpr double smallest = 0x1p-1022;
  static constexpr double min_fraction = 0.70710678118654757;
  static constexpr double two_mantissa = 0x1p52;
  static constexpr double round = 0x1.8p52;
  static constexpr double ln2_hi = 0x1.62e42fefa38p-1, ln2_lo = 0x1.ef35793c7673p-45;
  static constexpr double log2e = 1.4426950408889634;
  static constexpr double log2e_hi = 0x1.7154768p+0, log2e_lo = -0x1.6a3e80f444178p-27;
  static constexpr double log10e = 0.4342944819032518;
  static constexpr double log10e_hi = 0x1.bcb7b18p-2, log10e_lo = -0x1.6c8d78e6acaa4p-29;
  static constexpr double log10_2_hi = 0x1.34413509f78p-2, log10_2_lo = 0x1.fef311f12b358p-46;
  static constexpr double exp_max = 746, exp2_max = 1076, expm1_max = 710, tanh_max = 20;
  // x / (1 + e^-x) is 0 below _least and x above _most; unit * e^-x never overflows.
  static constexpr double logistic_least = -754, logistic_most = 50, logistic_unit = 0x1p-70;
  static constexpr double half_pi_hi = 0x1.921fb54442d18p+0, half_pi_lo = 0x1.1a62633145c07p-54;
  static constexpr double near = 0x1p28, two_over_pi = 0x1.45f306dc9c883p-1, quarter1 = half_pi_hi,
                          quarter2 = half_pi_lo, quarter3 = -0x1.f1976b7ed8fbcp-110;
  static constexpr double erfc_centre = 3.5, erfc_end = 27.4;
};
/// a * b + c, rounded once in every instruction set. (Without FMA doubles use Dekker's exact
/// product: rounded once except for ties, and below 2^990.)
MT_HD float fused(float a, float b, float c) {
#if defined(MT_HAS_FMA) || defined(__CUDA_ARCH__)
  return fma(a, b, c);
#else
  return float(double(a) * b + c);
#endif
}
MT_HD double fused(double a, double b, double c) {
#if defined(MT_HAS_FMA) || defined(__CUDA_ARCH__)
  return fma(a, b, c);
#else
  const double sa = a * 0x1.000002p27, sb = b * 0x1.000002p27;
  const double ah = sa - (sa - a), bh = sb - (sb - b), al = a - ah, bl = b - bh;
  const double p = a * b, low = al * bl - (((p - ah * bh) - al * bh) - ah * bl);
  const double s = p + c, part = s - p, more = low + ((p - (s - part)) + (c - part));
  return select(more == 0, s, s + more);  // preserves -0
#endif
}

template <class T> MT_HD Symbolic<T> fused(T a, T b, T c) { return fma(a, b, c); }

template <class T> using bits_of = typename Real<T>::Bits;
template <class T> constexpr bool is_single = Real<T>::mantissa == 23;

MT_HD uint32_t to_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
MT_HD uint64_t to_bits(double x) { return __builtin_bit_cast(uint64_t, x); }
template <class T> MT_HD Plain<T> from_bits(bits_of<T> b) { return __builtin_bit_cast(T, b); }

/// (tanh(x) - x) / x^3 in z = x^2 on |x| <= 0.5625, in double; the error relative to tanh is 2^-59.8.
template <class T> MT_HD T tanh_poly(T z) {
  return poly(z, -0.33333333333333276, 0.13333333333322822, -0.053968253961546711,
              0.021869488322275556, -0.0088632315566989171, 0.0035920814520366408,
              -0.0014554746021123598, 0.00058816332643850172, -0.00023266557887705264,
              8.2289900700901637e-05, -1.8861084704467454e-05);
}

/// The smaller of x and max; propagates NaN.
template <class T> MT_HD T at_most(T x, T max) { return select(x > max, max, x); }

/// The larger of x and least; propagates NaN.
template <class T> MT_HD T at_least(T x, T least) { return select(x < least, least, x); }

/// x clamped to [-max, max]; propagates NaN. (g++ compiles two comparisons of x with constants to
/// branches, and to six selects where one is needed.)
template <class T> MT_HD T limit(T x, T max) { return copysign(at_most(fabs(x), max), x); }

/// The smaller of n and most; `most` if n is NaN. (g++ emits one select for each number that
/// depends on a choice between floats, and one instruction for integers.)
template <class T> MT_HD T lesser(T n, T most) {
  if constexpr (is_symbolic<T>) {
    return select(n < most, n, most);
  } else {
    const bits_of<T> a = to_bits(n), b = to_bits(most);
    return from_bits<T>(a < b ? a : b);
  }
}

template <class T> MT_HD Symbolic<T> about_inverse(T d) { return T(1) / d; }
template <class T> MT_HD Symbolic<T> about_rsqrt(T x) { return T(1) / sqrt(x); }

/// x / d from about_inverse(d), with little more than one rounding error.
template <class T> MT_HD T quotient(T x, T d, T inverse) {
  T q = x * inverse;
  return fma(fused(-q, d, x), inverse, q);
}

// ---- the exponential ----------------------------------------------------------------------------

/// e^r - 1 = r + r^2 p(r) on |r| <= ln(2)/2; the error of p relative to e^r is 2^-28.2 and 2^-61.8.
template <class T> MT_HD T exp_poly(T r) {
  if constexpr (is_single<T>)
    return poly_pairs(r, r * r, 0.49999994f, 0.166665226f, 0.0416682921f, 0.00836853217f,
                      0.00138182985f);
  else
    return poly(r, 0.5, 0.16666666666666685, 0.041666666666666727, 0.0083333333333153771,
                0.0013888888888856058, 0.00019841269900459151, 2.4801587377929172e-05,
                2.7557230817310702e-06, 2.7557230071228129e-07, 2.5113438019108969e-08,
                2.0927895187793429e-09);
}

/// e^(x - less) / 2^k - 1 for a tiny `less`, corrected for the rounding error of r.
template <class T> MT_HD T exact_exp_rest(T x, T k, T less) {
  using R = Real<T>;
  T hi = fma(k, T(-R::ln2_hi), x), lo = fma(k, T(R::ln2_lo), less), r = hi - lo;
  return r + fma(r * r, exp_poly(r), (hi - r) - lo);
}
/// e^x / 2^k - 1 for |x - k ln(2)| <= ln(2)/2, by Cody and Waite's reduction.
template <class T> MT_HD T exp_rest(T x, T k) {
  using R = Real<T>;
  T r = fma(k, T(-R::ln2_lo), fma(k, T(-R::ln2_hi), x));
  return fma(r * r, exp_poly(r), r);
}
/// e^x = 2^k (1 + q). `n` is k + Real::round + offset: its low bits are the integer k + offset.
template <class T> struct Exp { T n, q; };
template <class T> MT_HD Exp<T> exp_parts(T x, int offset) {
  using R = Real<T>;
  const T round(R::round + offset);
  T n = fma(x, T(R::log2e), round), k = n - round;
  if constexpr (is_single<T>) return {n, exp_rest(x, k)};
  else return {n, exact_exp_rest(x, k, T(0))};
}
/// 2^n for an n that is Real::round plus a biased exponent.
template <class T> MT_HD T power_of_two(T n) {
  return from_bits<T>(to_bits(n) << Real<T>::mantissa);
}
/// e^(z + less) = (1 + q) power 2^-64 for a tiny `less` and z from -113 to 0 in float, from -752
/// in double. The factor of `power` contains 2^-64, so that only this product can be denormal.
template <class T> struct Tail { T q, power; };
template <class T> MT_HD Tail<T> exp_tail(T z, T less) {
  using R = Real<T>;
  const T round(R::round + R::bias + 64);
  T n = fma(z, T(R::log2e), round), k = n - round;
  T r = fma(k, T(-R::ln2_hi), z) + fma(k, T(-R::ln2_lo), less);
  return {fma(r * r, exp_poly(r), r), power_of_two(n)};
}
}  // namespace core

#ifdef __CUDA_ARCH__

MT_FROM_LIBM(exp)
MT_FROM_LIBM(exp2)
MT_FROM_LIBM(expm1)
MT_FROM_LIBM(log)
MT_FROM_LIBM(log2)
MT_FROM_LIBM(log10)
MT_FROM_LIBM(log1p)
MT_FROM_LIBM(sin)
MT_FROM_LIBM(cos)
MT_FROM_LIBM(tanh)
MT_FROM_LIBM(erf)

MT_HD float rsqrt(float x) { return 1 / sqrt(x); }
MT_HD double rsqrt(double x) { return 1 / sqrt(x); }
MT_HD float half_expm1(float x) { return 0.5f * expm1(x); }
MT_HD double half_expm1(double x) { return 0.5 * expm1(x); }

namespace core {
template <class T> MT_HD T exp_minus(T x) { return math::exp(-math::fabs(x)); }
template <class T> MT_HD T log1p_unit(T x) { return math::log1p(x); }
}  // namespace core

#else  // the CPU

namespace core {

/// 2^k (1 + q) for any k, as two products of which only the last one rounds, even to a denormal.
/// n is k + Real::round in double, and 254 more in float.
template <class T> MT_HD T scaled(Exp<T> e, T x) {
  using R = Real<T>;
  if constexpr (is_single<T>) {
    T unit = select(x < T(-86), T(0x1p-63f), T(2));
    T up = from_bits<T>((to_bits(e.n) << R::mantissa) - to_bits(unit));
    return fma(up, e.q, up) * unit;
  } else {
    bits_of<T> k = to_bits(e.n) - bits_of<T>(to_bits(R::round) - 2 * R::bias), half = k >> 1;
    const T up = from_bits<T>(half << R::mantissa), down = from_bits<T>((k - half) << R::mantissa);
    return (T(1) + e.q) * up * down;
  }
}

/// y times the 2^k of `scaled`, rounded once, for k <= 0; if x < -86, |y| must not be small.
template <class T> MT_HD T scaled_by(T y, T n, T x) {
  using R = Real<T>;
  T unit = select(x < T(-86), T(0x1p-63f), T(1));
  return y * from_bits<T>((to_bits(n) << R::mantissa) - to_bits(unit)) * unit;
}

/// 1 / sqrt(x). In float, a Newton step refines an estimate, which is exact if the step gives NaN.
template <class T> MT_HD T rsqrt(T x) {
  if constexpr (is_single<T>) {
    T y = about_rsqrt(x), error = fused(-(x * y), y, T(1));
    return select(error == error, fma(T(0.5) * y, error, y), y);
  } else {
    return T(1) / sqrt(x);
  }
}

/// In float a large x makes n the largest and q infinite or nearly so, and a small x is handled at
/// the end; the minimum and maximum instructions are shorter.
template <class T> MT_HD T exp(T x) {
  using R = Real<T>;
  if constexpr (is_single<T> && is_symbolic<T>) {
    const T round(R::round + 254), bounded = at_least(at_most(x, T(89)), T(-R::exp_max));
    T n = fma(bounded, T(R::log2e), round);
    return scaled(Exp<T>{n, exp_rest(bounded, n - round)}, bounded);
  } else if constexpr (is_single<T>) {
    const T round(R::round + 254), most(R::round + 254 + 128);
    T n = lesser(fma(x, T(R::log2e), round), most);
    return select(x < T(-R::exp_max), T(0), scaled(Exp<T>{n, exp_rest(x, n - round)}, x));
  } else {
    return scaled(exp_parts(limit(x, T(R::exp_max)), 0), x);
  }
}

/// e^-|x|.
template <class T> MT_HD T exp_minus(T x) {
  T a = at_most(fabs(x), T(Real<T>::exp_max));
  if constexpr (is_single<T>) {
    Exp<T> e = exp_parts(-a, Real<T>::bias + 64);
    T s = power_of_two(e.n);
    return fma(s, e.q, s) * T(0x1p-64f);
  } else {
    return scaled(exp_parts(-a, 0), x);
  }
}

template <class T> MT_HD T exp2(T x) {
  using R = Real<T>;
  if constexpr (is_single<T> && is_symbolic<T>) {
    const T round(R::round + 254), bounded = at_least(at_most(x, T(128.25f)), T(-R::exp2_max));
    T n = bounded + round, r = (bounded - (n - round)) * T(R::ln2_hi + R::ln2_lo);
    return scaled(Exp<T>{n, fma(r * r, exp_poly(r), r)}, bounded);
  } else if constexpr (is_single<T>) {
    const T round(R::round + 254), most(R::round + 254 + 128);
    T n = lesser(x + round, most), r = (x - (n - round)) * T(R::ln2_hi + R::ln2_lo);
    return select(x < T(-R::exp2_max), T(0), scaled(Exp<T>{n, fma(r * r, exp_poly(r), r)}, x));
  } else {
    T y = limit(x, T(R::exp2_max)), n = y + T(R::round);
    T r = (y - (n - T(R::round))) * T(R::ln2_hi + R::ln2_lo);
    return scaled(Exp<T>{n, r + r * r * exp_poly(r)}, x);
  }
}

/// 2^k q + (2^k - 1), from half of 2^k, because 2^k itself may overflow; x if x is tiny.
template <class T> MT_HD T expm1(T x) {
  using R = Real<T>;
  Exp<T> e = exp_parts(limit(x, T(R::expm1_max)), R::bias - 1);
  const T least(R::round + R::bias - (R::mantissa + 11));  // a smaller 2^k is lost next to -1
  T s = power_of_two(select(e.n < least, least, e.n)), y = fma(s, e.q, s - T(0.5));
  return select(fabs(x) < T(0.25f / R::two_mantissa), x, y + y);
}

/// (e^x - 1) / 2, mainly for x < 0: in float the error of ln(2) is small if 2^k is small, and is
/// up to 4 ulp for a large x, where n is the largest and the polynomial infinite, as in `exp`.
template <class T> MT_HD T half_expm1(T x) {
  using R = Real<T>;
  if constexpr (is_single<T>) {
    const T round(R::round + R::bias - 1), most(R::round + R::bias - 1 + 128);
    T bounded = at_least(x, T(-20)), n = lesser(fma(bounded, T(R::log2e), round), most);
    T r = fma(n - round, T(-R::ln2_hi - R::ln2_lo), bounded);
    T s = power_of_two(n);
    return fma(s, fma(r * r, exp_poly(r), r), -(T(0.5) - s));  // -0 if s is 0.5
  } else {
    return T(0.5) * expm1(x);
  }
}

// ---- the logarithm ------------------------------------------------------------------------------

/// x = 2^k m with sqrt(1/2) <= m < sqrt(2), in float 3/4 <= m < 3/2; `inverse` is 2^-k.
template <class T> struct Split { T k, m, inverse; };

/// Requires a positive normal x; the result for other x is unspecified.
template <class T> MT_HD Split<T> split(T x) {
  using R = Real<T>;
  using B = bits_of<T>;
  const auto one = R::bias << R::mantissa, fraction = to_bits(R::smallest) - 1;
  B b = to_bits(x) - B(to_bits(R::min_fraction) - one), k = b >> R::mantissa;
  return {from_bits<T>(k | B(to_bits(R::two_mantissa))) - T(R::two_mantissa + R::bias),
          from_bits<T>((b & B(fraction)) + B(to_bits(R::min_fraction))),
          from_bits<T>((B(2 * R::bias) - k) << R::mantissa)};
}

/// Does the same for normal and denormal x.
template <class T> MT_HD Split<T> split_any(T x) {
  using R = Real<T>;
  const auto tiny = x < T(R::smallest);
  Split<T> p = split(select(tiny, x * T(R::two_mantissa), x));
  return {p.k - select(tiny, T(R::mantissa), T(0)), p.m, p.inverse};
}

/// log(1 + f) = f - (half - t) with half = f^2 / 2, for m = 1 + f. In double the arrangement is
/// that of FreeBSD's e_log.c: s = f / (2 + f) and log(1 + f) = f - s (f - R), where the polynomial
/// is (log((1+s)/(1-s)) - 2s) / s^3 in z = s^2. In float it is (log(1+f) - f + f^2/2) / f^3. The
/// errors relative to the logarithm are 2^-27.6 and 2^-59.4.
template <class T> struct Log { T half, t; };
template <class T> MT_HD T log_poly(T f, T z) {
  return poly_pairs(f, z, 0.333334506f, -0.250001103f, 0.19990848f, -0.166468784f, 0.1447763f,
                    -0.131639376f, 0.104725577f, -0.0451523438f);
}
template <class T> MT_HD T log_ratio_poly(T z) {
  return poly(z, 0.66666666666667396, 0.3999999999937659, 0.2857142875163694, 0.22222197550716216,
              0.18183621004813999, 0.15312515605986882, 0.14812108205743862);
}
template <class T> MT_HD Log<T> log_parts(T f) {
  if constexpr (is_single<T>) {
    T z = f * f;
    return {T(0.5) * z, f * z * log_poly(f, z)};
  } else {
    T s = f / (T(2) + f), z = s * s, half = T(0.5) * f * f;
    return {half, s * fma(z, log_ratio_poly(z), half)};
  }
}

/// k ln(2) + log(1 + f).
template <class T> MT_HD T log_sum(T k, T f) {
  using R = Real<T>;
  if constexpr (is_single<T>) {
    T z = f * f, p = fma(f, log_poly(f, z), T(-0.5));
    return fma(k, T(R::ln2_hi + R::ln2_lo), fma(z, p, f));
  } else {
    Log<T> l = log_parts(f);
    return fma(k, T(R::ln2_hi), f - (l.half - fma(k, T(R::ln2_lo), l.t)));
  }
}

/// y, or the logarithm of an x that is not a positive number.
template <class T> MT_HD T log_special(T x, T y) {
  const T inf = T(__builtin_inf()), nan = T(__builtin_nan(""));
  T above = select(x < inf, y, x), below = select(x == T(0), -inf, nan);
  return select(x > T(0), above, below);
}

/// log_special for the result of split_any(x) and log_sum.
template <class T> MT_HD T split_special(T x, T y) { return log_special(x, y); }

template <class T> MT_HD T log(T x) {
  Split<T> p = split_any(x);
  return split_special(x, log_sum(p.k, p.m - T(1)));
}

/// k * unit + log(m) * scale in double. log(m) is split in two, so that the product of the upper
/// half with scale_hi is exact, and a power of the base has an exact logarithm.
template <class T> MT_HD T log_base(T x, T scale, T scale_hi, T scale_lo, T unit_hi, T unit_lo) {
  Split<T> p = split_any(x);
  T f = p.m - T(1);
  Log<T> l = log_parts(f);
  T upper = from_bits<T>(to_bits(f - l.half) & bits_of<T>(Real<T>::upper_half));
  T rest = ((f - upper) - l.half) + l.t;
  T low = fma(p.k, unit_lo, fma(upper, scale_lo, rest * scale));
  T a = p.k * unit_hi, b = upper * scale_hi, sum = a + b;  // |a| > |b|, or a is 0
  return log_special(x, sum + (((a - sum) + b) + low));
}
/// In float log2(1 + f) = 1.5 f + f s(f), so that most of it is added exactly if k is 0 or -1; the
/// error is 2^-27.7. log10 is similar, with 2^-27.8, and exact at every float power of ten.
template <class T> MT_HD T log2(T x) {
  using R = Real<T>;
  if constexpr (is_single<T>) {
    Split<T> p = split_any(x);
    T f = p.m - T(1);
    T s = poly_pairs(f, f * f, -0.0573049635f, -0.721347511f, 0.480900437f, -0.36067602f,
                     0.288396597f, -0.240141809f, 0.208949327f, -0.190149575f, 0.151118144f,
                     -0.0649432987f);
    return split_special(x, fma(f, s, fma(f, T(1.5f), p.k)));
  } else {
    return log_base(x, T(R::log2e), T(R::log2e_hi), T(R::log2e_lo), T(1), T(0));
  }
}
template <class T> MT_HD T log10(T x) {
  using R = Real<T>;
  if constexpr (is_single<T>) {
    Split<T> p = split_any(x);
    T f = p.m - T(1);
    T s = poly_pairs(f, f * f, -0.00320551987f, -0.217147246f, 0.144765556f, -0.108573951f,
                     0.0868122354f, -0.0722917393f, 0.0629462227f, -0.0572815016f, 0.0453551039f,
                     -0.0193662643f);
    T t = f * s, m = fma(f, T(0.4375f), t), lost = fma(f, T(0.4375f), -m) + t;
    return split_special(x, fused(p.k, T(R::log10_2_hi), m) + fma(p.k, T(R::log10_2_lo), lost));
  } else {
    return log_base(x, T(R::log10e), T(R::log10e_hi), T(R::log10e_lo), T(R::log10_2_hi),
                    T(R::log10_2_lo));
  }
}

/// log(u + c), where u is 1 + x rounded and c its rounding error (Knuth's two-sum). For a large u
/// the error does not matter, and 2^-k need not exist. A tiny x is its own result.
template <class T> MT_HD T log1p(T x) {
  using R = Real<T>;
  T u = T(1) + x, v = u - T(1), c = (T(1) - (u - v)) + (x - v);
  Split<T> p = split(u);
  T f = (p.m - T(1)) + select(u < T(4 * R::two_mantissa), c * p.inverse, T(0));
  return select(fabs(x) < T(0.25f / R::two_mantissa), x, log_special(u, log_sum(p.k, f)));
}

/// log(1 + x) for 0 <= x <= 1.
template <class T> MT_HD T log1p_unit(T x) {
  const auto big = x > T(2 * Real<T>::min_fraction - 1);
  return log_sum(select(big, T(1), T(0)), select(big, T(0.5) * x - T(0.5), x));
}

// ---- tanh ---------------------------------------------------------------------------------------

/// (e^2a + unit 2) / 2 in float, for a unit of 1/2 or -1/2: 2^k (1 + ..) next to 1; k is 0 up to a
/// = 0.2566, because e^2a - 1 is rounded coarsely above 1/2; ln(2)/2 may have few bits, because
/// tanh depends little on it if k is large.
template <class T> MT_HD T half_exp_twice(T a, T unit) {
  using R = Real<T>;
  const T round(R::round + R::bias);
  T n = fma(a - T(0.0833f), T(2 * R::log2e), round);
  T r = fma(n - round, T(-0.346573591f), a), z = r * r;
  T p = poly_pairs(r, z, 1.0f, 0.66666669f, 0.3333355f, 0.13332318f, 0.04421531f, 0.014475087f);
  T s = power_of_two(n);
  return fma(s, fma(z, p, r), fma(s, T(0.5), unit));
}
/// In float it is q = e / (1 + e) with 2e = e^2a - 1, corrected by the difference of q (1 + e) and
/// e. In double it is the polynomial near zero, and 1 - 2 / (e^2a + 1) elsewhere.
template <class T> MT_HD T tanh(T x) {
  using R = Real<T>;
  T a = at_most(fabs(x), T(R::tanh_max));
  if constexpr (is_single<T>) {
    T e = half_exp_twice(a, T(-0.5));
    T inverse = about_inverse(T(1) + e), q = e * inverse;
    return copysign(fma(fma(-e, q, e - q), inverse, q), x);
  } else {
    T z = a * a;
    Exp<T> e = exp_parts(a + a, R::bias);
    T s = power_of_two(e.n), far = T(1) - T(2) / (fma(s, e.q, s) + T(1));
    return copysign(select(a < T(0.5625), fma(a * z, tanh_poly(z), a), far), x);
  }
}

/// x - tanh(x) in float: a polynomial within 2^-25 up to 1, and (a - 1) + 2 / (e^2a + 1) above it.
template <class T> MT_HD T tanhshrink(T x) {
  T a = fabs(x), z = a * a;
  T near = a * z *
           poly_pairs(z, z * z, 0.333333343f, -0.13333413f, 0.0539785624f, -0.0219153669f,
                      0.00893243309f, -0.00353894755f, 0.00115820486f, -0.000208262194f);
  T sum = half_exp_twice(at_most(a, T(Real<T>::tanh_max)), T(0.5)), inverse = about_inverse(sum);
  T far = (a - T(1)) + fma(fma(-sum, inverse, T(1)), inverse, inverse);
  return copysign(select(a < T(1), near, far), x + T(0));  // 0 for -0
}

// ---- sine and cosine ----------------------------------------------------------------------------

/// a = r + rest + n pi/2 with |r| <= pi/4; the low bits of `quadrant` are those of n.
template <class T> struct Angle {
  T r, rest;
  bits_of<T> quadrant;
};
/// A reduced angle in double, without `rest`.
struct Quadrant {
  double r;
  uint64_t quadrant;
};

/// Requires |x| <= near.
template <class T> MT_HD Angle<T> near_angle(T x) {
  using R = Real<T>;
  const T round(R::round);
  T shifted = fma(x, T(R::two_over_pi), round), n = shifted - round;
  T r1 = fused(n, T(-R::quarter1), x), p = n * T(-R::quarter2), r = r1 + p;
  T rest = fma(n, T(-R::quarter3), fused(n, T(-R::quarter2), -p) + ((r1 - r) + p));
  return {r, rest, to_bits(shifted)};
}
/// An exact reduction for every float. a * 2/pi is taken modulo 4, with only the 111 bits of 2/pi
/// that matter for the size of a: the product with the bits above is a multiple of 4, and with
/// those below it is too small. The first two of the three pieces have 29 bits, so that their
/// products with a float are exact in double.
MT_HD Quadrant any_quadrant(float a) {
  const double four = 0x1.8p54, one = 0x1.8p52;  // adding and subtracting it rounds to a multiple
  double x = a;
  bool w1 = x >= 0x1p53, w2 = x >= 0x1p81, w3 = x >= 0x1p109;
  double p1 = w1 ? 0x1.c9c882ap-29 : 0x1.45f306dp-1;
  double p2 = w1 ? 0x1.4fe13aap-59 : 0x1.9391054p-30;
  double p3 = w1 ? 0x1.e8fa9a6ee06dbp-87 : 0x1.4fe13abe8fa9ap-59;
  p1 = w2 ? 0x1.4fe13a8p-59 : p1, p1 = w3 ? 0x1.f47d4d2p-86 : p1;
  p2 = w2 ? 0x1.f47d4d3p-86 : p2, p2 = w3 ? 0x1.77036d8p-114 : p2;
  p3 = w2 ? 0x1.dc0db6295993cp-116 : p3, p3 = w3 ? 0x1.4acc9e21c821p-143 : p3;
  double t1 = x * p1, t2 = x * p2, t3 = x * p3;
  t1 = t1 - ((t1 + four) - four);
  t2 = t2 - ((t2 + four) - four);
  double n = (t1 + t2) + one, turn = ((t1 - (n - one)) + t2) + t3;
  double more = (turn + one) - one;  // t3 may bring it above 1/2
  return {(turn - more) * 0x1.921fb54442d18p+0, to_bits(n + more)};
}
MT_HD Angle<float> any_angle(float a) {
  Quadrant q = any_quadrant(a);
  float r = float(q.r);
  return {r, float(q.r - r), uint32_t(q.quadrant)};
}

/// sin(angle + shift pi/2). The polynomials on |r| <= pi/4 have errors of 2^-27.9 and 2^-33.1, in
/// double 2^-57.9 and 2^-63.9. The sine of -0 is -0.
template <class T> MT_HD T sin_of(Angle<T> a, bits_of<T> shift) {
  using B = bits_of<T>;
  T r = a.r, z = r * r, s, c;
  if constexpr (is_single<T>) {
    s = poly(z, -0.166666552f, 0.00833218731f, -0.000195178975f);
    c = poly(z, 1.0f, -0.5f, 0.0416666456f, -0.00138873013f, 2.44306611e-05f);
  } else {
    s = poly(z, -0.1666666666666663, 0.00833333333332184, -0.00019841269829358528,
             2.7557313538514475e-06, -2.5050734389348566e-08, 1.5895433298102108e-10);
    T p = poly(z, 0.041666666666666595, -0.0013888888888873342, 2.4801587289002083e-05,
               -2.75573142170409e-07, 2.0875705396436402e-09, -1.1358749267175696e-11);
    T half = T(0.5) * z, near = T(1) - half;
    c = near + (((T(1) - near) - half) + fma(z * z, p, -r * a.rest));
  }
  s = copysign(r + fma(r * z, s, a.rest), r);
  B quadrant = a.quadrant + shift;
  return from_bits<T>(to_bits(select((quadrant & B(1)) != B(0), c, s)) ^
                      ((quadrant << (is_single<T> ? 30 : 62)) & to_bits(T(-0.0f))));
}
template <class T> MT_HD T with_sign_of(T x, T y) {  // y, or -y if x is negative
  return from_bits<T>(to_bits(y) ^ (to_bits(x) & bits_of<T>(0x80000000u)));
}

/// These two require |x| <= near.
template <class T> MT_HD T near_sin(T x) { return sin_of(near_angle(x), bits_of<T>(0)); }
template <class T> MT_HD T near_cos(T x) { return sin_of(near_angle(x), bits_of<T>(1)); }

/// They accept every x, and equal the two above in their range. Larger doubles use the C library.
MT_HD float sin(float x) {
  float far = with_sign_of(x, sin_of(any_angle(fabs(x)), 0));
  return fabs(x) <= Real<float>::near ? near_sin(x) : far;
}
MT_HD float cos(float x) {
  float far = sin_of(any_angle(fabs(x)), 1);
  return fabs(x) <= Real<float>::near ? near_cos(x) : far;
}
MT_HD double sin(double x) {
  return fabs(x) <= Real<double>::near ? near_sin(x) : __builtin_sin(x);
}
MT_HD double cos(double x) {
  return fabs(x) <= Real<double>::near ? near_cos(x) : __builtin_cos(x);
}

}  // namespace core

MT_FROM_CORE(rsqrt)
MT_FROM_CORE(exp)
MT_FROM_CORE(exp2)
MT_FROM_CORE(expm1)
MT_FROM_CORE(half_expm1)
MT_FROM_CORE(log)
MT_FROM_CORE(log2)
MT_FROM_CORE(log10)
MT_FROM_CORE(log1p)
MT_FROM_CORE(tanh)
MT_OWN_OF_SYMBOLS(sin)
MT_OWN_OF_SYMBOLS(cos)

MT_HD float sin(float x) { return core::sin(x); }
MT_HD float cos(float x) { return core::cos(x); }
MT_HD double sin(double x) { return core::sin(x); }
MT_HD double cos(double x) { return core::cos(x); }

#endif  // __CUDA_ARCH__

}  // namespace math
}  // namespace MT_ISA
}  // namespace mt

#undef MT_OWN_OF_SYMBOLS
#undef MT_FROM_LIBM2
#undef MT_FROM_LIBM
#undef MT_LIBM
