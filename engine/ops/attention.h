// attention.h -- scaled dot-product attention
#pragma once
#include <optional>

#include "engine/core/tensor.h"

namespace mt {

/// softmax(q k' scale + mask) v for q (.., l, e), k (.., s, e), v (.., s, f). A bool mask is true
/// for the keys to attend to (a row without one gives zeros); a float mask is added. scale: 1 /
/// sqrt(e). With `gqa` the heads (dimension -3) of k and v are repeated to match the number in q.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask = {}, double dropout_p = 0,
                                    bool causal = false, std::optional<double> scale = {},
                                    bool gqa = false);

}  // namespace mt
