// bf16_product.h -- products of 16-bit floats that the CPU computes directly: which ones, and those by oneDNN
#pragma once
#include "kernels/matmul.h"

namespace mt {

/// Whether the CPU's matmul verb computes this call of 16-bit floats: with sums in float32, to which the
/// bias is added, and which are rounded once unless c is float32. The answer depends only on the shape.
bool takes_half(const Matmul& call);
/// Such a call with few rows or columns: its time is that of reading the large operand, whose rows
/// (or columns) are contiguous. The verb widens them in pieces.
bool is_thin_half(const Matmul& call);
/// Whether the verb multiplies these rows of float32 by int8 columns.
bool takes_int8(const Matmul& call);
/// c = a . b + bias, or c += a . b, by oneDNN (results below the smallest normal number are 0).
void bf16_product(const Matmul& call);

}  // namespace mt
