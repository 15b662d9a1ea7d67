// weighted_gather.h -- sums of weighted elements along a dimension, and weights, for grid_sample and resizing
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// out[b, c, p, i] = sum over k of x[b, c, at[b, k, p], i] * weight[b, k, p]; a negative `at`
/// (int64, below x's size) adds nothing. If the weight has a gradient, i has size 1.
Tensor weighted_gather(const Tensor& x, const Tensor& at, const Tensor& weight);
/// The same along dimension `dim` of x, with the same number of positions and weights for each of
/// the `size` results, [.., size] on the CPU, shared by all lines.
Tensor gather_along(const Tensor& x, int dim, int64_t size, const Tensor& at, const Tensor& weight);

/// The weight of tap 0 .. 3 (Keys 1981, a = -0.75), at distances 1 + t, t, 1 - t and 2 - t.
template <class T> T cubic_weight(const T& t, int tap) {
  constexpr double a = -0.75;
  const auto near = [](const T& x) { return (x * (a + 2) - (a + 3)) * x * x + 1.0; };
  const auto far = [](const T& x) { return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a; };
  return tap == 0 ? far(t + 1.0) : tap == 1 ? near(t) : tap == 2 ? near(1.0 - t) : far(2.0 - t);
}

}  // namespace mt
