// moments.h -- mean and variance of elements when the mean was rounded
#pragma once
#include <type_traits>

#include "kernels/reductions.h"

namespace mt::op {
inline namespace MT_ISA {

/// Whether a mean that was summed in double is rounded more than elements T are.
template <class T> constexpr bool kRoundedMean = std::is_same_v<T, double>;

/// The moments of n elements, from the sums of their deviations from `mean` and of the squares of these.
/// The rounding error of the mean is corrected: equal elements have their value as mean, and variance 0.
template <class T> MT_HD Moments moments(double n, double mean, double sum, double squares) {
  const double mean_error = sum / n;
  if (!kRoundedMean<T> || !(math::fabs(mean_error) < math::kInfinity)) return {n, mean, squares};
  squares -= sum * mean_error;
  return {n, mean + mean_error, squares < 0 ? 0.0 : squares};
}

}  // namespace MT_ISA
}  // namespace mt::op
