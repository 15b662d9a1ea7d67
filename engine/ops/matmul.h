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

/// The same for float32, with the operands rounded to bfloat16 where a CPU multiplies those faster; a bfloat16 operand
/// is not converted again.
void rounded_matmul_into(const char* name, const Tensor& out, const Tensor& a, const Tensor& b,
                         bool accumulate = false);

}  // namespace mt
