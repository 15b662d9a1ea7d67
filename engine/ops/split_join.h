// split_join.h -- combining tensors, and writing to regions of a copy
#pragma once
#include "engine/ops/gather_scatter.h"

namespace mt {

/// A block-diagonal matrix; a vector is a row, a number a 1 x 1 matrix.
Tensor block_diag(const TensorList&);
/// The Cartesian product of vectors, as rows; the last element changes fastest.
Tensor cartesian_prod(const TensorList&);
/// The combinations of r elements of a vector, in order, as rows.
Tensor combinations(const Tensor&, int64_t r = 2, bool with_replacement = false);

/// A copy of x with `source`, which must have the region's shape, at a position, at a range of
/// positions, or on the diagonal.
Tensor select_scatter(const Tensor& x, const Tensor& source, Dim dim, Position index);
Tensor slice_scatter(const Tensor& x, const Tensor& source, const At* items, int n);
Tensor diagonal_scatter(const Tensor& x, const Tensor& source, int64_t offset = 0, Dim a = 0,
                        Dim b = 1);

/// The coordinates, one tensor per dimension of `shape`, of positions in the flattened tensor; both
/// count from the same number.
TensorList unravel_index(const Index&, const Shape& shape);

}  // namespace mt
