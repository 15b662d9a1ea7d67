// exp_underflow.h -- powers that underflow to 0, without products that underflow (about 150 cycles each)
#pragma once
#include "kernels/math/math.h"

namespace mt::math::core {

/// The limits to which exp and similar functions clamp small arguments, and the n of Exp below
/// which 2^k (1 + q), and 2^k y for |y| up to 2^7, is 0.
template <class T> struct ExpLimits;
template <> struct ExpLimits<float> : Real<float> {
  static constexpr float exp_max = 110, exp2_max = 159, underflow = round + 254 - 158;
};
template <> struct ExpLimits<double> : Real<double> {
  static constexpr double underflow = round - 1075;
};

/// y, or 0 where 2^k y underflows to 0.
template <class T> MT_HD T flush_underflow(T n, T y) {
  return select(n < T(Real<T>::underflow), T(0), y);
}

}  // namespace mt::math::core
