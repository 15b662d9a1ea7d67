// math_wide.h -- functions of floats that are computed in double, and those with tails of their own
#pragma once
#include "kernels/math/math.h"

/// pow, tan, the inverse and the hyperbolic functions of a float. In double a formula may be short
/// and a polynomial low: errors of 2^-30 are a sixtieth of a float's ulp, and the last rounding is
/// nearly the only one. Rules and macros as in math.h; a double's go to the C library.
#ifdef __CUDA_ARCH__
#define MT_WIDE(name)                                \
  MT_HD float name(float x) { return ::name##f(x); } \
  MT_HD double name(double x) { return ::name(x); }
#define MT_WIDE2(name)                                           \
  MT_HD float name(float x, float y) { return ::name##f(x, y); } \
  MT_HD double name(double x, double y) { return ::name(x, y); }
#else
#define MT_WIDE(name)                                 \
  MT_HD float name(float x) { return core::name(x); } \
  MT_HD double name(double x) { return __builtin_##name(x); }
#define MT_WIDE2(name)                                            \
  MT_HD float name(float x, float y) { return core::name(x, y); } \
  MT_HD double name(double x, double y) { return __builtin_##name(x, y); }
#endif

namespace mt {
inline namespace MT_ISA {
namespace math {

#ifndef __CUDA_ARCH__
namespace core {

constexpr double kPi = 0x1.921fb54442d18p+1, kHalfPi = 0x1.921fb54442d18p+0;

// ---- powers and logarithms ----------------------------------------------------------------------

/// e^x within 2^-34, for |x| <= 700.
MT_HD double wide_exp(double x) {
  using R = Real<double>;
  const double round = R::round + R::bias;
  double n = fma(x, R::log2e, round), k = n - round;
  double r = fma(k, -0x1.62e42fefa39efp-1, x);
  double p = poly(r, 0.5000000067682077, 0.16666665868934588, 0.04166629494736049,
                  0.00833349707504467, 0.0013944659622210946, 0.00019790341406942358);
  return power_of_two(n) * (1 + fma(r * r, p, r));
}

/// log(x) within 2^-37, for a positive normal x.
MT_HD double wide_log(double x) {
  Split<double> m = split(x);
  double f = m.m - 1, s = f / (2 + f), z = s * s;
  double p =
      poly(z, 0.6666666564504077, 0.40000335293602685, 0.28537301524630027, 0.23582293040552554);
  return fma(m.k, 0x1.62e42fefa39efp-1, s * fma(z, p, 2.0));
}

/// e^(y log|x|), then what C99 Annex F asks of zeros, infinities and negative x.
MT_HD float pow(float x, float y) {
  const double infinity = __builtin_inf();
  double a = fabs(double(x)), b = at_most(fabs(double(y)), 0x1p130);
  double l = wide_log(a);
  l = a == 0 ? -infinity : l;
  l = a < infinity ? l : a;  // NaN too
  double r = wide_exp(limit(l * copysign(b, double(y)), 200.0));
  double even = at_most(b, 0x1p25), n = even + Real<double>::round;  // beyond, all y are even
  double turned = from_bits<double>(to_bits(r) ^ to_bits(n) << 63);  // -r where y is odd
  double power = a < infinity ? double(__builtin_nan("")) : r;
  power = a == 0 ? r : power;
  power = n - Real<double>::round == even ? turned : power;
  r = copysign(1.0f, x) < 0 ? power : r;
  r = y != y ? double(y) : r;
  r = y == 0 ? 1 : r;
  return x == 1 ? 1.0f : float(r);
}

// ---- the inverse trigonometric functions --------------------------------------------------------

/// atan(t) within 2^-31, for 0 <= t <= 1.
MT_HD double wide_atan(double t) {
  double z = t * t;
  double p =
      poly(z, -0.33333326899587035, 0.1999967112450448, -0.14279833073977652, 0.11058223833296851,
           -0.0881109195177307, 0.06741598463677237, -0.044689960361354315, 0.02253988273924583,
           -0.00731796381826738, 0.0011137901913601791);
  return fma(t * z, p, t);
}
MT_HD float atan(float x) {
  double a = fabs(double(x));
  bool far = a > 1;
  double p = wide_atan((far ? 1 : a) / (far ? a : 1));
  return float(copysign(far ? kHalfPi - p : p, double(x)));
}
MT_HD float atan2(float y, float x) {
  double a = fabs(double(x)), b = fabs(double(y));
  bool steep = b > a;
  double low = steep ? a : b, high = steep ? b : a, t = low / high;
  t = low == high ? 1 : t;  // infinities
  t = high == 0 ? 0 : t;
  double p = wide_atan(t);
  p = steep ? kHalfPi - p : p;
  p = to_bits(double(x)) >> 63 ? kPi - p : p;
  p = copysign(p, double(y));
  return x != x ? x : y != y ? y : float(p);
}

/// asin(s) within 2^-31, for z = s^2 <= 1/4.
MT_HD double wide_asin(double s, double z) {
  double p = poly(z, 0.16666659871896303, 0.07500510918256052, 0.04451572006891934,
                  0.0318176137042711, 0.014402596597263949, 0.03756521567165623);
  return fma(s * z, p, s);
}
/// Beyond 1/2 by asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)).
MT_HD float asin(float x) {
  double a = fabs(double(x));
  bool far = a > 0.5;
  double z = far ? fma(a, -0.5, 0.5) : a * a, p = wide_asin(far ? sqrt(z) : a, z);
  return float(copysign(far ? kHalfPi - (p + p) : p, double(x)));
}
MT_HD float acos(float x) {
  double a = fabs(double(x));
  bool far = a > 0.5;
  double z = far ? fma(a, -0.5, 0.5) : a * a, p = wide_asin(far ? sqrt(z) : a, z);
  p = copysign(far ? p + p : p, double(x));
  return float(far ? (x < 0 ? kPi + p : p) : kHalfPi - p);
}

// ---- tangent ------------------------------------------------------------------------------------

MT_HD float tan_of(Quadrant q, float x) {
  double r = q.r, z = r * r;
  double s = poly(z, -0.1666666664142652, 0.008333329362280442, -0.00019839327136594685,
                  2.7182372771602685e-06);
  double c = poly(z, 0.04166664674777096, -0.0013887361449972868, 2.443773007485716e-05);
  s = fma(r * z, s, r), c = fma(z * z, c, fma(z, -0.5, 1.0));
  bool odd = q.quadrant & 1;
  double y = (odd ? c : s) / (odd ? -s : c);
  return float(from_bits<double>(to_bits(y) ^ (to_bits(double(x)) & 1ull << 63)));
}
MT_HD float near_tan(float x) { return tan_of(near_quadrant(fabs(x)), x); }
MT_HD float tan(float x) {
  float a = fabs(x);
  Quadrant near = near_quadrant(a), far = any_quadrant(a);
  bool is_near = a <= kNear;
  return tan_of({is_near ? near.r : far.r, is_near ? near.quadrant : far.quadrant}, x);
}

// ---- the hyperbolic functions and their inverses ------------------------------------------------

/// e^x = 2^k (c + s), e^-x = 2^-k (c - s) with the even and the odd part of e^r: no division, and
/// near zero, where k is 0, the sine is the odd part.
struct Hyperbolic {
  double c, s, sum, difference;
};  // 2^(k-1) + and - 2^(-k-1)
MT_HD Hyperbolic hyperbolic(double a) {
  using R = Real<double>;
  const double round = R::round + R::bias;
  double x = at_most(a, 100.0), n = fma(x, R::log2e, round), k = n - round;
  double r = fma(k, -0x1.62e42fefa39efp-1, x), z = r * r;
  double s = poly(z, 0.16666666754549914, 0.008333288954676485, 0.00019904960651298507);
  double c = poly(z, 0.5000000079136975, 0.041666267074609284, 0.0013946230113492692);
  double up = power_of_two(n) * 0.5, down = power_of_two(round - k) * 0.5;
  return {fma(z, c, 1.0), fma(r * z, s, r), up + down, up - down};
}
MT_HD float sinh(float x) {
  Hyperbolic h = hyperbolic(fabs(double(x)));
  return float(copysign(fma(h.difference, h.c, h.sum * h.s), double(x)));
}
MT_HD float cosh(float x) {
  Hyperbolic h = hyperbolic(fabs(double(x)));
  return float(fma(h.sum, h.c, h.difference * h.s));
}

/// Below 2^-12 the first two terms of the series; beyond, a logarithm near 1 has bits to spare.
MT_HD float asinh(float x) {
  const double infinity = __builtin_inf();
  double a = fabs(double(x)), z = a * a;
  double y = a < 0x1p-12 ? fma(a * z, -1 / 6.0, a) : wide_log(a + sqrt(z + 1));
  return float(copysign(a < infinity ? y : a, double(x)));
}
MT_HD float acosh(float x) {
  const double infinity = __builtin_inf(), nan = __builtin_nan("");
  double d = double(x) - 1, y = wide_log(1 + (d + sqrt(d * (d + 2))));
  y = d < infinity ? y : d;
  return d >= 0 ? float(y) : float(nan);
}
MT_HD float atanh(float x) {
  const double infinity = __builtin_inf(), nan = __builtin_nan("");
  double a = fabs(double(x)), z = a * a;
  double y = a < 0x1p-12 ? fma(a * z, 1 / 3.0, a) : 0.5 * wide_log((1 + a) / (1 - a));
  y = a < 1 ? y : a == 1 ? infinity : nan;
  return float(copysign(y, double(x)));
}

// ---- the error function's far side --------------------------------------------------------------

/// erfc(a) = e^(-a^2) p(t) / (1 + 2a) with t = (a - 3) / (a + 3), for 0 <= a <= 10.5 within 2^-29.
MT_HD double wide_erfc(double a) {
  double u = a + 3, v = fma(a, 2.0, 1.0), inverse = 1 / (u * v), t = (a - 3) * (v * inverse);
  double p =
      poly(t, 1.2530080591222463, -0.13562113929697764, -0.047562399455516262, 0.12964641447390604,
           -0.11927097515987017, 0.068295767775355926, -0.023797530598328166, 0.0025673764872669886,
           0.0020018120895851808, -0.00077758276864272453, -0.00026812748025931843);
  return wide_exp(-a * a) * p * (u * inverse);
}
MT_HD float erfc(float x) {
  double a = at_most(fabs(double(x)), 10.1), y = wide_erfc(a);
  return float(x < 0 ? 2 - y : y);
}

}  // namespace core
#endif  // __CUDA_ARCH__

MT_WIDE2(pow)
MT_WIDE2(atan2)
MT_WIDE(tan)
MT_WIDE(asin)
MT_WIDE(acos)
MT_WIDE(atan)
MT_WIDE(sinh)
MT_WIDE(cosh)
MT_WIDE(asinh)
MT_WIDE(acosh)
MT_WIDE(atanh)
MT_WIDE(erfc)

// ---- the normal distribution, in float ----------------------------------------------------------

namespace core {
/// a (1 - ndtr(a)) 2^64 for 0 <= a <= 14.5, in float by e^(-a^2/2) g(t) with t = (a - 1) / (a + 3);
/// g within 2^-27.0. The exponent keeps what rounding a^2 lost.
template <class T> MT_HD T normal_tail(T a) {
  using R = Real<T>;
  static_assert(is_single<T>);
  T half = T(-0.5) * a, z = a * half, less = -fused(a, half, -z);
  T t = (a - T(1)) / (a + T(3));
  T g = poly(t, 0.261578292f, 0.496857196f, -0.707251012f, 0.458017409f, -0.0600881018f,
             -0.0760192350f, 0.00320461136f, 0.0365757458f, -0.0139527554f);
  const T round(R::round + R::bias + 64);
  T n = fma(z, T(R::log2e), round), q = exact_exp_rest(z, n - round, less);
  return fma(g, q, g) * power_of_two(n);
}
/// |x|, at most 14.5, which NaN becomes too: nothing is left below -14.5.
template <class T> MT_HD T normal_size(T x) { return lesser(fabs(x), T(14.5f)); }
/// (ndtr(x) - 1/2) / x in w = x^2, up to 3/4.
template <class T> MT_HD T normal_middle(T w) {
  return poly(w, 0.398942262f, -0.0664898977f, 0.00996985286f, -0.00117542245f, 9.83313003e-05f);
}
template <class T> MT_HD T gelu(T x) {
  T w = x * x, far = fma(normal_tail(normal_size(x)), T(-0x1p-64f), select(x < T(0), T(0), x));
  return copysign(select(fabs(x) < T(0.75f), fma(w, normal_middle(w), T(0.5f) * x), far), x);
}
template <class T> MT_HD T ndtr(T x) {
  T a = normal_size(x), tail = normal_tail(a) / a * T(0x1p-64f);
  T far = select(x < T(0), tail, T(1) - tail);
  return select(fabs(x) >= T(0.75f), far, fma(x, normal_middle(x * x), T(0.5f)));
}
}  // namespace core

/// Twice the normal distribution function. `lost` is what rounding x / sqrt(2) lost, which a tail of
/// e^(-x^2/2) multiplies by x^2; for the slope of log(erfc) a bound by Komatu is near enough.
MT_HD double twice_ndtr(double x) {
  const double c = -0x1.6a09e667f3bcdp-1;
  double z = x * c, lost = core::fused(x, c, -z) + x * 0x1.bdd3413b26456p-55, y = erfc(z);
  double right = fma(-y * lost, z + sqrt(fma(z, z, 1.6)), y);
  return x < -1 ? right : y;
}
/// x times the normal distribution function of x.
MT_HD double gelu(double x) { return x < -40 ? -0.0 : 0.5 * x * twice_ndtr(x); }
/// The normal distribution function.
MT_HD double ndtr(double x) { return x < -40 ? 0.0 : 0.5 * twice_ndtr(x); }
MT_HD float gelu(float x) { return core::gelu(x); }
MT_HD float ndtr(float x) { return core::ndtr(x); }
template <class T> MT_HD Symbolic<T> gelu(T x) { return core::gelu(x); }
template <class T> MT_HD Symbolic<T> ndtr(T x) { return core::ndtr(x); }
MT_HD double tanhshrink(double x) {
  const double z = x * x;
  return z < 0.25 ? 0.0 - x * z * core::tanh_poly(z) : x - tanh(x);
}
MT_HD float tanhshrink(float x) { return float(tanhshrink(double(x))); }

}  // namespace math
}  // namespace MT_ISA
}  // namespace mt

#undef MT_WIDE2
#undef MT_WIDE
