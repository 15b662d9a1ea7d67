// bf16_product.h -- products of 16-bit floats that the CPU computes directly: which ones, and those by oneDNN
#pragma once
#include "kernels/matmul.h"

namespace mt {

/// Whether the CPU's matmul verb computes this call of 16-bit floats: with sums in float32, to which the
/// bias is added, and which are rounded once unless c is float32. The answer depends only on the processor, the
/// library and the call, without its addresses.
bool takes_half(const Matmul& call);
/// Whether it multiplies so many pairs of dense bfloat16 matrices, m x k and k x n, with float32 results, by a kernel
/// that is faster than a conversion to float32 would be.
bool multiplies_bf16(int64_t m, int64_t n, int64_t k, int64_t entries);
/// Whether the CPU's matmul verb takes matrices of pairs (Matmul::pairs), and multiplies them faster than oneDNN does
/// if the second is used often.
bool multiplies_pairs();
/// The most rows or columns of a thin product of 16-bit floats.
constexpr int64_t kThinHalf = 12;
/// Such a call with few rows or columns: its time is that of reading the large operand, whose rows
/// or columns are contiguous. The verb widens them in pieces.
bool is_thin_half(const Matmul& call);
/// Whether the verb multiplies these rows of float32 by int8 columns.
bool takes_int8(const Matmul& call);
/// c = a . b + bias, or c += a . b, by oneDNN, for which subnormal operands and results are 0.
void bf16_product(const Matmul& call);

}  // namespace mt
