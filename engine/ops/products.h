// products.h -- variants of the matrix product: batches, sums with a product, Kronecker
#pragma once

#include "engine/core/tensor.h"

namespace mt {

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
/// The product of matrices (the first and the last may be vectors) in the cheapest order.
Tensor multi_dot(const TensorList&);

}  // namespace mt
