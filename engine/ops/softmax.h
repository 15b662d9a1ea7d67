// softmax.h -- softmax and its logarithm
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// exp(x) / sum(exp(x)) along a dimension; a line of -infinity alone is NaN.
Tensor softmax(const Tensor&, Dim dim);
/// y * (g - sum(y * g)) along the last dimension: the gradient through y = softmax(x), outside the graph.
Tensor softmax_gradient(const Tensor& y, const Tensor& g);
/// log(softmax(x)), exact far out.
Tensor log_softmax(const Tensor&, Dim dim);
/// softmax(-x).
Tensor softmin(const Tensor&, Dim dim);

}  // namespace mt
