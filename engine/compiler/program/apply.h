// apply.h -- expression programs on tensors: dtypes, broadcasting, the verb, the recorded gradient
#pragma once
#include <functional>
#include <vector>

#include "engine/compiler/program/builder.h"
#include "engine/core/tensor.h"

namespace mt::ir {

/// The dtype in which a program computes its numbers, from its inputs and parameters. A 0-d tensor changes it only if
/// its category (bool, integer, float) is higher than that of the others, as in PyTorch.
Dtype computing_dtype(const Expression&, const std::vector<Tensor>& inputs, const double* numbers);

/// All results of the program for inputs on one device whose shapes broadcast together. Their dtype is
/// the promoted one of the inputs, or the default float for integers unless the program has
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

// ---- reductions by a function of two numbers : mt.reduce --------------------------------

/// A program of two inputs and one result combines neighbours along `dim` (at least one), level by level,
/// until one is left: [.., 1, ..]; an element without a neighbour is passed on unchanged. On the CPU in
/// blocks (kernels/tree.h); elsewhere, and while a step is recorded, one operation per level. The dtype is
/// that of `apply`; 16-bit floats are reduced in float32. Gradients of every order are recorded.
Tensor reduce_pairs(const Expression& pair, const Tensor& x, int dim, const double* numbers);

/// The same with any function of two tensors.
using Pair = std::function<Tensor(const Tensor&, const Tensor&)>;
Tensor reduce_pairs(const Pair&, const Tensor& x, int dim);

}  // namespace mt::ir
