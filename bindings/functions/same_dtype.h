// same_dtype.h -- what learned weights are applied to has their dtype, as in PyTorch
#pragma once

#include "engine/core/tensor.h"

namespace mt::lua {

/// Refuses an input of another dtype than the weight's, where that is of floats. Products of any two tensors are
/// promoted; of a weight that would make a whole network compute in the input's dtype unnoticed.
inline void check_same_dtype(const Tensor& input, const Tensor& weight) {
  if (!input.defined() || !weight.defined() || input.dtype() == weight.dtype()) return;
  if (!is_float(weight.dtype())) return;
  const char *from = dtype_name(input.dtype()), *to = dtype_name(weight.dtype());
  if (is_float(input.dtype()))
    fail("the input is {}, the weight {}; use x:to('{}'), or net:to('{}')", from, to, to, from);
  fail("the input is {}, the weight {}; use x:to('{}')", from, to, to);
}

}  // namespace mt::lua
