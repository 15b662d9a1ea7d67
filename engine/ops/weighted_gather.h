// weighted_gather.h -- sums of weighted elements along a dimension, for grid_sample and resizing
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// out[b, c, p, i] = sum over k of x[b, c, at[b, k, p], i] * weight[b, k, p]; a negative `at`
/// (int64, below x's size) adds nothing. If the weight has a gradient, i has size 1.
Tensor weighted_gather(const Tensor& x, const Tensor& at, const Tensor& weight);
/// The same along dimension `dim` of x, with the same number of positions and weights for each of
/// the `size` results, [.., size] on the CPU, shared by all lines.
Tensor gather_along(const Tensor& x, int dim, int64_t size, const Tensor& at, const Tensor& weight);

}  // namespace mt
