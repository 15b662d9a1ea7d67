// views_split.h -- more views: split dimensions, lists of parts, diagonals, windows, any strides
#pragma once
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

/// Splits a dimension into several; one of the sizes may be -1.
Tensor unflatten(const Tensor&, Dim dim, const Shape& sizes);
/// Moves dimensions to other positions; the others keep their order.
Tensor movedim(const Tensor&, const Dims& from, const Dims& to);
/// Removes those of the dimensions whose size is 1.
Tensor squeeze(const Tensor&, const Dims& dims);
/// Inserts dimensions of size 1 at these positions of the result.
Tensor unsqueeze(const Tensor&, const Dims& dims);
/// A tensor with at least `dims` dimensions, as NumPy's atleast_1d, atleast_2d, atleast_3d.
Tensor at_least(const Tensor&, int dims);
/// Parts of `size` positions, of which the last may be smaller, or parts of the given sizes.
TensorList split(const Tensor&, int64_t size, Dim dim = 0);
TensorList split(const Tensor&, const std::vector<int64_t>& sizes, Dim dim = 0);
/// At most n parts of equal size; the last may be smaller.
TensorList chunk(const Tensor&, int64_t n, Dim dim = 0);
/// n parts along a dimension; the first ones are larger by one if n does not divide its size.
TensorList tensor_split(const Tensor&, int64_t n, Dim dim = 0);
/// Parts that begin at the first position and at the given ones, which are clamped to the size.
TensorList tensor_split(const Tensor&, const std::vector<int64_t>& begins, Dim dim = 0);
/// The slices at each position of a dimension, which is removed.
TensorList unbind(const Tensor&, Dim dim = 0);
/// Expands all tensors to their common broadcast shape.
TensorList broadcast_tensors(const TensorList&);
/// Each 1-d tensor varies along its own dimension; `xy` swaps the first two.
TensorList meshgrid(const TensorList&, bool xy = false);
/// The elements whose position along b is that along a plus the offset, as a last dimension.
Tensor diagonal(const Tensor&, int64_t offset = 0, Dim a = 0, Dim b = 1);
/// Zeros with x's last dimension on the diagonal of the result's dimensions a and b.
Tensor diag_embed(const Tensor&, int64_t offset = 0, Dim a = -2, Dim b = -1);
/// All windows of `size` positions with stride `step`; the last dimension is within a window.
Tensor unfold(const Tensor&, Dim dim, int64_t size, int64_t step);
/// A view of the storage with any sizes and strides that stay in bounds.
Tensor as_strided(const Tensor&, const Shape& size, const Shape& stride, int64_t offset);
/// A 1-d view of all elements of the storage.
Tensor storage_of(const Tensor&);

}  // namespace mt
