// matmul.h -- products of matrices, batches and vectors
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// (.., m, k) x (.., k, n), with broadcast batches; vectors as in torch.matmul; dtypes are
/// promoted. `name` is the calling function, for messages.
Tensor matmul(const Tensor&, const Tensor&, const char* name = "matmul");
/// x . weight' + bias for x (.., in), weight (out, in), bias (out) or undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);
/// The same for an int8 weight, whose rows are multiplied by `scale` (out): x . (weight * scale)' +
/// bias, in float32 for 16-bit floats. The weight has no gradient.
Tensor linear_int8(const Tensor& x, const Tensor& weight, const Tensor& scale, const Tensor& bias);
/// x . weight[o] . y for each o, + bias; weight (out, in1, in2).
Tensor bilinear(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias = {});
/// out = a . b, or out += a . b, outside the graph: matrices or batches of equal leading sizes, any
/// strides, one dtype that the verb accepts; on a CPU also 16-bit floats with a float32 `out`.
void matmul_into(const char* name, const Tensor& out, const Tensor& a, const Tensor& b,
                 bool accumulate = false);

/// Whether the device multiplies so many bfloat16 matrices, m x k and k x n, faster than after a conversion to float32.
bool multiplies_bf16(const Device& device, int64_t m, int64_t n, int64_t k, int64_t entries = 1);

}  // namespace mt
