// rearrange.h -- elements in a different order, and parts joined
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

/// (.., c r s, h, w) as (.., c, h r, w s), and the opposite, of sizes that are multiples.
Tensor depth_to_space(const Tensor& x, int64_t r, int64_t s);
Tensor space_to_depth(const Tensor& x, int64_t r, int64_t s);
/// (.., c r^2, h, w) as (.., c, h r, w r).
Tensor pixel_shuffle(const Tensor& x, int64_t factor);
/// (.., c, h r, w r) as (.., c r^2, h, w).
Tensor pixel_unshuffle(const Tensor& x, int64_t factor);

/// As in NumPy: concatenated along the first dimension, or the second (for 1-d the first); vstack
/// handles 1-d tensors as rows.
Tensor vstack(const TensorList&);
Tensor hstack(const TensorList&);

/// The coordinates, one tensor per dimension of `shape`, of positions in the flattened tensor; both
/// count from the same number.
TensorList unravel_index(const Index&, const Shape& shape);

}  // namespace mt
