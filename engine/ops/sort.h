// sort.h -- functions that need an order: sorting, the k-th element, equal elements
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "engine/ops/reduce.h"

namespace mt {

/// Along a dimension, stable; NaN is the largest.
ValuesIndices sort(const Tensor&, Dim dim = -1, bool descending = false);
/// The k largest (or smallest) in order.
ValuesIndices topk(const Tensor&, int64_t k, Dim dim = -1, bool largest = true);
/// The k-th smallest, k from 1.
ValuesIndices kthvalue(const Tensor&, int64_t k, Dim dim = -1, bool keepdim = false);
/// The lower of the two in the middle; NaN wins.
ValuesIndices median(const Tensor&, Dim dim, bool keepdim = false);
/// Of everything; elements equal to it share the gradient.
Tensor median(const Tensor&);
/// The same without the NaNs.
ValuesIndices nanmedian(const Tensor&, Dim dim, bool keepdim = false);
Tensor nanmedian(const Tensor&);
/// The smallest of the most frequent values, and where it stands last.
ValuesIndices mode(const Tensor&, Dim dim = -1, bool keepdim = false);

enum class QuantileRule { linear, lower, higher, midpoint, nearest };
constexpr std::array<const char*, 5> names_of(QuantileRule) {
  return {"linear", "lower", "higher", "midpoint", "nearest"};
}
/// The elements at the fractions `q` (0..1) of the sorted order, one answer for each along a new
/// first dimension. Without `dim` of everything. NaN wins, or is left out. `fractions` is q as a
/// tensor, where it has a gradient.
Tensor quantile(const Tensor&, const std::vector<double>& q, std::optional<Dim> dim = {},
                bool keepdim = false, QuantileRule = QuantileRule::linear, bool skip_nan = false,
                const Tensor& fractions = {});

struct Unique {
  Tensor values;
  Tensor inverse;  // for each element of x the position of its value
  Tensor counts;
};
/// Each value once, in order. With `dim`: each slice once. `consecutive`: only neighbours that are
/// equal become one, and nothing is sorted.
Unique unique(const Tensor&, std::optional<Dim> dim = {}, bool consecutive = false);

}  // namespace mt
