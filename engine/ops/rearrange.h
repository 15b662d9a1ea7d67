// rearrange.h -- elements in a different order, parts joined, and copies with a region written
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "engine/ops/gather_scatter.h"

namespace mt {

/// A copy with these dimensions reversed.
Tensor flip(const Tensor&, const Dims& dims);
/// Shifts cyclically along dimensions; without dims along the flattened tensor.
Tensor roll(const Tensor&, const Shape& shifts, const Dims& dims);
/// Rotates k times by 90 degrees, from dimension a towards b.
Tensor rot90(const Tensor&, int64_t k = 1, Dim a = 0, Dim b = 1);
/// Repeats the tensor along each dimension; missing repeats or dimensions are 1, at the front.
Tensor tile(const Tensor&, const Shape& repeats);
/// Repeats each position; without dim those of the flattened tensor.
Tensor repeat_interleave(const Tensor&, int64_t repeats, std::optional<Dim> dim = {});
Tensor repeat_interleave(const Tensor&, const Tensor& repeats, std::optional<Dim> dim = {});
/// A matrix or batches with zeros above (triu: below) a diagonal; diagonal 1 is above the main one.
Tensor tril(const Tensor&, int64_t diagonal = 0);
Tensor triu(const Tensor&, int64_t diagonal = 0);
/// 1-d: the matrix with this diagonal. 2-d: the diagonal of the matrix.
Tensor diag(const Tensor&, int64_t offset = 0);
/// The row and column positions of a triangle, (2 x n), row by row.
Tensor triangle_indices(bool lower, int64_t rows, int64_t columns, int64_t offset = 0);

enum class Padding { constant, reflect, replicate, circular };
constexpr std::array<const char*, 4> names_of(Padding) {
  return {"constant", "reflect", "replicate", "circular"};
}
/// `sides` as in PyTorch: (before, after) of the last dimension, then of the one before it, ...;
/// negative values crop.
Tensor pad(const Tensor&, const std::vector<int64_t>& sides, Padding = Padding::constant,
           double value = 0);

/// (.., c r^2, h, w) as (.., c, h r, w r).
Tensor pixel_shuffle(const Tensor& x, int64_t factor);
/// (.., c, h r, w r) as (.., c r^2, h, w).
Tensor pixel_unshuffle(const Tensor& x, int64_t factor);
/// Interleaves the channels (dimension 1) of the groups.
Tensor channel_shuffle(const Tensor& x, int64_t groups);

/// As in NumPy: concatenated along the first dimension, the second (for 1-d the first), the third,
/// or as columns; vstack handles 1-d tensors as rows.
Tensor vstack(const TensorList&);
Tensor hstack(const TensorList&);
Tensor dstack(const TensorList&);
Tensor column_stack(const TensorList&);

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
