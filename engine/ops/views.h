// views.h -- the same elements in other shapes: views, except where reshape and cat must copy
#pragma once

#include "engine/core/tensor.h"

namespace mt {

Tensor view(const Tensor&, const Shape&);
Tensor reshape(const Tensor&, const Shape&);
Tensor flatten(const Tensor&, Dim first = 0, Dim last = -1);
Tensor permute(const Tensor&, const Dims& dims);
Tensor transpose(const Tensor&, Dim a, Dim b);
Tensor t(const Tensor&);
/// -1 keeps a size.
Tensor expand(const Tensor&, const Shape&);
Tensor squeeze(const Tensor&);
Tensor squeeze(const Tensor&, Dim dim);
Tensor unsqueeze(const Tensor&, Dim dim);
/// Elements first, first + step, .. (n of them) of one dimension.
Tensor slice(const Tensor&, Dim dim, int64_t first, int64_t n, int64_t step = 1);
/// One position of a dimension, which goes away.
Tensor pick(const Tensor&, Dim dim, Position index);
Tensor cat(const TensorList&, Dim dim = 0);
Tensor stack(const TensorList&, Dim dim = 0);

}  // namespace mt
