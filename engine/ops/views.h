// views.h -- the same elements in other shapes: views, except where reshape and cat must copy
#pragma once
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

Tensor view(const Tensor&, const Shape&);
Tensor reshape(const Tensor&, const Shape&);
Tensor flatten(const Tensor&, int64_t first = 0, int64_t last = -1);
Tensor permute(const Tensor&, const Shape& dims);
Tensor transpose(const Tensor&, int64_t a, int64_t b);
Tensor t(const Tensor&);
/// -1 keeps a size.
Tensor expand(const Tensor&, const Shape&);
Tensor squeeze(const Tensor&);
Tensor squeeze(const Tensor&, int64_t dim);
Tensor unsqueeze(const Tensor&, int64_t dim);
/// Elements first, first + step, .. (n of them) of one dimension.
Tensor slice(const Tensor&, int64_t dim, int64_t first, int64_t n, int64_t step = 1);
/// One position of a dimension, which goes away.
Tensor pick(const Tensor&, int64_t dim, int64_t index);
Tensor cat(const std::vector<Tensor>&, int64_t dim = 0);
Tensor stack(const std::vector<Tensor>&, int64_t dim = 0);

}  // namespace mt
