// softmax.h -- softmax and its logarithm
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// exp(x) / sum(exp(x)) along a dimension; a line of -infinity alone is NaN.
Tensor softmax(const Tensor&, Dim dim);
/// log(softmax(x)), exact far out.
Tensor log_softmax(const Tensor&, Dim dim);

}  // namespace mt
