// softmax.h -- softmax and log_softmax
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// exp(x) / sum(exp(x)) along a dimension; the result is NaN where all x are -infinity.
Tensor softmax(const Tensor&, Dim dim);
/// y * (g - sum(y * g)) along the last dimension: backward of y = softmax(x), without a graph.
Tensor softmax_gradient(const Tensor& y, const Tensor& g);
/// log(softmax(x)), computed stably.
Tensor log_softmax(const Tensor&, Dim dim);
/// softmax(-x).
Tensor softmin(const Tensor&, Dim dim);

}  // namespace mt
