// checks.h -- checks of the tensors that operations get
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// Refuses tensors on two devices.
void check_together(const char* operation, const Tensor& x, const Tensor& y);
/// Throws for non-float dtypes; `what` begins the sentence, `name` is the tensor in the advice.
void check_float(const char* operation, const Tensor&, const char* what = "the input is",
                 const char* name = "x");
/// Throws for dtypes that are not integer, and for bool.
void check_integers(const char* operation, const Tensor&, const char* what, const char* name);
/// Throws for a defined tensor whose shape is not this one or whose device is not x's.
void check_beside(const char* operation, const char* what, const Tensor&, const Tensor& x,
                  const Shape&);

}  // namespace mt
