// distance.h -- norms of the differences of all pairs of rows
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// Maps (.., m, d) and (.., n, d) to the p-norms of all differences, (.., m, n). The gradient at
/// distance 0 is 0.
Tensor cdist(const Tensor&, const Tensor&, double p = 2);

}  // namespace mt
