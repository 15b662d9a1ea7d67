// vanishing.h -- powers of which nothing is left: a product that underflows to 0 takes processors some 150 cycles
#pragma once
#include "kernels/math/math.h"

namespace mt::math::core {

/// What exp and its kin hold small arguments to, and the n of Exp below which 2^k (1 + q), and 2^k y for |y|
/// up to 2^7, is 0.
template <class T> struct Vanishing;
template <> struct Vanishing<float> : Real<float> {
  static constexpr float exp_max = 110, exp2_max = 159, vanishing = round + 254 - 158;
};
template <> struct Vanishing<double> : Real<double> {
  static constexpr double vanishing = round - 1075;
};

/// y, or 0 where nothing is left of 2^k y.
template <class T> MT_HD T unless_vanishing(T n, T y) {
  return select(n < T(Real<T>::vanishing), T(0), y);
}

}  // namespace mt::math::core
