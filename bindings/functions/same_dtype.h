// same_dtype.h -- inputs must have the dtype of learned weights, as in PyTorch
#pragma once

#include "engine/core/tensor.h"

namespace mt::lua {

/// Throws Error for an input with another dtype than a float weight. Other products are promoted;
/// with a weight, promotion would make a whole network compute in the input's dtype unnoticed.
inline void check_same_dtype(const Tensor& input, const Tensor& weight) {
  if (!input.defined() || !weight.defined() || input.dtype() == weight.dtype()) return;
  if (!is_float(weight.dtype())) return;
  const char *from = dtype_name(input.dtype()), *to = dtype_name(weight.dtype());
  if (is_float(input.dtype()))
    fail("the input is {}, the weight {}; use x:to('{}'), or net:to('{}')", from, to, to, from);
  fail("the input is {}, the weight {}; use x:to('{}')", from, to, to);
}

}  // namespace mt::lua
