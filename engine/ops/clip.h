// clip.h -- gradients of many parameters held within a norm or a range
#pragma once

#include "engine/core/tensor.h"

namespace mt {

/// Scales the gradients of the parameters so that their p-norm, all taken as one vector, is at most
/// `most`; returns the norm before, 0-d. `finite`: an Error where it is infinite or NaN, which waits
/// for the device; else nothing does. As torch.nn.utils.clip_grad_norm_.
Tensor clip_grad_norm_(const TensorList& parameters, double most, double p = 2,
                       bool finite = false);
/// Holds every element of the gradients within +-most.
void clip_grad_value_(const TensorList& parameters, double most);

}  // namespace mt
