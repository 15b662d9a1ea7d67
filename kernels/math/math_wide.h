// math_wide.h -- sigmoid and similar functions; functions computed in double, and those with separate tails
#pragma once
#include "kernels/math/math.h"

/// pow, atan2 and the hyperbolic functions of a float are computed in double, so that formulas are short and
/// polynomials have a low degree: errors of 2^-30 are a sixtieth of a float's ulp, and the last rounding is
/// nearly the only one. MT_EITHER declares a function whose float and double forms are in `core`; MT_WIDE2 one of
/// two arguments whose float form is in `core`, while doubles use the C library. Rules and other macros as in math.h.
#ifdef __CUDA_ARCH__
#define MT_EITHER(name)                              \
  MT_HD float name(float x) { return ::name##f(x); } \
  MT_HD double name(double x) { return ::name(x); }
#define MT_WIDE2(name)                                           \
  MT_HD float name(float x, float y) { return ::name##f(x, y); } \
  MT_HD double name(double x, double y) { return ::name(x, y); }
#else
#define MT_EITHER(name)                               \
  MT_HD float name(float x) { return core::name(x); } \
  MT_HD double name(double x) { return core::name(x); }
#define MT_WIDE2(name)                                            \
  MT_HD float name(float x, float y) { return core::name(x, y); } \
  MT_HD double name(double x, double y) { return __builtin_##name(x, y); }
#endif

namespace mt {
inline namespace MT_ISA {
namespace math {

// ---- 1 / (1 + e^-x) and similar functions -------------------------------------------------------------------

namespace core {

#ifdef __CUDA_ARCH__
/// Computed from e^-|x|, so that the tail keeps its precision.
template <class T> MT_HD T sigmoid(T x) {
  T e = exp_minus(x);
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}
template <class T> MT_HD T silu(T x) {
  T y = x < T(-120) ? T(-120) : x, e = math::exp(T(0.5) * y);
  return x < T(0) ? y * e / (T(1) + e * e) * e : x * sigmoid(x);
}
#else
/// Returns `yes` if the sign bit of x is set, else `no`. (g++ compiles several `?:` with one
/// condition to two branches, and divides in both.)
template <class T> MT_HD T if_minus(T x, T yes, T no) {
  constexpr int sign = is_single<T> ? 31 : 63;
  const bits_of<T> mask = bits_of<T>(0) - (to_bits(x) >> sign), other = to_bits(no);
  return from_bits<T>(other ^ ((to_bits(yes) ^ other) & mask));
}

/// -|x| of a float.
template <class T> MT_HD T minus_abs(T x) {
  return from_bits<T>(to_bits(x) | bits_of<T>(0x80000000u));
}

/// y / (1 + e^-x). In float e^-|x| = 2^k (1 + q) is the term next to 1, and also the numerator if x is
/// negative; 2^k is applied last, so that y e^x can become denormal only in the last product. In double
/// e^-x = 2^k (1 + q); if x is negative the sum is scaled by `unit`, a small power of two, so that it does
/// not overflow, and the quotient can become denormal in the last product. Above `most` the sum is 1.
template <class T> MT_HD T logistic(T x, T y) {
  using R = Real<T>;
  if constexpr (is_single<T>) {
    const T round(R::round + 254);
    T clipped = at_least(minus_abs(x), T(R::logistic_least)), n = fma(clipped, T(R::log2e), round);
    T q = exp_rest(clipped, n - round), e = scaled(Exp<T>{n, q}, clipped),
      inverse = about_inverse(T(1) + e);
    T top = if_minus(x, fma(y, q, y), y), r = top * inverse;
    r = fma(fused(-r, e, top - r), inverse,
            r);  // top / (1 + e), not affected by the rounding of 1 + e
    return if_minus(x, scaled_by(r, n, clipped), r);
  } else {
    const T least(R::logistic_least), most(R::logistic_most);
    T clipped = select(x < least, least, x);
    clipped = select(clipped > most, most, clipped);
    Exp<T> e = exp_parts(-clipped, 0);
    T unit = if_minus(x, T(R::logistic_unit), T(1));
    T power = from_bits<T>((to_bits(e.n) << R::mantissa) + to_bits(unit));
    T sum = power + unit, lost = unit - (sum - power);
    return y / (sum + fma(power, e.q, lost)) * unit;
  }
}
template <class T> MT_HD T sigmoid(T x) { return logistic(x, T(1)); }
template <class T> MT_HD T silu(T x) {
  T y = at_least(x, T(Real<T>::logistic_least));
  if constexpr (is_single<T>)
    return copysign(select(x > T(20), x, logistic(x, at_most(y, T(20)))), x);
  else return logistic(x, y);
}
#endif

/// log(1 + e^x).
template <class T> MT_HD T softplus(T x) {
  return select(x < T(0), T(0), x) + log1p_unit(exp_minus(x));
}

/// e^(z + less) (1 + p(t)) / (1 + 2a) with t = (a - c) / (a + c), which is erfc(a) if z + less is -a^2: in float
/// within 2^-27 from 0.59 on, in double within 2^-54 from 0.57 on, up to erfc_end, where it is 0, without an
/// underflowing product. The exponent corrects the rounding of 1 + 2a and of its inverse.
template <class T> MT_HD Tail<T> erfc_tail(T x, double scale, T z, T less) {
  using R = Real<T>;
  const T c(R::erfc_centre);
  T u = fma(x, T(0.5 * scale), c), v = fma(x, T(scale), T(1)), inverse = about_inverse(u * v);
  T y = u * inverse, part = v * inverse, error = fused(-y, v, T(1));  // 1 / v, 1 / u
  T t = fma(fma(part, error, part), T(-2 * R::erfc_centre), T(1));
  T lost = fma(x, T(-scale), v - T(1));
  Tail<T> e = exp_tail(z, less + fma(y, lost, error));
  T p;
  if constexpr (is_single<T>)
    p = poly(t, 0.27401942f, -0.102286398f, -0.148040876f, 0.166043222f, -0.069779031f,
             0.00116308371f, 0.00920195412f, -0.000763704826f, -0.00125134434f);
  else
    p = poly_pairs(t, t * t, 0.2423492448711544, -0.1400091801376211, -0.010555596332221917,
                   0.09751909515346052, -0.1150895981599907, 0.08798315381768859,
                   -0.04882332583212114, 0.019099331059248204, -0.0042150198644375836,
                   -0.00030226892114009927, 0.0005643841747653651, -0.000121506833571114,
                   -4.2781468557413466e-05, 2.4242266290138885e-05, 2.3270459142953195e-06,
                   -3.77526781122937e-06, -4.3450216223400504e-08, 5.50348394026125e-07,
                   -7.522201523032526e-09, -5.795778983160573e-08);
  y = select(x * T(0.5 * scale) >= T(R::erfc_end), T(0), y * T(0x1p-64f));
  return {fma(y, fma(p, e.q, p + e.q), y), e.power};
}

/// u / v = 2^k (1 + s) / (1 - s) with |s| <= 0.2728 and an integer k, for positive normal u and v without their last
/// parts `more` and `less`: log(u / v) = k ln(2) + 2 atanh(s), with one division. u >= v; k is 0 up to 5/3.
template <class T> struct LogQuotient { T k, s; };
template <class T> MT_HD LogQuotient<T> log_quotient(T u, T more, T v, T less) {
  using R = Real<T>;
  using B = bits_of<T>;
  const auto one = R::bias << R::mantissa, part = to_bits(R::smallest) >> 2;
  B n = (to_bits(u) - to_bits(v) + B(one + part)) >> R::mantissa;
  T power = from_bits<T>(n << R::mantissa), d = fma(power, v, u);
  T rest = fma(-power, v, u) + fma(-power, less, more), s;  // the product is exact
  if constexpr (is_single<T>) s = quotient(rest, d, about_inverse(d));
  else s = rest / d;
  return {from_bits<T>(n | B(to_bits(R::two_mantissa))) - T(R::two_mantissa + R::bias), s};
}
/// log(u / v) / 2. The error of the polynomial relative to s is 2^-30.7, in double 2^-60.2.
template <class T> MT_HD T half_log(LogQuotient<T> q) {
  using R = Real<T>;
  T z = q.s * q.s, p;
  if constexpr (is_single<T>) p = poly(z, 0.3333331f, 0.20002966f, 0.14167203f, 0.12943822f);
  else
    p = poly(z, 0.3333333333333346, 0.199999999999327, 0.1428571429810214, 0.11111109994607475,
             0.09090965895133261, 0.07690568477214746, 0.06699262905197295, 0.05518947309648219,
             0.07430186256813098);
  return fma(q.k, T(0.5 * R::ln2_hi), fma(q.s * z, p, q.k * T(0.5 * R::ln2_lo)) + q.s);
}
/// log(y / (1 - y)), as the larger one over the smaller one; 1 - y is exact if it is the smaller one.
template <class T> MT_HD T logit(T y) {
  using R = Real<T>;
  const T inf = T(__builtin_inf()), nan = T(__builtin_nan(""));
  const auto tiny = y < T(R::smallest), low = y < T(0.5);
  T v = T(1) - y, whole = select(tiny, y * T(R::two_mantissa), y), within = y * v;
  LogQuotient<T> q =
      log_quotient(select(low, v, whole), (T(1) - v) - y, select(low, whole, v), T(0));
  T half = half_log<T>({q.k + select(tiny, T(R::mantissa), T(0)), q.s});
  T size = select(within > T(0), half + half, select(within == T(0), inf, nan));
  return copysign(size, y - T(0.5));
}

}  // namespace core

MT_FROM_CORE(logit)
MT_FROM_CORE(sigmoid)
MT_FROM_CORE(silu)
MT_FROM_CORE(softplus)

#ifndef __CUDA_ARCH__
namespace core {

constexpr double kHalfPi = Real<double>::half_pi_hi, kPi = 2 * kHalfPi;

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

/// e^(y log|x|), then the special cases of C99 Annex F for zeros, infinities and negative x.
MT_HD float pow(float x, float y) {
  const double infinity = __builtin_inf();
  double a = fabs(double(x)), b = at_most(fabs(double(y)), 0x1p130);
  double l = wide_log(a);
  l = a == 0 ? -infinity : l;
  l = a < infinity ? l : a;  // also for NaN
  double r = wide_exp(limit(l * copysign(b, double(y)), 200.0));
  double even = at_most(b, 0x1p25), n = even + Real<double>::round;        // larger y are all even
  double signed_power = from_bits<double>(to_bits(r) ^ to_bits(n) << 63);  // -r if y is odd
  double power = a < infinity ? double(__builtin_nan("")) : r;
  power = a == 0 ? r : power;
  power = n - Real<double>::round == even ? signed_power : power;
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
/// Above 1 it is pi/2 + atan(-1/x). The polynomial's error is 2^-25.8, in double 2^-55.
template <class T> MT_HD T atan(T x) {
  using R = Real<T>;
  T a = at_most(fabs(x), T(0x1p100f)), inverse = about_inverse(a);
  inverse = fma(fma(-a, inverse, T(1)), inverse, inverse);
  const auto far = a > T(1);
  T t = select(far, -inverse, a), z = t * t, p;
  if constexpr (is_single<T>)
    p = poly(z, -0.333331525f, 0.199937671f, -0.14211002f, 0.106657706f, -0.0755167082f,
             0.0432049893f, -0.0163634606f, 0.00291952351f);
  else
    p = poly_pairs(
        z, z * z, -0.3333333333333186, 0.19999999999755183, -0.1428571427134136,
        0.11111110678891582, -0.09090901237335103, 0.07692212948443938, -0.06665860480897523,
        0.0587730834270875, -0.052392350937992, 0.046739554697270834, -0.040926508870228154,
        0.034068022562070414, -0.025827069585015166, 0.016978304465017163, -0.009184757393161786,
        0.003856080901510389, -0.0011641105415329885, 0.00022303107943765, -2.025944886414449e-05);
  T low = fma(t * z, p, select(far, T(R::half_pi_lo), T(0)));
  return copysign(select(far, T(R::half_pi_hi), T(0)) + (t + low), x);
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

/// asin(s) = s + rest within 2^-27.6, in double 2^-55.9: s is x up to 1/2, and sqrt((1 - |x|) / 2)
/// above, where asin(|x|) = pi/2 - 2 asin(s).
template <class T> struct Arc { T s, rest; };
template <class T> MT_HD Arc<T> arc(T x, T a) {
  const auto far = a > T(0.5);
  T z = select(far, fma(a, T(-0.5), T(0.5)), a * a), s = select(far, sqrt(z), x), p;
  if constexpr (is_single<T>)
    p = poly(z, 0.166667521f, 0.0749530941f, 0.0454691499f, 0.0241847783f, 0.0421583056f);
  else
    p = poly_pairs(z, z * z, 0.16666666666665408, 0.07500000000337141, 0.04464285682821862,
                   0.030381959141667213, 0.02237175793404701, 0.017359706567760914,
                   0.013885217206230623, 0.012169334167828595, 0.0065274345055214835,
                   0.01952977393374914, -0.016226664642539225, 0.031913952834257);
  return {s, s * z * p};
}
template <class T> MT_HD T asin(T x) {
  using R = Real<T>;
  T a = fabs(x);
  Arc<T> y = arc(a, a);
  const T quarter(R::half_pi_hi);
  T twice = y.s + y.s, far = quarter - twice;
  far = far + (((quarter - far) - twice) + (T(R::half_pi_lo) - (y.rest + y.rest)));
  return copysign(select(a > T(0.5), far, y.s + y.rest), x);
}
template <class T> MT_HD T acos(T x) {
  using R = Real<T>;
  T a = fabs(x);
  Arc<T> y = arc(x, a);
  T less = T(R::half_pi_hi) - (y.s - (T(R::half_pi_lo) - y.rest)), sum = y.s + y.rest;
  T far = select(x < T(0), less, sum);
  return select(a > T(0.5), far + far, less);
}

// ---- tangent ------------------------------------------------------------------------------------

/// The tangent of an angle: r + r^3 p(r^2) in two pieces, with errors of 2^-25.7 and 2^-56.2; if n
/// is odd, -1 over their sum, from an estimate corrected by two terms.
template <class T> MT_HD T tan_of(Angle<T> a) {
  using B = bits_of<T>;
  T r = a.r, rest = a.rest, z = r * r, p;
  if constexpr (is_single<T>)
    p = poly(z, 0.333331555f, 0.133388326f, 0.0534086861f, 0.0244389195f, 0.00310648326f,
             0.00939302891f);
  else
    p = poly_pairs(z, z * z, 0.3333333333333278, 0.13333333333414132, 0.05396825392688347,
                   0.02186948960412334, 0.008863219230062424, 0.003592288505408812,
                   0.001454761348911198, 0.0005950508685533333, 0.00022241990832280088,
                   0.00013644415860448268, -2.6272689431950194e-05, 8.934888149797485e-05,
                   -4.482104871634441e-05, 2.0849970708885207e-05);
  T more = fma(r * z, p, fma(rest * T(1.62f), z, rest)), even = copysign(r + more, r);
  T inverse = about_inverse(even),
    lost = fma(even - r - more, inverse, fused(-even, inverse, T(1)));
  T odd = fma(-inverse, fma(lost, lost, lost), -inverse);
  return from_bits<T>(to_bits(select((a.quadrant & B(1)) != B(0), odd, even)));
}
template <class T> MT_HD T near_tan(T x) { return tan_of(near_angle(x)); }
MT_HD float tan(float x) {
  float far = with_sign_of(x, tan_of(any_angle(fabs(x))));
  return fabs(x) <= Real<float>::near ? near_tan(x) : far;
}
MT_HD double tan(double x) {
  return fabs(x) <= Real<double>::near ? near_tan(x) : __builtin_tan(x);
}

// ---- the hyperbolic functions and their inverses ------------------------------------------------

/// e^x = 2^k (c + s) and e^-x = 2^-k (c - s), where c and s are the even and the odd part of e^r: so e^-x needs no
/// division. Near zero k is 0, and sinh is s.
struct Hyperbolic {
  double c, s;
  double sum, difference;  // of 2^(k-1) and 2^(-k-1)
};
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

/// The same for doubles, with e^r = 1 + c + s: the errors of the odd and the even polynomial are
/// 2^-61.7 and 2^-58. The powers are halved, because 2^k may overflow.
MT_HD Hyperbolic wide_hyperbolic(double a) {
  using R = Real<double>;
  const double round = R::round + R::bias - 2;
  double x = at_most(a, 710.5), n = fma(x, R::log2e, round), k = n - round;
  double hi = fma(k, -R::ln2_hi, x), lo = k * R::ln2_lo, r = hi - lo, z = r * r;
  double s = poly(z, 0.16666666666666677, 0.008333333333321384, 0.00019841269886823365,
                  2.7557243447600303e-06, 2.5109319802553162e-08);
  double c = poly(z, 0.5000000000000013, 0.041666666666510456, 0.0013888888948361444,
                  2.4801488506612357e-05, 2.763180586378344e-07);
  double up = power_of_two(n), down = power_of_two(round - at_most(k, 60.0));
  return {z * c, r + fma(r * z, s, (hi - r) - lo), up + down, up - down};
}
MT_HD double sinh(double x) {
  double a = fabs(x);
  Hyperbolic h = wide_hyperbolic(a);
  double y = h.difference + fma(h.difference, h.c, h.sum * h.s);
  return copysign(select(a < 0x1p-28, a, y + y), x);
}
MT_HD double cosh(double x) {
  Hyperbolic h = wide_hyperbolic(fabs(x));
  double y = h.sum + fma(h.sum, h.c, h.difference * h.s);
  return y + y;
}

/// Below 2^-12 it is two terms of the series; above, a logarithm near 1 has enough precision.
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
/// log(a + sqrt(a^2 + One)), where a >= 1 if One is -1. As log1p, it corrects rounding errors of
/// a^2, the sums and the root. From 2^28 on it is log(2a).
template <int One> MT_HD double log_with_root(double a) {
  const double infinity = __builtin_inf(), one = One;
  double b = at_most(a, 0x1p28), t = b * b, q = t + one, v = q - t;
  double lost = fused(b, b, -t) + ((t - (q - v)) + (one - v)), s = sqrt(q);
  double rest = (fused(-s, s, q) + lost) / fma(s, 2.0, 0x1p-900), u = s + b;
  rest = rest + (One > 0 ? b - (u - s) : s - (u - b));
  const bool far = a > 0x1p28;
  Split<double> p = split(select(far, 0.5 * a, u));
  double y = log_sum(p.k + select(far, 2.0, 0.0), fma(rest, p.inverse, p.m - 1));
  return a < infinity ? y : a;
}
MT_HD double asinh(double x) { return copysign(log_with_root<1>(fabs(x)), x); }
MT_HD double acosh(double x) { return select(x >= 1, log_with_root<-1>(x), __builtin_nan("")); }
MT_HD float atanh(float x) {
  const double infinity = __builtin_inf(), nan = __builtin_nan("");
  double a = fabs(double(x)), z = a * a;
  double y = a < 0x1p-12 ? fma(a * z, 1 / 3.0, a) : 0.5 * wide_log((1 + a) / (1 - a));
  y = a < 1 ? y : a == 1 ? infinity : nan;
  return float(copysign(y, double(x)));
}
MT_HD double atanh(double x) {
  const double infinity = __builtin_inf(), nan = __builtin_nan("");
  double a = fabs(x), u = 1 + a, v = 1 - a;
  LogQuotient<double> q = log_quotient(u, a - (u - 1), v, (1 - v) - a);
  double y = half_log<double>({q.k, select(q.k == 0, a, q.s)});
  return copysign(select(a < 1, y, select(a == 1, infinity, nan)), x);
}

// ---- the error function -------------------------------------------------------------------------

/// (erf(x) - x) / x as a polynomial in z = -x^2, in double, within 2^-56 up to 0.921875.
template <class T> MT_HD T erf_poly(T z) {
  return poly(z, 0.1283791670955126, 0.3761263890318408, 0.11283791670969558, 0.02686617064759708,
              0.005223977646898759, 0.0008548328096864376, 0.00012055365530401974,
              1.4926248643717219e-05, 1.6468233447660564e-06, 1.6386512374310083e-07,
              1.4581592168395427e-08, 9.597837711601752e-10);
}
/// In float it is x + x p(x^2) up to 0.921875 and 1 - e^q(|x|) above, as N. Juffa's erff; q fits
/// log(erfc(x)) on [0.92, 4]. The errors are 2^-29.8 and 2^-28.9; from 3.92 on it is 1. Doubles
/// use 1 - e^(-x^2) g(t) above, t = (|x| - 3) / (|x| + 3), within 2^-60 on [0.92, 5.95].
template <class T> MT_HD T erf(T x) {
  if constexpr (is_single<T>) {
    T a = at_most(fabs(x), T(4)), z = a * a;
    T p = poly(z, 0.128379166f, -0.376126289f, 0.112836242f, -0.0268555768f, 0.00519185606f,
               -0.000804190175f, 7.95756278e-05f);
    T q = poly(a, -0.000207018442f, -1.12762737f, -0.637265801f, -0.10385631f, 0.0221897401f,
               -0.0030336848f, 0.000194946289f);
    Exp<T> e = exp_parts(q, Real<T>::bias);
    T s = power_of_two(e.n), far = T(1) - fma(s, e.q, s);
    return copysign(select(a < T(0.921875f), fma(a, p, a), far), x);
  } else {
    using R = Real<T>;
    const T round(R::round + R::bias);
    T a = at_most(fabs(x), T(5.95)), z = fma(-a, a, T(0)), near = fma(a, erf_poly(z), a);
    T n = fma(z, T(R::log2e), round), t = fma(about_inverse(a + T(3)), T(-6), T(1));
    T g = poly_pairs(t, t * t, 0.1790011511813876, -0.3262335600433867, 0.24560380170358356,
                     -0.15011593654288904, 0.07166583837330559, -0.02439247686283765,
                     0.004269327466609773, 0.0007087288789585572, -0.000593766009902025,
                     5.257811965793074e-05, 7.44836958788934e-05, -4.445107354784825e-06,
                     -5.96769125799292e-06);
    T s = power_of_two(n) * g, far = T(1) - fma(s, exp_rest(z, n - round), s);
    return copysign(select(a < T(0.921875f), near, far), x);
  }
}
/// 1 - x p(x^2) up to 0.59375, in float within 2^-27, and erfc_tail above it.
template <class T> MT_HD T erfc(T x) {
  T a = at_most(fabs(x), T(Real<T>::erfc_end)), z = fma(-a, a, T(0)), near;
  Tail<T> e = erfc_tail(a, 2, z, fused(-a, a, -z));
  T far = e.q * e.power;
  far = select(x < T(0), T(2) - far, far);
  if constexpr (is_single<T>)
    near = fma(-x, poly(z, 1.12837911f, 0.376123339f, 0.112792797f, 0.0265856758f, 0.00443875138f),
               T(1));
  else near = fma(-x, erf_poly(z), T(1) - x);
  return select(a < T(0.59375f), near, far);
}

}  // namespace core
#endif  // __CUDA_ARCH__

MT_WIDE2(pow)
MT_WIDE2(atan2)
MT_EITHER(tan)
MT_EITHER(asin)
MT_EITHER(acos)
MT_EITHER(atan)
MT_EITHER(erfc)
#ifndef __CUDA_ARCH__
MT_EITHER(erf)
template <class T> MT_HD Symbolic<T> tan(T x) { return tan(x); }
MT_OF_SYMBOLS(asin)
MT_OF_SYMBOLS(acos)
MT_OF_SYMBOLS(atan)
MT_OF_SYMBOLS(erf)
MT_OF_SYMBOLS(erfc)
#endif
MT_EITHER(sinh)
MT_EITHER(cosh)
MT_EITHER(asinh)
MT_EITHER(acosh)
MT_EITHER(atanh)

// ---- the normal distribution --------------------------------------------------------------------

namespace core {
/// For 0 <= a <= 15: z = -a^2/2, t = (a - 1) / (a + 3), and e^(-a^2/2), whose exponent corrects the
/// rounding of a^2.
template <class T> struct Normal : Tail<T> {
  T z, size, t;  // size: a + 3
};
template <class T> MT_HD Normal<T> normal(T a) {
  static_assert(is_single<T>);
  T half = T(-0.5) * a, z = a * half, less = fused(a, half, -z), size = a + T(3);
  return {exp_tail(z, less), z, size, quotient(a - T(1), size, about_inverse(size))};
}
/// a (1 - ndtr(a)) without the factor `power`, from e^(-a^2/2) g(t); g within 2^-27.5 from 0.8125.
template <class T> MT_HD T normal_tail(Normal<T> e) {
  const float unit = 0x1p-64f;
  T g = poly(e.t, 0.261578292f * unit, 0.496857166f * unit, -0.707251549f * unit, 0.4580338f * unit,
             -0.0602142215f * unit, -0.0755746961f * unit, 0.00239926251f * unit,
             0.0373051055f * unit, -0.0142144635f * unit);
  return fma(g, e.q, g);
}
/// The derivative of x ndtr(x): if x is negative e^(-a^2/2) (a + 3) s(t), else 1 minus that of -x.
/// s is within 2^-24.7 of a slope of 0.03 and more.
template <class T> MT_HD T gelu_slope(T x) {
  const float unit = 0x1p-64f;
  Normal<T> e = normal(at_most(fabs(x), T(15)));
  T s =
      poly(e.t, -0.0343409963f * unit, -0.501965284f * unit, 0.248428226f * unit,
           -0.152940765f * unit, 0.0380461216f * unit, 0.0108330091f * unit, -0.00587731414f * unit,
           -0.00240250002f * unit, 0.000937021628f * unit, 0.000351119932f * unit) *
      e.size;
  T tail = fma(s, e.q, s);
  return select(x < T(0), tail * e.power, fma(tail, -e.power, T(1)));
}
/// min(|x|, 14.5), 14.5 for NaN: ndtr is 0 below -14.5. In double, min(|x|, 38.76) or NaN.
template <class T> MT_HD T normal_size(T x) {
  if constexpr (is_single<T>) return lesser(fabs(x), T(14.5f));
  else return at_most(fabs(x), T(38.76));
}
/// ndtr(x), given z = -x^2/2, for |x| up to 0.8125; within 2^-28 of gelu's value, in double 2^-55.
template <class T> MT_HD T normal_middle(T x, T z) {
  T p;
  if constexpr (is_single<T>)
    p = poly(z, 0.398942262f, 0.13297981f, 0.03987979515f, 0.00940605065f, 0.00157879805f);
  else
    p = poly(z, 0.3989422804014324, 0.13298076013376933, 0.03989422803807581, 0.009498625676276563,
             0.0018469544019600452, 0.00030222451447122563, 4.260159045651565e-05,
             5.221059623019345e-06, 4.968042874777864e-07);
  return fma(x, p, T(0.5));
}
/// For double: a = normal_size(x), z = -a^2/2, and 1 - ndtr(a) without the factor `power`.
template <class T> struct WideNormal : Tail<T> { T a, z; };
template <class T> MT_HD WideNormal<T> wide_normal(T x) {
  T a = normal_size(x), half = T(-0.5) * a, z = a * half;
  Tail<T> e = erfc_tail(a, 1.41421356237309505, z, fused(a, half, -z));
  return {{T(0.5) * e.q, e.power}, a, z};
}
template <class T> MT_HD T gelu(T x) {
  if constexpr (is_single<T>) {
    T a = normal_size(x);
    Normal<T> e = normal(a);
    T far = fma(normal_tail(e), -e.power, at_least(x, T(-0.f)));
    return select(a < T(0.8125f), x * normal_middle(x, e.z), far);
  } else {
    WideNormal<T> e = wide_normal(x);
    T far = fma(e.a * e.q, -e.power, at_least(x, T(-0.)));
    return select(e.a < T(0.8125), x * normal_middle(x, e.z), far);
  }
}
template <class T> MT_HD T ndtr(T x) {
  if constexpr (is_single<T>) {
    T a = normal_size(x);
    Normal<T> e = normal(a);
    T tail = quotient(normal_tail(e), a, about_inverse(a)) * e.power;
    T far = select(x < T(0), tail, T(1) - tail);
    return select(fabs(x) >= T(0.8125f), far, normal_middle(x, e.z));
  } else {
    WideNormal<T> e = wide_normal(x);
    T tail = e.q * e.power, far = select(x < T(0), tail, T(1) - tail);
    return select(e.a < T(0.8125), normal_middle(x, e.z), far);
  }
}
}  // namespace core

MT_FROM_CORE(gelu)
MT_FROM_CORE(ndtr)
MT_HD double gelu_slope(double x) { return ndtr(x) + x * exp(-0.5 * x * x) * 0.398942280401432678; }
MT_HD float gelu_slope(float x) { return core::gelu_slope(x); }
MT_OF_SYMBOLS(gelu_slope)
MT_HD double tanhshrink(double x) {
  const double z = x * x;
  return z < 0.25 ? 0.0 - x * z * core::tanh_poly(z) : x - tanh(x);
}
#ifdef __CUDA_ARCH__
MT_HD float tanhshrink(float x) { return float(tanhshrink(double(x))); }
#else
MT_HD float tanhshrink(float x) { return core::tanhshrink(x); }
template <class T> MT_HD Symbolic<T> tanhshrink(T x) { return core::tanhshrink(x); }
#endif

}  // namespace math
}  // namespace MT_ISA
}  // namespace mt

#undef MT_OF_SYMBOLS  // of math.h
#undef MT_FROM_CORE
#undef MT_EITHER
#undef MT_WIDE2
