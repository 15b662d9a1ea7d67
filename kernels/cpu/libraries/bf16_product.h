// bf16_product.h -- bfloat16 matrix products by oneDNN, on processors with bfloat16 instructions
#pragma once
#include "kernels/matmul.h"

namespace mt {

/// Whether bf16_product computes this call. Then a and b are bfloat16 and c is float32, which the
/// caller rounds once; it does not accumulate. The answer depends only on the shape.
bool takes_bf16(const Matmul& call);
/// c = a . b, with sums in float32 (results below the smallest normal number are 0).
void bf16_product(const Matmul& call);

}  // namespace mt
