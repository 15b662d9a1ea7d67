// checks.h -- what operations refuse in the tensors that they are given
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// Tensors on two devices.
void check_together(const char* operation, const Tensor& x, const Tensor& y);
/// What has no fractions; `what` begins the sentence, `name` is the tensor's in the cure.
void check_float(const char* operation, const Tensor&, const char* what = "the input is",
                 const char* name = "x");
/// What is not of whole numbers, bool too.
void check_integers(const char* operation, const Tensor&, const char* what, const char* name);
/// Of what stands beside x, and may be undefined, another shape than this, or another device.
void check_beside(const char* operation, const char* what, const Tensor&, const Tensor& x,
                  const Shape&);

}  // namespace mt
