// gamma.h -- the incomplete gamma functions, and Hurwitz' zeta function of real arguments
#pragma once
#include "kernels/math/special.h"

namespace mt {
inline namespace MT_ISA {
namespace math {
namespace special {

/// log(gamma(1 + a)) for 0 <= a <= 1/2, exact near 0: Abramowitz and Stegun 6.1.33.
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

/// log(x / a) - u with u = (x - a) / a, exact near u = 0.
MT_HD double log_less(double x, double a) {
  const double u = (x - a) / a;
  if (math::fabs(u) > 0.5) return math::log(x / a) - u;
  const double s = u / (2 + u), z = s * s;
  const double p =
      core::poly(z, 1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15, 1. / 17, 1. / 19,
                 1. / 21, 1. / 23, 1. / 25, 1. / 27, 1. / 29, 1. / 31, 1. / 33);
  return s * (2 * z * p - u);
}

/// x^a e^-x / gamma(a): beyond a = 10 by Stirling's series, so that nothing large is subtracted.
MT_HD double gamma_factor(double a, double x) {
  if (a < 10) return math::exp(a * math::log(x) - x - lgamma(a));
  const double z = 1 / (a * a);
  const double rest = core::poly(z, 1. / 12, -1. / 360, 1. / 1260, -1. / 1680, 1. / 1188,
                                 -691. / 360360, 1. / 156) /
                      a;
  return math::exp(a * log_less(x, a) - rest) * math::sqrt(a / (2 * kPi));
}

/// The lower function by its series in x, the upper one by Legendre's continued fraction (modified
/// by Lentz), each where it is soon done; the first as if the factor were 1.
MT_HD double lower_series(double a, double x) {
  double term = 1 / a, sum = term;
  for (double n = 1; n < 5000 && term > 1e-17 * sum; ++n) sum += term *= x / (a + n);
  return sum;
}
MT_HD double upper_fraction(double a, double x) {
  const double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (double n = 1; n < 5000; ++n) {
    const double an = n * (a - n);
    b += 2;
    d = an * d + b, c = b + an / c;
    d = 1 / (d == 0 ? tiny : d), c = c == 0 ? tiny : c;
    const double step = c * d;
    h *= step;
    if (math::fabs(step - 1) < 1e-16) break;
  }
  return h;
}

/// The upper function for small a and x: 1 - x^a / gamma(1 + a), and the rest of the series.
MT_HD double upper_series(double a, double x) {
  double power = 1, sum = 0;
  for (double n = 1; n < 200; ++n) {
    power *= -x / n;
    const double term = power / (a + n);
    sum += term;
    if (math::fabs(term) <= 1e-17 * math::fabs(sum)) break;
  }
  const double logs = a * math::log(x);
  const double one = a <= 0.5 ? lgamma_above_one(a) : lgamma(1 + a);
  return -math::expm1(logs - one) - a * math::exp(logs - one) * sum;
}

/// Temme's uniform expansion (DLMF 8.12.7 and 8.12.18), for a from 500 on and |x - a| <= 0.3 a;
/// `side` is -1 for the lower function and 1 for the upper one.
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

/// Of a < 0 or x < 0 NaN; at the edges as PyTorch's. `upper`: 1 - P(a, x).
MT_HD double incomplete_gamma(double a, double x, bool upper) {
  const double infinity = __builtin_inf(), none = upper ? 1 : 0, all = upper ? 0 : 1;
  if (!(a >= 0) || !(x >= 0) || (a == 0 && x == 0) || (a == infinity && x == infinity))
    return __builtin_nan("");
  if (a == 0 || x == infinity) return all;
  if (x == 0 || a == infinity) return none;
  if (a >= 500 && math::fabs(x - a) <= 0.3 * a) return temme(a, x, upper ? 1 : -1);
  const bool small = x <= 1.1 && (x <= 0.5 ? -0.4 / math::log(x) >= a : x * 1.1 >= a);
  if (upper && small) return upper_series(a, x);  // 1 - P would lose its digits
  if (x > 1.1 && x >= a) {
    const double q = upper_fraction(a, x) * gamma_factor(a, x);
    return upper ? q : 1 - q;
  }
  const double p = lower_series(a, x) * gamma_factor(a, x);
  return upper ? 1 - p : p;
}

struct RealPower {
  double s;
  MT_HD double operator()(double y) const { return math::pow(y, -s); }
};

/// Hurwitz' zeta function: NaN for s < 1, infinite at s = 1 and at q = 0, -1, ..; below 0 only a
/// whole s has a real value, by the terms below 0 and those above it.
MT_HD double zeta(double s, double q) {
  const double infinity = __builtin_inf(), nan = __builtin_nan("");
  if (s == 1) return infinity;
  if (!(s > 1) || q != q) return nan;
  const RealPower power{s};
  if (q > 0) return hurwitz(s, q, power);
  const double f = q - math::floor(q);
  if (f == 0) return infinity;
  if (math::floor(s) != s || q == -infinity) return nan;
  const double below = hurwitz(s, 1 - f, power) - hurwitz(s, 1 - q, power);
  return hurwitz(s, f, power) + (math::fmod(s, 2.0) == 0 ? below : -below);
}

}  // namespace special

MT_HD double zeta(double s, double q) { return special::zeta(s, q); }
MT_HD float zeta(float s, float q) { return float(special::zeta(double(s), double(q))); }
MT_HD double igamma(double a, double x) { return special::incomplete_gamma(a, x, false); }
MT_HD float igamma(float a, float x) { return float(igamma(double(a), double(x))); }
MT_HD double igammac(double a, double x) { return special::incomplete_gamma(a, x, true); }
MT_HD float igammac(float a, float x) { return float(igammac(double(a), double(x))); }

}  // namespace math
}  // namespace MT_ISA
}  // namespace mt
