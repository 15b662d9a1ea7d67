// reduce.h -- reductions of tensors, over `dims` or over all when it is empty
#pragma once
#include <optional>

#include "engine/core/tensor.h"

namespace mt {

/// Values and where they stood: the results of functions that choose elements.
struct ValuesIndices {
  Tensor values, index;
};

Tensor sum(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor mean(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor prod(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor amax(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor amin(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor all(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor any(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor count_nonzero(const Tensor&, const Shape& dims = {}, bool keepdim = false);
/// log(sum(exp(x))), without overflow.
Tensor logsumexp(const Tensor&, const Shape& dims = {}, bool keepdim = false);
/// Positions of the first largest or smallest; without `dim` counted through the whole tensor.
Tensor argmax(const Tensor&, std::optional<int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor&, std::optional<int64_t> dim = {}, bool keepdim = false);
/// The first largest or smallest along a dimension, with its position.
ValuesIndices max_along(const Tensor&, int64_t dim, bool keepdim = false);
ValuesIndices min_along(const Tensor&, int64_t dim, bool keepdim = false);
/// Sums what broadcasting repeated, so that the result has this shape.
Tensor sum_to(const Tensor&, const Shape&);

}  // namespace mt
