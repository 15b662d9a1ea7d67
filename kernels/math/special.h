// special.h -- the gamma function (log, derivatives, incomplete), the inverse of erf, and sinc
#pragma once
#include "kernels/math/number.h"
#if !defined(__CUDACC_RTC__)
#include <math.h>  // lgamma_r; no inline function is used
#endif

/// Float is computed in double and rounded once, except sinc and erfinv. NaN and infinities are as in PyTorch.
namespace mt {
inline namespace MT_ISA {
namespace math {
namespace special {

constexpr double kPi = 3.14159265358979324;

// ---- erfinv -------------------------------------------------------------------------------------

/// Horner's rule, rounded once in each step.
MT_HD double horner(double, double c0) { return c0; }
template <class... C> MT_HD double horner(double x, double c0, C... c) {
  return core::fused(horner(x, c...), x, c0);
}

/// Wichura's AS 241 (PPND16, 1988) for the normal quantile at (1 + x) / 2, over sqrt(2): rational
/// functions of 0.425^2 - (x/2)^2 in the middle and of sqrt(-log((1 - |x|) / 2)) outside. Both
/// arguments are exact or nearly so, so the result keeps its digits near 0 and near 1.
MT_HD double erfinv(double x) {
  const double q = 0.5 * x, r = 0.180625 - q * q;
  const double middle =
      q *
      horner(r, 3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3,
             1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
             3.3430575583588128105e+4, 2.5090809287301226727e+3) /
      horner(r, 1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
             2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4,
             5.2264952788528545610e+3);
  const double t = math::sqrt(-math::log(0.5 * (1 - math::fabs(x)))), s = t - 1.6, u = t - 5;
  const double near_one =
      horner(s, 1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
             3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
             2.27238449892691845833e-2, 7.74545014278341407640e-4) /
      horner(s, 1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
             1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
             1.05075007164441684324e-9);
  const double at_one =
      horner(u, 6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
             2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
             2.71155556874348757815e-5, 2.01033439929228813265e-7) /
      horner(u, 1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
             1.48753612908506148525e-2, 7.86869131145613259100e-4, 1.84631831751005468180e-5,
             1.42151175831644588870e-7, 2.04426310338993978564e-15);
  const double outside = math::copysign(t <= 5 ? near_one : at_one, x), a = math::fabs(x);
  const double y = (a <= 0.85 ? middle : outside) * 0.707106781186547524;
  return a < 1 ? y : a == 1 ? x * __builtin_inf() : x - x + __builtin_nan("");
}

// ---- digamma ------------------------------------------------------------------------------------

/// digamma(x) / (x - root) at x = 1.5 + t, |t| <= 1/2: Chebyshev interpolation of values of mpmath;
/// the error is 2^-53.6.
MT_HD double digamma_poly(double t) {
  return core::poly(
      t, 0.951055876031833, -0.4236274212814605, 0.2405424842407742, -0.14840492305390884,
      0.09498872445494122, -0.061922133273064534, 0.04076083381242074, -0.02697579675613825,
      0.0179072524394512, -0.011908218001568644, 0.007926944646403797, -0.005279964873257405,
      0.003519006401502276, -0.002345267632540769, 0.0015566317474486838, -0.0010376374098418604,
      0.0007233266279287554, -0.0004821990530566789, 0.0002272331660987376, -0.00015148586836773365,
      0.00025968482126430747, -0.00017312261802727394);
}

/// digamma for x >= 0: the recurrence digamma(x) = digamma(x + 1) - 1 / x leads to [1, 2], where its zero is; from 10
/// on it is the asymptotic series (Abramowitz and Stegun 6.3.18). At 0 it is an infinity, negative at +0.
MT_HD double digamma_positive(double x) {
  if (x >= 10) {
    const double z = 1 / (x * x);
    return math::log(x) - 0.5 / x -
           z * core::poly(z, 1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760,
                          1. / 12);
  }
  double sum = 0;
  if (x < 1) sum = -1 / x, x += 1;
  while (x > 2) x -= 1, sum += 1 / x;
  const double root = 1.4616321449683622, rest = 9.549995429965697e-17;
  return ((x - root) - rest) * digamma_poly(x - 1.5) + sum;
}
/// Below 0 by reflection (6.3.7), which loses relative precision near the zeros there. Negative integers give NaN.
MT_HD double digamma(double x) {
  if (!(x < 0)) return digamma_positive(x);
  const double fraction = x - math::trunc(x);
  if (fraction == 0 || x != x) return __builtin_nan("");
  return digamma_positive(1 - x) - kPi * math::cos(kPi * fraction) / math::sin(kPi * fraction);
}

// ---- polygamma ----------------------------------------------------------------------------------

constexpr int kMaxOrder = 60;  // of a derivative of digamma; larger orders are clamped

/// x to the power n >= 0.
MT_HD double integer_power(double x, int n) {
  double y = 1;
  for (; n > 0; n >>= 1, x *= x)
    if (n & 1) y *= x;
  return y;
}

/// The Hurwitz zeta(s, x), the sum of (x + k)^-s over k >= 0, for x > 0 and s > 1. It adds terms until a = x + k
/// reaches 12 + 2s, and then the Euler-Maclaurin formula, whose remainder is below 2^-58 there; it stops if terms
/// vanish.
MT_HD double hurwitz(int s, double x) {
  // B(2j) / (2j)! for j = 1, 2, .., with the Bernoulli numbers B.
  const double coefficient[] = {1. / 12,          -1. / 720,
                                1. / 30240,       -1. / 1209600,
                                1. / 47900160,    -691. / 1307674368000,
                                1. / 74724249600, -3617. / 10670622842880000};
  double sum = 0, a = x;
  for (; a < 12 + 2 * s; a += 1) {
    const double term = integer_power(1 / a, s);
    sum += term;
    if (term <= 1e-20 * sum) return sum;
  }
  const double power = integer_power(1 / a, s);
  double rest = power * a / (s - 1) + 0.5 * power, term = power * s / a;
  if (!(a < __builtin_inf())) return a == a ? 0 : a;
  for (int j = 0; j < 8; ++j) {
    rest += coefficient[j] * term;
    term *= (s + 2 * j + 1) * (s + 2 * j + 2) / (a * a);
  }
  return sum + rest;
}

/// The n-th derivative of cot(pi x), by the polynomials in c = cot(pi x) that arise from
/// c' = -pi (1 + c^2).
MT_HD double cot_derivative(int n, double x) {
  double p[kMaxOrder + 2] = {0, 1};
  for (int k = 0; k < n; ++k) {
    double q[kMaxOrder + 2] = {};
    for (int i = 1; i <= k + 1; ++i) {
      q[i - 1] -= kPi * i * p[i];
      q[i + 1] -= kPi * i * p[i];
    }
    for (int i = 0; i <= k + 2; ++i) p[i] = q[i];
  }
  const double c = math::cos(kPi * x) / math::sin(kPi * x);
  double y = 0;
  for (int i = n + 1; i >= 0; --i) y = y * c + p[i];
  return y;
}

/// The n-th derivative of digamma; poles are infinite.
MT_HD double polygamma(double x, double order) {
  const int n = order >= kMaxOrder ? kMaxOrder : order >= 1 ? int(order) : 0;
  if (n == 0) return digamma(x);
  const double sign = n % 2 ? 1 : -1;
  double factorial = 1;
  for (int k = 2; k <= n; ++k) factorial *= k;
  if (x > 0) return sign * factorial * hurwitz(n + 1, x);
  const double fraction = x - math::trunc(x);
  if (x != x || x == -__builtin_inf()) return __builtin_nan("");
  if (fraction == 0) return sign * __builtin_inf();
  return -factorial * hurwitz(n + 1, 1 - x) - kPi * cot_derivative(n, fraction);
}

}  // namespace special

/// log |gamma(x)|. The C library's lgamma writes the global `signgam`, a data race between threads.
MT_HD double lgamma(double x) {
#ifdef __CUDA_ARCH__
  return ::lgamma(x);
#else
  int sign;
  return ::lgamma_r(x, &sign);
#endif
}
#ifdef __CUDA_ARCH__
MT_HD float lgamma(float x) { return float(lgamma(double(x))); }
#else
namespace core {
/// log |gamma(x)|: Stirling's series (Abramowitz and Stegun 6.1.41) at z = |x| + 5 minus the logarithm of the
/// factors in between; if x is negative, reflection (6.1.17), within 2^-44. Near 1 and 2, (x - 1) (x - 2) times a
/// polynomial, within 2^-29. Two quotients share a division. `Above`: x > 0.
template <bool Above> MT_HD double wide_lgamma(double x) {
  const double infinity = __builtin_inf(), a = fabs(x), z = a + 5;
  const bool below = !Above && x < 0;
  const double sine = below ? fabs(near_sin(kPi * (a - rint(a)))) : 1;
  const double inverse = 1 / (z * sine), y = inverse * sine;
  const double middle =
      (x - 1) * (x - 2) *
      poly(x - 1.5, 0.48312895112372634, -0.14595989896056608, 0.06291130152477091,
           -0.03130829130699261, 0.016799859901709867, -0.009429261971099794, 0.005417993234503707,
           -0.0031825489558525524, 0.002060470642077102, -0.00128546430377022,
           0.0003808317869584261, -0.00018069363399419018, 0.0006349995022965223,
           -0.00042476767161790169);
  const double series = y * poly(y * y, 1. / 12, -1. / 360, 1. / 1260, -1. / 1680, 1. / 1188,
                                 -691. / 360360, 1. / 156);
  const double factors = (a + 1) * (a + 2) * (a + 3) * (a + 4) * (below ? kPi * (z * inverse) : a);
  const Split<double> m = split(z), n = split(factors);
  const double f = m.m - 1, g = n.m - 1, d = 2 + f, e = 2 + g, unit = 1 / (d * e);
  const double s = f * (e * unit), t = g * (d * unit);
  const double log_z = fma(m.k, 0x1.62e42fefa39efp-1, s * fma(s * s, log_ratio_poly(s * s), 2.0));
  const double rest = fma(n.k, 0x1.62e42fefa39efp-1, t * fma(t * t, log_ratio_poly(t * t), 2.0));
  const double upper = (z - 0.5) * log_z - z + 0.91893853320467274 + series;
  const double outside = below ? rest - upper : upper - rest;
  const double result = fabs(x - 1.5) < 0.75 ? middle : outside;
  return a * sine == 0 ? infinity : result;
}
template <bool Above> MT_HD float short_lgamma(float x) {  // + 0: avoids -0 at 1
  return fabs(x) < __builtin_inff() ? float(wide_lgamma<Above>(double(x)) + 0.0) : x * x;
}
}  // namespace core
MT_HD double positive_lgamma(double x) { return lgamma(x); }
MT_HD float positive_lgamma(float x) { return core::short_lgamma<true>(x); }
MT_HD float lgamma(float x) { return core::short_lgamma<false>(x); }
template <class T> MT_HD Reduced<T> lgamma(Reduced<T> x) {
  return Reduced<T>(positive_lgamma(x.v));
}
#endif

namespace core {
/// sin(pi near) / (pi near) is a polynomial in near^2 within 2^-27.2, in double 2^-61. x is reduced
/// to one turn, so that an integer gives 0.
template <class T> MT_HD T sinc(T x) {
  T turn = fma(rint(T(0.5f) * x), T(-2), x), a = fabs(turn);  // the product is exact
  T near = copysign(select(a > T(0.5f), T(1) - a, a), turn), z = near * near, p;
  if constexpr (is_single<T>)
    p = poly(z, 1.0f, -1.64493334f, 0.811715841f, -0.190443248f, 0.0247160774f);
  else
    p = poly(z, 1.0, -1.6449340668482264, 0.8117424252833462, -0.19075182412167532,
             0.026147847807942545, -0.0023460809132875545, 0.0001484279165494906,
             -6.972267220298331e-06, 2.451831727610633e-07);
  return select(x == T(0), T(1), p * (near / x));
}
}  // namespace core
MT_HD double sinc(double x) { return core::sinc(x); }
MT_HD float sinc(float x) { return core::sinc(x); }
template <class T> MT_HD Symbolic<T> sinc(T x) { return core::sinc(x); }
MT_HD double erfinv(double x) { return special::erfinv(x); }
namespace core {
/// In float x (7/8 + p(w)) with w = -log(1 - x^2) up to 6, and x (s + q(s - 3)) with s = sqrt(w)
/// above; within 2^-27 and 2^-26.
template <class T> MT_HD T erfinv(T x) {
  T w = -log(fused(-x, x, T(1))), s = sqrt(w);
  T near = poly(w, 0.0112269297f, 0.232013434f, 0.0115512703f, -0.00234121503f, -0.000118210715f,
                3.74536685e-05f, 7.29218391e-06f, -2.92600771e-06f, 3.85164014e-07f,
                -2.44534117e-08f, 6.33612829e-10f);
  T far = poly(s - T(3), -0.167023167f, 0.00167548901f, 0.00944294129f, -0.00764849177f,
               0.00571825309f, -0.00354412757f, 0.00133793917f, -9.26993889e-05f, -8.24209274e-05f);
  const auto inside = w < T(6);
  T y = fma(x, select(inside, T(0.875), s), x * select(inside, near, far));
  return select(fabs(x) == T(1), x * T(__builtin_inf()), y);
}
}  // namespace core
MT_HD float erfinv(float x) { return core::erfinv(x); }
#ifndef __CUDA_ARCH__
template <class T> MT_HD Symbolic<T> erfinv(T x) { return core::erfinv(x); }
#endif
MT_HD double digamma(double x) { return special::digamma(x); }
MT_HD float digamma(float x) { return float(special::digamma(double(x))); }
MT_HD double polygamma(double x, double n) { return special::polygamma(x, n); }
MT_HD float polygamma(float x, float n) { return float(special::polygamma(double(x), double(n))); }

namespace special {

// ---- the incomplete gamma functions: float results within 2^-28, with fewer terms and short logarithms

/// Convergence: the smallest term of a series, and the smallest change of a continued fraction.
template <class T> constexpr double min_term = sizeof(T) == 4 ? 1e-10 : 1e-17;
template <class T> constexpr double min_move = sizeof(T) == 4 ? 2e-10 : 4e-16;
template <class T> MT_HD double exp_for(double x) {
#ifndef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) return core::wide_exp(core::limit(x, 700.0));
#endif
  return math::exp(x);
}
template <class T> MT_HD double log_for(double x) {
#ifndef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) return core::wide_log(x);
#endif
  return math::log(x);
}
/// lgamma of a positive number.
template <class T> MT_HD double lgamma_for(double x) {
#ifndef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) return core::wide_lgamma<true>(x);
#endif
  return lgamma(x);
}

/// log(gamma(1 + a)) for 0 <= a <= 1/2, accurate near 0: Abramowitz and Stegun 6.1.33.
MT_HD double lgamma_above_one(double a) {
  const double rest = core::poly(
      a, 0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986,
      0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425, -0.00022315475845357939,
      9.945751278180853e-05, -4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06,
      4.374866789907488e-06, -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07,
      2.1207184805554665e-07, -1.0043224823968099e-07, 4.7698101693639804e-08,
      -2.2711094608943164e-08, 1.0838659214896955e-08, -5.183475041970047e-09,
      2.4836745438024785e-09);
  return a * (0.42278433509846714 + a * rest) - math::log1p(a);
}

/// log(x / a) - u with u = (x - a) / a, accurate near u = 0.
MT_HD double log_less(double x, double a) {
  const double u = (x - a) / a;
  if (math::fabs(u) > 0.5) return math::log(x / a) - u;
  const double s = u / (2 + u), z = s * s;
  const double p =
      core::poly(z, 1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15, 1. / 17, 1. / 19,
                 1. / 21, 1. / 23, 1. / 25, 1. / 27, 1. / 29, 1. / 31, 1. / 33);
  return s * (2 * z * p - u);
}

/// x^a e^-x / gamma(a): for a large a by Stirling's series, which avoids cancellation.
template <class T> MT_HD double gamma_factor(double a, double x) {
  if (a < (sizeof(T) == 4 ? 4 : 10)) return exp_for<T>(a * log_for<T>(x) - x - lgamma_for<T>(a));
  const double z = 1 / (a * a);
  const double rest = core::poly(z, 1. / 12, -1. / 360, 1. / 1260, -1. / 1680, 1. / 1188,
                                 -691. / 360360, 1. / 156) /
                      a;
  return exp_for<T>(a * log_less(x, a) - rest) * math::sqrt(a / (2 * kPi));
}

/// The lower function is its series in x, the upper one Legendre's continued fraction with terms
/// scaled below 2^300, both without gamma_factor. Each is used where it converges fast.
template <class T> MT_HD double lower_series(double a, double x) {
  double term = 1 / a, sum = term;
  for (double n = 1; n < 5000 && term > min_term<T> * sum; ++n) sum += term *= x / (a + n);
  return sum;
}
template <class T> MT_HD double upper_fraction(double a, double x) {
  double b = x + 1 - a, p0 = 0, q0 = 1, p = 1, q = b;
  for (double n = 1; n < 5000; ++n) {
    const double an = n * (a - n);
    b += 2;
    const double p1 = fma(b, p, an * p0), q1 = fma(b, q, an * q0);
    p0 = p, q0 = q, p = p1, q = q1;
    if (math::fabs(p * q0 - p0 * q) <= min_move<T> * math::fabs(p * q0)) break;
    if (math::fabs(q) > 0x1p300) p *= 0x1p-300, q *= 0x1p-300, p0 *= 0x1p-300, q0 *= 0x1p-300;
  }
  return p / q;
}

/// The upper function for small a and x: 1 - x^a / gamma(1 + a), and the other terms of the series.
template <class T> MT_HD double upper_series(double a, double x) {
  double power = 1, sum = 0;
  for (double n = 1; n < 200; ++n) {
    power *= -x / n;
    const double term = power / (a + n);
    sum += term;
    if (math::fabs(term) <= min_term<T> * math::fabs(sum)) break;
  }
  const double logs = a * log_for<T>(x);
  const double one = a <= 0.5 ? lgamma_above_one(a) : lgamma_for<T>(1 + a);
  return -math::expm1(logs - one) - a * exp_for<T>(logs - one) * sum;
}

/// Temme's uniform expansion (DLMF 8.12.7 and 8.12.18), for a >= 500 and |x - a| <= 0.3 a; `side`
/// is -1 for the lower function and 1 for the upper one.
MT_HD double temme(double a, double x, double side) {
  const double square = -2 * log_less(x, a), eta = math::copysign(math::sqrt(square), x - a);
  const double rows[] = {
      core::poly(eta, -0.3333333333333333, 0.08333333333333333, -0.014814814814814815,
                 0.0011574074074074073, 0.0003527336860670194, -0.0001787551440329218,
                 3.919263178522438e-05, -2.185448510679992e-06, -1.85406221071516e-06,
                 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
                 1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10,
                 -2.5514193994946248e-11, -5.830772132550426e-11),
      core::poly(eta, -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454,
                 -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07,
                 -1.8098550334489977e-05, 7.64916091608111e-06, -1.6120900894563446e-06,
                 4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
                 1.1951628599778148e-08, -1.7543241719747647e-11),
      core::poly(eta, 0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049,
                 2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05,
                 -1.2760635188618728e-05, 3.423578734096138e-08, 1.3721957309062934e-06,
                 -6.298992138380055e-07),
      core::poly(eta, 0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
                 0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
                 1.1082654115347302e-05)};
  const double sum = core::poly(1 / a, rows[0], rows[1], rows[2], rows[3]);
  return 0.5 * erfc(side * eta * math::sqrt(0.5 * a)) +
         side * math::exp(-0.5 * a * square) / math::sqrt(2 * kPi * a) * sum;
}

/// NaN for a < 0 or x < 0; the edge cases are those of PyTorch. `upper`: 1 - P(a, x).
template <class T> MT_HD double incomplete_gamma(double a, double x, bool upper) {
  const double infinity = __builtin_inf(), none = upper ? 1 : 0, all = upper ? 0 : 1;
  if (!(a >= 0) || !(x >= 0) || (a == 0 && x == 0) || (a == infinity && x == infinity))
    return __builtin_nan("");
  if (a == 0 || x == infinity) return all;
  if (x == 0 || a == infinity) return none;
  if (a >= 500 && math::fabs(x - a) <= 0.3 * a) return temme(a, x, upper ? 1 : -1);
  const bool small = x <= 1.1 && (x <= 0.5 ? -0.4 / math::log(x) >= a : x * 1.1 >= a);
  if (upper && small) return upper_series<T>(a, x);  // 1 - P would lose digits
  if (x > 1.1 && x >= a) {
    const double q = upper_fraction<T>(a, x) * gamma_factor<T>(a, x);
    return upper ? q : 1 - q;
  }
  const double p = lower_series<T>(a, x) * gamma_factor<T>(a, x);
  return upper ? 1 - p : p;
}

}  // namespace special

template <class T> MT_HD T igamma(T a, T x) { return T(special::incomplete_gamma<T>(a, x, false)); }
template <class T> MT_HD T igammac(T a, T x) { return T(special::incomplete_gamma<T>(a, x, true)); }

}  // namespace math
}  // namespace MT_ISA
}  // namespace mt
