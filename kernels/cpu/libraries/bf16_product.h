// bf16_product.h -- products of bfloat16 by oneDNN, where the processor multiplies such numbers
#pragma once
#include "kernels/matmul.h"

namespace mt {

/// Whether bf16_product will calculate this. Of such a product a and b are bfloat16 and c is float32,
/// which is rounded once by the caller; it does not accumulate. The shape alone decides.
bool takes_bf16(const Matmul& call);
/// c = a . b, every sum in float32 (results below the smallest normal number are 0).
void bf16_product(const Matmul& call);

}  // namespace mt
