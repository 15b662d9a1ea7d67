// soft_margin_loss.h -- logistic losses: targets 1 and -1, and several labels of each example
#pragma once
#include "engine/ops/loss.h"

namespace mt {

/// log(1 + exp(-target x)); targets are 1 or -1.
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
/// The mean over the last dimension, the classes, of binary_cross_entropy_with_logits; one loss for
/// each example.
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                   Reduction = Reduction::mean);

}  // namespace mt
