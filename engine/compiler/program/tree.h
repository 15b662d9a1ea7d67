// tree.h -- reductions by a function of two numbers: mt.reduce
#pragma once
#include <functional>

#include "engine/compiler/program/builder.h"
#include "engine/core/tensor.h"

namespace mt::ir {

/// Neighbours along `dim`, at least one, become one by a program of two inputs and one result, level after
/// level, where one without a neighbour goes on as it is, until one is left: [.., 1, ..]. On the CPU in
/// blocks (kernels/tree.h); elsewhere, and where a step is recorded, an operation a level. The dtype is
/// that of `apply`; 16-bit floats are reduced in float32. Gradients of every order are recorded.
Tensor reduce_pairs(const Expression& pair, const Tensor& x, int dim, const double* numbers);

/// The same by any function of two tensors.
using Pair = std::function<Tensor(const Tensor&, const Tensor&)>;
Tensor reduce_pairs(const Pair&, const Tensor& x, int dim);

}  // namespace mt::ir
