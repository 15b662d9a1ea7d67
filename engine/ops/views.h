// views.h -- the same elements in other shapes: views, except where reshape, cat and stack copy
//
// A view shares its tensor's memory: changes in place are seen in both, with right gradients.
#pragma once

#include "engine/core/tensor.h"

namespace mt {

/// In another shape of as many elements; one size may be -1. Refuses layouts that only a copy gives.
Tensor view(const Tensor&, const Shape&);
/// The same, by a copy where need be.
Tensor reshape(const Tensor&, const Shape&);
/// Dimensions first to last as one.
Tensor flatten(const Tensor&, Dim first = 0, Dim last = -1);
/// All dimensions in this order.
Tensor permute(const Tensor&, const Dims& dims);
/// Two dimensions exchanged.
Tensor transpose(const Tensor&, Dim a, Dim b);
/// A matrix transposed; of 1-d and 0-d the same.
Tensor t(const Tensor&);
/// Dimensions of size 1 repeated to these sizes, with new ones in front; -1 keeps a size.
Tensor expand(const Tensor&, const Shape&);
/// Without the dimensions of size 1; the second without `dim`, if its size is 1.
Tensor squeeze(const Tensor&);
Tensor squeeze(const Tensor&, Dim dim);
/// With a new dimension of size 1, which is `dim` of the result.
Tensor unsqueeze(const Tensor&, Dim dim);
/// Elements first, first + step, .. (n of them) of one dimension, which must lie inside.
Tensor slice(const Tensor&, Dim dim, int64_t first, int64_t n, int64_t step = 1);
/// One position of a dimension, which goes away: torch.select.
Tensor pick(const Tensor&, Dim dim, Position index);
/// Tensors one after the other along a dimension; the other sizes are equal.
Tensor cat(const TensorList&, Dim dim = 0);
/// Tensors of one shape side by side along a new dimension.
Tensor stack(const TensorList&, Dim dim = 0);

}  // namespace mt
