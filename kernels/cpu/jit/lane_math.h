// lane_math.h -- lanes as symbolic numbers for the formulas in kernels/math/; only for the host compiler
#pragma once
#include "kernels/cpu/jit/lanes.h"
#include "kernels/cpu/simd/exp_underflow.h"
#include "kernels/math/math.h"
#include "kernels/math/number.h"

template <class T> inline constexpr bool mt::math::is_symbolic<mt::ir::Lane<T>> = true;
template <class T> struct mt::math::core::Real<mt::ir::Lane<T>> : mt::math::core::ExpLimits<T> {
  using Bits = mt::ir::LaneBits<T>;
};

namespace mt::ir {

// Preferred to the functions of math.h: the same bits with fewer instructions.
template <class T> Lane<T> scaled(math::core::Exp<Lane<T>> e, Lane<T>) {
  const T zero_exponent = math::core::Real<T>::round + (sizeof(T) == 4 ? 254 : 0);
  return scale(math::core::flush_underflow(e.n, Lane<T>(1) + e.q), e.n - Lane<T>(zero_exponent));
}
template <class T> Lane<T> scaled_by(Lane<T> y, Lane<T> n, Lane<T>) {
  return scale(math::core::flush_underflow(n, y), n - Lane<T>(math::core::Real<T>::round + 254));
}
template <class T> Lane<T> limit(Lane<T> x, Lane<T> max) {
  const Lane<T> low = select(x > max, max, x);
  return select(low < -max, -max, low);
}
template <class T> Lane<T> if_minus(Lane<T> x, Lane<T> yes, Lane<T> no) {
  return select(less(to_bits(x), LaneBits<T>(0)), yes, no);
}

}  // namespace mt::ir
