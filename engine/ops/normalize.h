// normalize.h -- normalisation layers: mean 0 and variance 1 over some dimensions
#pragma once
#include <optional>

#include "engine/core/tensor.h"

namespace mt {

/// Normalises over the last dimensions, of sizes `shape`; weight and bias have that shape or are
/// undefined.
Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// x / sqrt(mean of squares + eps) over the last dimensions.
Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                std::optional<double> eps = {});
/// Normalises over all dimensions except channels (dimension 1). Training uses the statistics of
/// the batch and updates the running ones in place; otherwise the running ones are used.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                  double momentum = 0.1, double eps = 1e-5);
/// The same for each image separately.
Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {},
                     const Tensor& running_var = {}, const Tensor& weight = {},
                     const Tensor& bias = {}, bool use_input_stats = true, double momentum = 0.1,
                     double eps = 1e-5);
/// Normalises over each of `groups` groups of channels of each image.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

}  // namespace mt
