// tree.h -- reductions by a function of two numbers: mt.reduce
#pragma once
#include <functional>

#include "engine/compiler/program/builder.h"
#include "engine/core/tensor.h"

namespace mt::ir {

/// A program of two inputs and one result combines neighbours along `dim` (at least one), level by level,
/// until one is left: [.., 1, ..]; an element without a neighbour is passed on unchanged. On the CPU in
/// blocks (kernels/tree.h); elsewhere, and while a step is recorded, one operation per level. The dtype is
/// that of `apply`; 16-bit floats are reduced in float32. Gradients of every order are recorded.
Tensor reduce_pairs(const Expression& pair, const Tensor& x, int dim, const double* numbers);

/// The same with any function of two tensors.
using Pair = std::function<Tensor(const Tensor&, const Tensor&)>;
Tensor reduce_pairs(const Pair&, const Tensor& x, int dim);

}  // namespace mt::ir
