// matmul.h -- products of matrices, batches and vectors, and sums of products over named dimensions
#pragma once
#include <string_view>

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
/// strides, one dtype that the verb accepts; on a CPU also 16-bit floats with a float32 `out`. A bias is added to each
/// row of a matrix; then it does not accumulate.
void matmul_into(const char* name, const Tensor& out, const Tensor& a, const Tensor& b,
                 bool accumulate = false, const Tensor& bias = {});

/// The same for float32, with the operands rounded to bfloat16 where a CPU multiplies those faster; a bfloat16 operand
/// is not converted again.
void rounded_matmul_into(const char* name, const Tensor& out, const Tensor& a, const Tensor& b,
                         bool accumulate = false);

/// A matrix of bfloat16 whose rows are contiguous and have an even size, as pairs: elements of float32 whose values
/// mean nothing.
Tensor as_pairs(const Tensor& x);
/// The product of matrices of pairs along the inner dimension, if multiplies_pairs(): as matmul_into().
void matmul_pairs_into(const Tensor& out, const Tensor& a, const Tensor& b, bool accumulate);

// ---- variants ----------------------------------------------------------------------------------

/// (m, k) x (k, n).
Tensor mm(const Tensor&, const Tensor&);
/// (b, m, k) x (b, k, n).
Tensor bmm(const Tensor&, const Tensor&);
/// (m, k) x (k).
Tensor mv(const Tensor&, const Tensor&);
/// The sum of the products of two vectors; `name` is the calling function.
Tensor dot(const Tensor&, const Tensor&, const char* name = "dot");
/// The sums of products over the last dimensions of both.
Tensor inner(const Tensor&, const Tensor&);
/// The outer product: (m) and (n) to (m, n).
Tensor outer(const Tensor&, const Tensor&, const char* name = "outer");
/// beta * x + alpha * a . b; x broadcasts to the product and is not read when beta is 0.
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
/// addmm for (m, k) x (k).
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
/// addmm for batches, (b, m, k) x (b, k, n).
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1,
               double alpha = 1);
/// addmm with the products of a batch summed.
Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
/// The Kronecker product.
Tensor kron(const Tensor&, const Tensor&);
/// The cross product of vectors of 3 elements along a dimension.
Tensor cross(const Tensor&, const Tensor&, Dim dim = -1);
/// The sum of the diagonal of a matrix.
Tensor trace(const Tensor&);

// ---- sums of products over named dimensions (einsum.cpp) ----------------------------------------

/// Any expression of torch.einsum: "ij,jk->ik", "...ii->...i", "i,j". Spaces are ignored; without
/// "->" the letters that occur once are kept, in alphabetical order, after the ellipsis.
Tensor einsum(std::string_view equation, const TensorList& operands);
/// Sums products over dimension xs[i] of x and ys[i] of y; the result has the rest of x, then of y.
Tensor tensordot(const Tensor& x, const Tensor& y, const Shape& xs, const Shape& ys);

}  // namespace mt
