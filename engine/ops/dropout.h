// dropout.h -- dropout of elements and of channels, and the activations rrelu and glu
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// Zeroes elements of x with probability p and scales the others by 1 / (1 - p); dropout_ works in
/// place. Without `training` the result is x itself.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
const Tensor& dropout_(const Tensor& x, double p = 0.5, bool training = true);
/// Dropout of whole channels with 1, 2 or 3 spatial dimensions.
Tensor feature_dropout(const char* name, int spatial, const Tensor& x, double p = 0.5,
                       bool training = true);
/// Sets elements to the saturation value of selu; keeps mean and variance (Klambauer et al. 2017).
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);
/// alpha_dropout of whole channels of (batch, channels, ..).
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);
/// leaky_relu with a slope from lower..upper per element, or with their mean (Xu et al. 2015).
Tensor rrelu(const Tensor& x, double lower = 1. / 8, double upper = 1. / 3, bool training = false);
/// One half of a dimension times the sigmoid of the other.
Tensor glu(const Tensor& x, Dim dim = -1);

}  // namespace mt
