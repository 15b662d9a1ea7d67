// gamma.h -- the incomplete gamma functions, and the Hurwitz zeta function for real arguments
#pragma once
#include "kernels/math/special.h"

namespace mt {
inline namespace MT_ISA {
namespace math {
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

template <class T> struct RealPower {
  double s;
  MT_HD double operator()(double y) const {
#ifndef __CUDA_ARCH__
    if constexpr (sizeof(T) == 4) {
      const double power = -core::at_most(s, 0x1p128) * log_for<T>(y);
      return power < -690 ? 0 : exp_for<T>(power);  // 0 ends the sum
    }
#endif
    return math::pow(y, -s);
  }
};

/// The Hurwitz zeta function: NaN for s < 1, infinite at s = 1 and at q = 0, -1, ..; for q < 0 only
/// an integer s has a real value, computed from the terms below 0 and those above it.
template <class T> MT_HD double zeta(double s, double q) {
  const double infinity = __builtin_inf(), nan = __builtin_nan("");
  if (s == 1) return infinity;
  if (!(s > 1) || q != q) return nan;
  const RealPower<T> power{s};
  if (q > 0) return hurwitz<T>(s, q, power);
  const double f = q - math::floor(q);
  if (f == 0) return infinity;
  if (math::floor(s) != s || q == -infinity) return nan;
  const double below = hurwitz<T>(s, 1 - f, power) - hurwitz<T>(s, 1 - q, power);
  return hurwitz<T>(s, f, power) + (math::fmod(s, 2.0) == 0 ? below : -below);
}

}  // namespace special

template <class T> MT_HD T zeta(T s, T q) { return T(special::zeta<T>(s, q)); }
template <class T> MT_HD T igamma(T a, T x) { return T(special::incomplete_gamma<T>(a, x, false)); }
template <class T> MT_HD T igammac(T a, T x) { return T(special::incomplete_gamma<T>(a, x, true)); }

}  // namespace math
}  // namespace MT_ISA
}  // namespace mt
