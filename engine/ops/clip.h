// clip.h -- gradient clipping by norm and by value
#pragma once

#include "engine/core/tensor.h"

namespace mt {

/// Scales the gradients so that their p-norm, taken as one vector, is at most `most`; returns the
/// norm before, 0-d. `finite`: throws Error for an infinite or NaN norm, which synchronises with
/// the device; otherwise nothing does. As torch.nn.utils.clip_grad_norm_.
Tensor clip_grad_norm_(const TensorList& parameters, double most, double p = 2,
                       bool finite = false);
/// Clamps every element of the gradients to -most..most.
void clip_grad_value_(const TensorList& parameters, double most);

}  // namespace mt
