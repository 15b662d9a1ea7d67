// bessel.h -- the modified Bessel functions of the first kind, of order 0 and 1
#pragma once
#include "kernels/math/special.h"

namespace mt {
inline namespace MT_ISA {
namespace math {
namespace special {

/// Up to 8 they are power series in (x/2)^2, with positive terms; above, e^x / sqrt(x) times
/// a polynomial in 16/x - 1, interpolated at Chebyshev nodes from values of mpmath (2^-52.9). e^x
/// is split into two factors, because it overflows before the product does.
MT_HD double far_bessel(double a, double p) {
  const double half = math::exp(0.5 * a);
  return half * (p / math::sqrt(a)) * half;
}
MT_HD double i0(double x) {
  const double a = math::fabs(x);
  if (a <= 8) {
    const double z = 0.25 * x * x;
    return horner(z, 1.0, 1.0, 0.25, 0.027777777777777776, 0.001736111111111111,
                  6.944444444444444e-05, 1.9290123456790124e-06, 3.936759889140842e-08,
                  6.151187326782565e-10, 7.594058428126624e-12, 7.594058428126623e-14,
                  6.276081345559193e-16, 4.358389823304995e-18, 2.5789288895295828e-20,
                  1.3157800456783586e-22, 5.8479113141260385e-25, 2.2843403570804838e-27,
                  7.904291893012054e-30, 2.4395962632753253e-32, 6.757884385804225e-35,
                  1.6894710964510564e-37);
  }
  if (!(a < 720)) return a * __builtin_inf();  // propagates NaN
  return far_bessel(
      a, core::poly(16 / a - 1, 0.4021765094450081, 0.0033605519836677235, 0.00013621607439187193,
                    1.1143033802583682e-05, 1.4838475863096976e-06, 2.9735956581528157e-07,
                    8.872154618944625e-08, 3.932926571091252e-08, 2.155681110989874e-08,
                    7.532386417555123e-09, -6.805980075129678e-09, -1.331979859201994e-08,
                    -5.162517880939013e-09, 7.323310735122893e-09, 6.789790403895736e-09,
                    -3.11851456121224e-09, -4.8482509221176966e-09, 1.0924527246468664e-09,
                    2.3981927228949238e-09, -2.748111637276033e-10, -7.473844621887592e-10,
                    3.525321019700796e-11, 1.0881994785468934e-10));
}
MT_HD double i1(double x) {
  const double a = math::fabs(x);
  if (a <= 8) {
    const double z = 0.25 * x * x;
    return 0.5 * x *
           horner(z, 1.0, 0.5, 0.08333333333333333, 0.006944444444444444, 0.00034722222222222224,
                  1.1574074074074073e-05, 2.755731922398589e-07, 4.920949861426052e-09,
                  6.834652585313961e-11, 7.594058428126623e-13, 6.903689480115112e-15,
                  5.230067787965994e-17, 3.352607556388458e-19, 1.842092063949702e-21,
                  8.771866971189057e-24, 3.654944571328774e-26, 1.3437296218120491e-28,
                  4.391273273895586e-31, 1.2839980333028028e-33, 3.3789421929021126e-36,
                  8.045100459290744e-39);
  }
  if (!(a < 720)) return x * __builtin_inf();
  const double p = core::poly(
      16 / a - 1, 0.38939845902587233, -0.009749577193235609, -0.000219235763833829,
      -1.503854721127423e-05, -1.8349101539664522e-06, -3.483853071371078e-07,
      -1.0001220638799958e-07, -4.31323156237458e-08, -2.3382691353601083e-08,
      -8.407326839577817e-09, 6.795073490187386e-09, 1.3952625102162603e-08, 5.722677527454156e-09,
      -7.432535335623792e-09, -7.222524178953976e-09, 3.0717395650769477e-09, 5.094016301574338e-09,
      -1.0476127785270019e-09, -2.5062162405593894e-09, 2.582169443152386e-10, 7.79067217908059e-10,
      -3.2677656089803323e-11, -1.13288885034257e-10);
  return math::copysign(far_bessel(a, p), x);
}

}  // namespace special

MT_HD double i0(double x) { return special::i0(x); }
MT_HD float i0(float x) { return float(special::i0(double(x))); }
MT_HD double i1(double x) { return special::i1(x); }
MT_HD float i1(float x) { return float(special::i1(double(x))); }

}  // namespace math
}  // namespace MT_ISA
}  // namespace mt
