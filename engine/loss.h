// loss.h -- losses: how far a result is from its target
#pragma once
#include "engine/tensor.h"

namespace mt {

enum class Reduction { none, mean, sum };
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
Tensor binary_cross_entropy(const Tensor& p, const Tensor& target, Reduction = Reduction::mean);
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        Reduction = Reduction::mean);
/// Rows of logits against class labels, which count from `index_base`; targets equal to
/// `ignore_index` do not count.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, int64_t ignore_index = -100,
                     Reduction = Reduction::mean);

}  // namespace mt
