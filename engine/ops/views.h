// views.h -- tensors in other shapes: views, except where reshape, cat and stack copy
//
// A view shares its tensor's storage: changes in place are visible in both, with correct gradients.
#pragma once

#include "engine/core/tensor.h"

namespace mt {

/// Another shape with the same number of elements; one size may be -1. Throws if it needs a copy.
Tensor view(const Tensor&, const Shape&);
/// The same, with a copy if necessary.
Tensor reshape(const Tensor&, const Shape&);
/// Merges the dimensions first to last.
Tensor flatten(const Tensor&, Dim first = 0, Dim last = -1);
/// Permutes all dimensions to this order.
Tensor permute(const Tensor&, const Dims& dims);
/// Swaps two dimensions.
Tensor transpose(const Tensor&, Dim a, Dim b);
/// The transpose of a matrix; 1-d and 0-d tensors are unchanged.
Tensor t(const Tensor&);
/// Broadcasts dimensions of size 1 to these sizes, with new ones in front; -1 keeps a size.
Tensor expand(const Tensor&, const Shape&);
/// Removes the dimensions of size 1; the second removes `dim` if its size is 1.
Tensor squeeze(const Tensor&);
Tensor squeeze(const Tensor&, Dim dim);
/// Inserts a dimension of size 1, which is `dim` of the result.
Tensor unsqueeze(const Tensor&, Dim dim);
/// Elements first, first + step, .. (n of them) of one dimension, which must be in bounds.
Tensor slice(const Tensor&, Dim dim, int64_t first, int64_t n, int64_t step = 1);
/// Selects one position of a dimension, which is removed: torch.select.
Tensor pick(const Tensor&, Dim dim, Position index);
/// Concatenates tensors along a dimension; the other sizes are equal.
Tensor cat(const TensorList&, Dim dim = 0);
/// Stacks tensors of one shape along a new dimension.
Tensor stack(const TensorList&, Dim dim = 0);

}  // namespace mt
