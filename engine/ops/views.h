// views.h -- tensors in other shapes: views, except where reshape, cat and stack copy
//
// A view shares its tensor's storage: changes in place are visible in both, with correct gradients.
#pragma once
#include <algorithm>
#include <vector>

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

// ---- parts, diagonals, windows, any strides ----------------------------------------------------

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

// ---- vectors along one dimension, in shapes that broadcast with a tensor (along.cpp) ------------

/// The shape with `rank` dimensions that is n in dimension d and 1 in the others.
inline Shape sizes_along(int rank, int d, int64_t n) {
  Shape shape;
  for (int k = 0; k < rank; ++k) shape.push(k == d ? n : 1);
  return shape;
}

/// Views a vector (may be undefined) as [channels x 1 ..], which broadcasts with x.
inline Tensor by_channel(const Tensor& t, const Tensor& x) {
  if (!t.defined()) return t;
  return reshape(t, sizes_along(std::max(x.dim() - 1, 1), 0, t.numel()));
}

}  // namespace mt
