// apply.h -- expression programs on tensors: dtypes, broadcasting, the verb, the recorded gradient
#pragma once
#include <vector>

#include "engine/compiler/program/builder.h"
#include "engine/core/tensor.h"

namespace mt::ir {

/// The dtype in which a program computes its numbers, from inputs and parameters. A 0-d tensor
/// ranks below others, as in PyTorch.
Dtype computing_dtype(const Expression&, const std::vector<Tensor>& inputs, const double* numbers);

/// Every result of the program for inputs, on one device, of any shapes that broadcast together. Their
/// dtype is the promoted one of the inputs, or the default float for integers unless the program has
/// only integers; bools are bool. `numbers` are its parameters. Gradients of every order are recorded.
std::vector<Tensor> apply(const Expression&, const char* name, const std::vector<Tensor>& inputs,
                          const double* numbers);

/// The same for inputs in `dtype` that have the shape of `space`.
std::vector<Tensor> apply_in(const Expression&, const char* name, const std::vector<Tensor>& inputs,
                             Dtype dtype, const Shape& space, const Device& device,
                             const double* numbers);

/// The same, one operation after the other, each with its own gradient: for a program that is too
/// large for devices, or whose gradient is.
std::vector<Tensor> apply_each(const Expression&, const std::vector<Tensor>& inputs, Dtype dtype,
                               const Shape& space, const double* numbers);

}  // namespace mt::ir
