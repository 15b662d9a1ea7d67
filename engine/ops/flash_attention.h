// flash_attention.h -- attention of 16-bit floats by a GPU's own verb, without a mask or dropout
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// Inputs of a verb flash_attention, [batch x heads x length x features] each.
struct FlashInputs {
  Tensor q, k, v;
  double scale;
  bool causal;
};
/// Whether the verb takes these, where the device has it; heads of q may be a multiple of those of k and v.
bool takes_flash_attention(const FlashInputs&);
/// The result and the sums that the way back reads.
TensorList flash_attention(const FlashInputs&);
/// From these and the result's gradient to those of q, k and v.
TensorList flash_attention_backward(const FlashInputs&, const Tensor& out, const Tensor& log_sums,
                                    const Tensor& grad);

}  // namespace mt
