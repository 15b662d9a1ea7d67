// moments.h -- mean and variance of elements whose mean was rounded
#pragma once
#include <type_traits>

#include "kernels/reductions.h"

namespace mt::op {
inline namespace MT_ISA {

/// Whether a mean that was summed in double is rounded more than elements T are.
template <class T> constexpr bool kRoundedMean = std::is_same_v<T, double>;

/// Of n elements whose deviations from the mean, and their squares, have these sums. What a rounded mean
/// lacks is taken out: equal elements have that mean, and variance 0.
template <class T> MT_HD Moments moments(double n, double mean, double sum, double squares) {
  const double lack = sum / n;
  if (!kRoundedMean<T> || !(math::fabs(lack) < math::kInfinity)) return {n, mean, squares};
  squares -= sum * lack;
  return {n, mean + lack, squares < 0 ? 0.0 : squares};
}

}  // namespace MT_ISA
}  // namespace mt::op
