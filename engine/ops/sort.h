// sort.h -- functions based on sorting: sort, the k-th element, quantiles, unique
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "engine/ops/reduce.h"

namespace mt {

/// Sorts stably along a dimension; NaN is the largest.
ValuesIndices sort(const Tensor&, Dim dim = -1, bool descending = false);
/// The k largest (or smallest) elements in order.
ValuesIndices topk(const Tensor&, int64_t k, Dim dim = -1, bool largest = true);
/// The k-th smallest element; k counts from 1.
ValuesIndices kthvalue(const Tensor&, int64_t k, Dim dim = -1, bool keepdim = false);
/// The lower of the two middle elements; NaN if there is a NaN.
ValuesIndices median(const Tensor&, Dim dim, bool keepdim = false);
/// The median of all elements; elements equal to it share the gradient.
Tensor median(const Tensor&);
/// The same, ignoring NaNs.
ValuesIndices nanmedian(const Tensor&, Dim dim, bool keepdim = false);
Tensor nanmedian(const Tensor&);
/// The smallest of the most frequent values, and its last position.
ValuesIndices mode(const Tensor&, Dim dim = -1, bool keepdim = false);

enum class QuantileRule { linear, lower, higher, midpoint, nearest };
constexpr std::array<const char*, 5> names_of(QuantileRule) {
  return {"linear", "lower", "higher", "midpoint", "nearest"};
}
/// The quantiles `q` (0..1) along `dim` or of all elements, stacked along a new first dimension.
/// NaN is propagated, or skipped. `fractions` is q as a tensor, if it has a gradient.
Tensor quantile(const Tensor&, const std::vector<double>& q, std::optional<Dim> dim = {},
                bool keepdim = false, QuantileRule = QuantileRule::linear, bool skip_nan = false,
                const Tensor& fractions = {});

struct Unique {
  Tensor values;
  Tensor inverse;  // the position in `values` of each element of x
  Tensor counts;
};
/// Each value once, in order. With `dim`: each slice once. `consecutive`: merges only equal
/// neighbours, without sorting.
Unique unique(const Tensor&, std::optional<Dim> dim = {}, bool consecutive = false);

}  // namespace mt
