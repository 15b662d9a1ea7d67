// embedding.h -- rows of a table by ids: embeddings, bags of them, one-hot
#pragma once
#include <array>
#include <optional>

#include "engine/ops/gather_scatter.h"

namespace mt {

/// Rows of weight by ids; the row `padding` gets no gradient.
Tensor embedding(const Index& ids, const Tensor& weight, std::optional<Position> padding = {});
enum class Bag { mean, sum, max };
constexpr std::array<const char*, 3> names_of(Bag) { return {"mean", "sum", "max"}; }
/// Sums, means or maxima of the rows of weight over bags of ids: the rows of 2-d ids, or parts of
/// 1-d ids, each of which begins at its offset (with `include_last` the last offset is the end of
/// the last bag). per_sample: factors for a sum. Empty bags are 0.
Tensor embedding_bag(const Index& ids, const Tensor& weight,
                     const std::optional<Index>& offsets = {}, Bag mode = Bag::mean,
                     const Tensor& per_sample = {}, bool include_last = false,
                     std::optional<Position> padding = {});
/// int64 zeros with a one at each id; default classes: the largest id.
Tensor one_hot(const Index& ids, std::optional<int64_t> classes = {});

}  // namespace mt
