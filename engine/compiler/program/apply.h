// apply.h -- expression programs on tensors: dtypes, broadcasting, the verb, the recorded gradient
#pragma once
#include <vector>

#include "engine/compiler/program/builder.h"
#include "engine/core/tensor.h"

namespace mt::ir {

/// The dtype that numbers are calculated in, of inputs and parameters. A 0-d tensor ranks below others, as in
/// PyTorch.
Dtype computing_dtype(const Expression&, const std::vector<Tensor>& inputs, const double* numbers);

/// Every result of the program for inputs of any shapes that broadcast together, on one device. Their
/// dtype is the inputs' promoted one, the default float for integers unless the program stays in
/// integers; bools are bool. `numbers` are its parameters. Gradients of every order are recorded.
std::vector<Tensor> apply(const Expression&, const char* name, const std::vector<Tensor>& inputs,
                          const double* numbers);

/// The same for inputs that have the shape of `space`, or of one element a row of it (its last dimension 1),
/// in `dtype`. Results that are the same in a row have one element a row.
std::vector<Tensor> apply_in(const Expression&, const char* name, const std::vector<Tensor>& inputs,
                             Dtype dtype, const Shape& space, const Device& device,
                             const double* numbers);

/// The same, an operation after the other, each with a gradient of its own: for a program that is too large
/// for devices, or has too large a gradient.
std::vector<Tensor> apply_each(const Expression&, const std::vector<Tensor>& inputs, Dtype dtype,
                               const Shape& space, const double* numbers);

}  // namespace mt::ir
