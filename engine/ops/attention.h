// attention.h -- scaled dot-product attention
#pragma once
#include <optional>

#include "engine/core/tensor.h"

namespace mt {

/// softmax(q k' scale + mask) v for q (.., l, e), k (.., s, e), v (.., s, f); a bool mask says what
/// takes part, a float one is added; a row in which nothing does is zero. scale: 1 / sqrt(e). With
/// `gqa` the heads (dimension -3) of k and v are repeated to be as many as q's.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask = {}, double dropout_p = 0,
                                    bool causal = false, std::optional<double> scale = {},
                                    bool gqa = false);

}  // namespace mt
