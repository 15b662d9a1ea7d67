// einsum.h -- sums of products over named dimensions, and tensordot
#pragma once
#include <string_view>

#include "engine/core/tensor.h"

namespace mt {

/// Any expression of torch.einsum: "ij,jk->ik", "...ii->...i", "i,j". Spaces are ignored; without
/// "->" the letters that occur once are kept, in alphabetical order, after the ellipsis.
Tensor einsum(std::string_view equation, const TensorList& operands);
/// Sums products over dimension xs[i] of x and ys[i] of y; the result has the rest of x, then of y.
Tensor tensordot(const Tensor& x, const Tensor& y, const Shape& xs, const Shape& ys);

}  // namespace mt
