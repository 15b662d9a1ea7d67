// loss.h -- losses: how far a result is from its target
#pragma once
#include "engine/tensor.h"

namespace mt {

/// batchmean, of kl_div: the sum over the size of dimension 1.
enum class Reduction { none, mean, sum, batchmean };
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
/// d^2 / (2 beta) below beta, d - beta / 2 beyond, for d = |x - target|.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                      Reduction = Reduction::mean);
/// d^2 / 2 up to delta, delta (d - delta / 2) beyond.
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                  Reduction = Reduction::mean);
Tensor binary_cross_entropy(const Tensor& p, const Tensor& target, Reduction = Reduction::mean,
                            const Tensor& weight = {});
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        Reduction = Reduction::mean, const Tensor& weight = {},
                                        const Tensor& pos_weight = {});
/// target (log target - x) for log-probabilities x.
Tensor kl_div(const Tensor& x, const Tensor& target, Reduction = Reduction::mean,
              bool log_target = false);
/// Logits (n, classes, ..) or (classes) against class labels (n, ..), which count from
/// `index_base`; targets equal to `ignore_index` do not count. Floats of the logits' shape are
/// probabilities of the classes.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, int64_t ignore_index = -100,
                     Reduction = Reduction::mean, const Tensor& weight = {}, double smoothing = 0);
/// The same for log-probabilities.
Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                int64_t ignore_index = -100, Reduction = Reduction::mean);

/// x over its p-norm along a dimension, which is held above eps.
Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double eps = 1e-12);
Tensor cosine_similarity(const Tensor& x, const Tensor& y, int64_t dim = 1, double eps = 1e-8);
/// The p-norm of x - y + eps along the last dimension.
Tensor pairwise_distance(const Tensor& x, const Tensor& y, double p = 2, double eps = 1e-6,
                         bool keepdim = false);
// Targets are 1 or -1, as in torch.nn.functional.
Tensor margin_ranking_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin,
                           Reduction);
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin, Reduction);
Tensor cosine_embedding_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin,
                             Reduction);
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap, Reduction);

}  // namespace mt
