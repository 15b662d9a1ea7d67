// flash_attention.h -- attention of 16-bit floats with a GPU's own verb, without mask or dropout
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// The inputs of the verb flash_attention, each [batch x heads x length x features].
struct FlashInputs {
  Tensor q, k, v;
  double scale;
  bool causal;
};
/// Whether the verb exists and accepts these inputs; heads of q may be a multiple of those of k, v.
bool takes_flash_attention(const FlashInputs&);
/// The result, and the log-sums that backward reads.
TensorList flash_attention(const FlashInputs&);
/// The gradients of q, k and v for the gradient `grad` of `out`.
TensorList flash_attention_backward(const FlashInputs&, const Tensor& out, const Tensor& log_sums,
                                    const Tensor& grad);

}  // namespace mt
