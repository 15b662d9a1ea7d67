// dropout.h -- dropout of elements and of channels; rrelu and glu, activations that are no elementwise formulas
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// x with elements zeroed with probability p and the others scaled by 1 / (1 - p); dropout_ in place. Without
/// `training` x itself.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
const Tensor& dropout_(const Tensor& x, double p = 0.5, bool training = true);
/// dropout of whole channels of 1, 2 or 3 spatial dimensions.
Tensor feature_dropout(const char* name, int spatial, const Tensor& x, double p = 0.5,
                       bool training = true);
/// Elements dropped to where selu is flat, mean and variance kept (Klambauer et al. 2017).
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);
/// alpha_dropout of whole channels of (batch, channels, ..).
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);
/// leaky_relu whose slope is drawn from lower..upper for each element, or their mean (Xu et al. 2015).
Tensor rrelu(const Tensor& x, double lower = 1. / 8, double upper = 1. / 3, bool training = false);
/// One half of a dimension times the sigmoid of the other.
Tensor glu(const Tensor& x, Dim dim = -1);

}  // namespace mt
