// attention.h -- attention, embeddings, dropout and other parts of networks
#pragma once
#include <array>
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
/// x with elements zeroed with probability p and the others scaled by 1 / (1 - p); dropout_ in place. Without
/// `training` x itself.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
const Tensor& dropout_(const Tensor& x, double p = 0.5, bool training = true);
/// dropout of whole channels of 1, 2 or 3 spatial dimensions.
Tensor feature_dropout(const char* name, int spatial, const Tensor& x, double p = 0.5,
                       bool training = true);
/// Elements dropped to where selu is flat, mean and variance kept (Klambauer et al. 2017).
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);
/// alpha_dropout of whole channels of (batch, channels, ..).
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);
/// leaky_relu whose slope is drawn from lower..upper for each element, or their mean (Xu et al. 2015).
Tensor rrelu(const Tensor& x, double lower = 1. / 8, double upper = 1. / 3, bool training = false);
/// Rows of weight by ids, which count from `index_base()`; those of `padding` get no gradient.
Tensor embedding(const Tensor& ids, const Tensor& weight, std::optional<Position> padding = {});
enum class Bag { mean, sum, max };
constexpr std::array<const char*, 3> names_of(Bag) { return {"mean", "sum", "max"}; }
/// Sums, means or maxima of the rows of weight over bags of ids: rows of 2-d ids, or parts of 1-d
/// ids, each of which begins at its offset (counted from `index_base()`; with `include_last` the last
/// offset is where the last bag ends). per_sample: factors of a sum. Empty bags are 0.
Tensor embedding_bag(const Tensor& ids, const Tensor& weight, const Tensor& offsets = {},
                     Bag mode = Bag::mean, const Tensor& per_sample = {}, bool include_last = false,
                     std::optional<Position> padding = {});
/// int64 zeros with a one at each id, which count from `index_base()`; classes: up to the largest id.
Tensor one_hot(const Tensor& ids, std::optional<int64_t> classes = {});
/// One half of a dimension times the sigmoid of the other.
Tensor glu(const Tensor& x, Dim dim = -1);
/// x . weight[o] . y for each o, + bias; weight (out, in1, in2).
Tensor bilinear(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias = {});
/// (.., c r^2, h, w) as (.., c, h r, w r).
Tensor pixel_shuffle(const Tensor& x, int64_t factor);
/// (.., c, h r, w r) as (.., c r^2, h, w).
Tensor pixel_unshuffle(const Tensor& x, int64_t factor);
/// The channels (dimension 1) dealt out to groups in turn.
Tensor channel_shuffle(const Tensor& x, int64_t groups);

}  // namespace mt
