// split_join.h -- tensors cut at places, put together from others, or written into at a region
#pragma once
#include <vector>

#include "engine/ops/gather_scatter.h"

namespace mt {

/// n parts along a dimension, the first ones longer by one where n does not divide its size.
TensorList tensor_split(const Tensor&, int64_t n, Dim dim = 0);
/// Parts that begin at the first position and at these; one that lies outside is held at the end.
TensorList tensor_split(const Tensor&, const std::vector<int64_t>& begins, Dim dim = 0);

/// Matrices along the diagonal of zeros; a vector is a row, a number a 1 x 1 matrix.
Tensor block_diag(const TensorList&);
/// The rows of all combinations of an element of each vector, the last one changing first.
Tensor cartesian_prod(const TensorList&);
/// The choices of r elements of a vector, in order, as rows.
Tensor combinations(const Tensor&, int64_t r = 2, bool with_replacement = false);

/// A copy of x with `source`, whose shape must be the region's, at a position, at a range of them, or
/// on the diagonal.
Tensor select_scatter(const Tensor& x, const Tensor& source, Dim dim, Position index);
Tensor slice_scatter(const Tensor& x, const Tensor& source, const At* items, int n);
Tensor diagonal_scatter(const Tensor& x, const Tensor& source, int64_t offset = 0, Dim a = 0,
                        Dim b = 1);

/// For each dimension of `shape` the positions, counted as the index's, of elements of the
/// flattened tensor.
TensorList unravel_index(const Index&, const Shape& shape);

}  // namespace mt
