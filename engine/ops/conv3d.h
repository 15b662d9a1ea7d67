// conv3d.h -- volumes as images: what three-dimensional convolutions are made of
//
// The windows of a volume along its depth become images whose channels are the window's slices;
// conv2d sums over them as over other channels.
#pragma once
#include "engine/ops/conv.h"

namespace mt {

/// x (n, c, depth, h, w) as (n * d.out, c * d.kernel, h, w): for each window along the depth its
/// slices, zeros outside. Differentiable; d.dilation and d.stride are positive.
Tensor depth_windows(const Tensor& x, const Window& d);
/// The gradient of depth_windows as an operation: the sum of all slices at their places in n volumes.
Tensor depth_sums(const Tensor& slices, const Window& d, int64_t n);

}  // namespace mt
