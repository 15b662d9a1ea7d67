// views_split.h -- more views: split dimensions, lists of parts, diagonals, windows, any strides
#pragma once
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

/// One dimension seen as several; one of the sizes may be -1.
Tensor unflatten(const Tensor&, Dim dim, const Shape& sizes);
/// Dimensions moved to other places; the others keep their order.
Tensor movedim(const Tensor&, const Dims& from, const Dims& to);
/// Without those of the dimensions whose size is 1.
Tensor squeeze(const Tensor&, const Dims& dims);
/// With new dimensions of size 1 at these places of the result.
Tensor unsqueeze(const Tensor&, const Dims& dims);
/// At least so many dimensions, as numpy's atleast_1d, atleast_2d, atleast_3d.
Tensor at_least(const Tensor&, int dims);
/// Parts of `size` positions, of which the last may be smaller, or of these sizes.
TensorList split(const Tensor&, int64_t size, Dim dim = 0);
TensorList split(const Tensor&, const std::vector<int64_t>& sizes, Dim dim = 0);
/// At most n parts of equal size; the last may be smaller.
TensorList chunk(const Tensor&, int64_t n, Dim dim = 0);
/// Each position of a dimension, which goes away.
TensorList unbind(const Tensor&, Dim dim = 0);
/// All expanded to the shape that they broadcast to.
TensorList broadcast_tensors(const TensorList&);
/// Each 1-d tensor along a dimension of its own; `xy` exchanges the first two.
TensorList meshgrid(const TensorList&, bool xy = false);
/// The elements where the position along `b` is that along `a` plus the offset: a last dimension.
Tensor diagonal(const Tensor&, int64_t offset = 0, Dim a = 0, Dim b = 1);
/// Zeros whose diagonal, over the dimensions a and b of the result, is x's last dimension.
Tensor diag_embed(const Tensor&, int64_t offset = 0, Dim a = -2, Dim b = -1);
/// All windows of `size` positions, `step` apart; the positions inside are a last dimension.
Tensor unfold(const Tensor&, Dim dim, int64_t size, int64_t step);
/// The storage seen with any sizes and strides that stay inside it.
Tensor as_strided(const Tensor&, const Shape& size, const Shape& stride, int64_t offset);
/// All elements of the storage, in one dimension.
Tensor storage_of(const Tensor&);

}  // namespace mt
