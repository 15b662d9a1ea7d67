// scan.h -- sums, products and extremes of all elements so far along a dimension
#pragma once
#include "engine/ops/reduce.h"

namespace mt {

Tensor cumsum(const Tensor&, int64_t dim);
Tensor cumprod(const Tensor&, int64_t dim);
/// log(cumsum(exp(x))), without overflow.
Tensor logcumsumexp(const Tensor&, int64_t dim);
/// The extreme so far and the position of its last occurrence; NaN stays.
ValuesIndices cummax(const Tensor&, int64_t dim);
ValuesIndices cummin(const Tensor&, int64_t dim);
/// The differences of neighbours along a dimension, n times; of bools whether they differ.
Tensor diff(const Tensor&, int64_t n = 1, int64_t dim = -1);

}  // namespace mt
