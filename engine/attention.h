// attention.h -- attention, embeddings, dropout and other parts of networks
#pragma once
#include <optional>

#include "engine/tensor.h"

namespace mt {

/// softmax(q k' scale + mask) v for q (.., l, e), k (.., s, e), v (.., s, f); a bool mask says what
/// takes part, a float one is added; a row in which nothing does is zero. scale: 1 / sqrt(e).
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask = {}, double dropout_p = 0,
                                    bool causal = false, std::optional<double> scale = {});
/// x with elements zeroed with probability p and the others scaled by 1 / (1 - p).
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
const Tensor& dropout_(const Tensor& x, double p = 0.5, bool training = true);
/// Rows of weight by ids, which count from `index_base`; those of `padding` get no gradient.
Tensor embedding(const Tensor& ids, const Tensor& weight, std::optional<int64_t> padding = {});
/// int64 zeros with a one at each id, which count from `index_base`; classes: up to the largest id.
Tensor one_hot(const Tensor& ids, std::optional<int64_t> classes = {});
/// One half of a dimension times the sigmoid of the other.
Tensor glu(const Tensor& x, int64_t dim = -1);
/// x . weight[o] . y for each o, + bias; weight (out, in1, in2).
Tensor bilinear(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias = {});
/// (.., c r^2, h, w) as (.., c, h r, w r).
Tensor pixel_shuffle(const Tensor& x, int64_t factor);

}  // namespace mt
