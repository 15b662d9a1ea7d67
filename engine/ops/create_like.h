// create_like.h -- zeros_like and its kin, logspace, from_bytes
#pragma once
#include <string_view>

#include "engine/core/tensor.h"

namespace mt {

/// n powers of `base`, whose exponents lie at equal distances, both ends included.
Tensor logspace(double first, double last, int64_t n, double base, Dtype = default_dtype(),
                const Device& = cpu_device());
/// A copy of the bytes as elements; null for a shape means one dimension. The size must fit.
Tensor from_bytes(std::string_view bytes, Dtype, const Shape* shape = nullptr);

}  // namespace mt
