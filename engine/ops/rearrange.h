// rearrange.h -- the same elements rearranged: turned, repeated, padded, cut to triangles
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

/// A copy with these dimensions reversed.
Tensor flip(const Tensor&, const Dims& dims);
/// Shifts along dimensions; what leaves at the end comes back at the beginning. Without dims of the
/// flattened tensor.
Tensor roll(const Tensor&, const Shape& shifts, const Dims& dims);
/// A quarter turn, k times, from dimension a towards b.
Tensor rot90(const Tensor&, int64_t k = 1, Dim a = 0, Dim b = 1);
/// The tensor repeated along each dimension; missing repeats or dimensions are 1, in front.
Tensor tile(const Tensor&, const Shape& repeats);
/// Each position repeated; of the flattened tensor without dim.
Tensor repeat_interleave(const Tensor&, int64_t repeats, std::optional<Dim> dim = {});
Tensor repeat_interleave(const Tensor&, const Tensor& repeats, std::optional<Dim> dim = {});
/// A matrix, or batches, with zeros above (triu: below) a diagonal; 1 is the one above the main one.
Tensor tril(const Tensor&, int64_t diagonal = 0);
Tensor triu(const Tensor&, int64_t diagonal = 0);
/// 1-d: the matrix with this diagonal. 2-d: its diagonal.
Tensor diag(const Tensor&, int64_t offset = 0);
/// Row and column positions of a triangle, (2 x n), row by row.
Tensor triangle_indices(bool lower, int64_t rows, int64_t columns, int64_t offset = 0);

enum class Padding { constant, reflect, replicate, circular };
constexpr std::array<const char*, 4> names_of(Padding) {
  return {"constant", "reflect", "replicate", "circular"};
}
/// `sides` as in PyTorch: (before, after) of the last dimension, then of the one before it, ...;
/// negative sides cut off.
Tensor pad(const Tensor&, const std::vector<int64_t>& sides, Padding = Padding::constant,
           double value = 0);

/// (.., c r^2, h, w) as (.., c, h r, w r).
Tensor pixel_shuffle(const Tensor& x, int64_t factor);
/// (.., c, h r, w r) as (.., c r^2, h, w).
Tensor pixel_unshuffle(const Tensor& x, int64_t factor);
/// The channels (dimension 1) dealt out to groups in turn.
Tensor channel_shuffle(const Tensor& x, int64_t groups);

/// As numpy's: joined along the first dimension, the second (of 1-d the first), the third, as columns; 1-d tensors
/// are rows in vstack.
Tensor vstack(const TensorList&);
Tensor hstack(const TensorList&);
Tensor dstack(const TensorList&);
Tensor column_stack(const TensorList&);

}  // namespace mt
