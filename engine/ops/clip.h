// clip.h -- gradient clipping by norm and by value
#pragma once

#include "engine/core/tensor.h"

namespace mt {

/// Scales the gradients so that their p-norm, taken as one vector, is at most `max_norm`; returns
/// the norm before, 0-d. `finite`: throws Error for an infinite or NaN norm, which synchronises
/// with the device; otherwise nothing does. As torch.nn.utils.clip_grad_norm_.
Tensor clip_grad_norm_(const TensorList& parameters, double max_norm, double p = 2,
                       bool finite = false);
/// Clamps every element of the gradients to -clip_value..clip_value.
void clip_grad_value_(const TensorList& parameters, double clip_value);

}  // namespace mt
