// loss.h -- loss functions
#pragma once
#include <array>

#include "engine/ops/gather_scatter.h"

namespace mt {

/// batchmean, for kl_div only: the sum divided by the size of dimension 1.
enum class Reduction { mean, sum, none, batchmean };
constexpr std::array<const char*, 3> names_of(Reduction) { return {"mean", "sum", "none"}; }

// Reduced over all elements of x, or one loss per element (Reduction::none). `target` has the shape
// of x; otherwise Error is thrown.

/// (x - target)^2.
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
/// |x - target|.
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
/// d^2 / (2 beta) below beta, d - beta / 2 above, for d = |x - target|.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean,
                      double beta = 1);
/// d^2 / 2 up to delta, delta (d - delta / 2) above.
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean,
                  double delta = 1);
/// -target log p - (1 - target) log(1 - p) for probabilities p, times `weight`, which broadcasts.
Tensor binary_cross_entropy(const Tensor& p, const Tensor& target, const Tensor& weight = {},
                            Reduction = Reduction::mean);
/// The same for p = sigmoid(x), stable for large |x|; `pos_weight` (per class) scales term 1.
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        const Tensor& weight = {}, Reduction = Reduction::mean,
                                        const Tensor& pos_weight = {});
/// target (log target - x) for log-probabilities x.
Tensor kl_div(const Tensor& x, const Tensor& target, Reduction = Reduction::mean,
              bool log_target = false);
/// log(1 + exp(-target x)); targets are 1 or -1.
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
/// The mean of binary_cross_entropy_with_logits over the last dimension, the classes; one loss per
/// example.
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                   Reduction = Reduction::mean);
/// Logits (n, classes, ..) or (classes) against class labels (n, ..); targets equal to
/// `ignore_index` are ignored. Float targets of the logits' shape are probabilities of the classes.
Tensor cross_entropy(const Tensor& logits, const Index& target, const Tensor& weight = {},
                     int64_t ignore_index = -100, Reduction = Reduction::mean,
                     double smoothing = 0);
/// The same for log-probabilities.
Tensor nll_loss(const Tensor& x, const Index& target, const Tensor& weight = {},
                int64_t ignore_index = -100, Reduction = Reduction::mean);
/// Half of log variance + (x - target)^2 / variance; the variance, clamped to eps without an effect
/// on its gradient, has x's shape, or lacks its last dimension, or has size 1 in one dimension.
/// `full`: includes the constant.
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& variance,
                         bool full = false, double eps = 1e-6, Reduction = Reduction::mean);
/// exp(x) - target x, or x - target log(x + eps); `full`: with Stirling's term for targets above 1.
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, bool log_input = true,
                        bool full = false, double eps = 1e-8, Reduction = Reduction::mean);
/// The mean over classes of max(0, margin - x[label] + x[class])^p; p is 1 or 2.
Tensor multi_margin_loss(const Tensor& x, const Index& target, int64_t p = 1, double margin = 1,
                         const Tensor& weight = {}, Reduction = Reduction::mean);
/// Each row of targets is a list of labels terminated by -1: the sum of max(0, 1 - x[label] +
/// x[class]) over the list and all classes not in it, divided by the number of classes.
Tensor multilabel_margin_loss(const Tensor& x, const Index& target, Reduction = Reduction::mean);

/// -log of the probability that log_probs (time, n, classes) give the targets, with any number of
/// blanks and repeats between them (Graves et al. 2006). Targets are (n, length), or concatenated.
/// The mean divides each loss by its target's length.
/// As in PyTorch the gradient assumes normalised log-probabilities, and is not differentiable.
Tensor ctc_loss(const Tensor& log_probs, const Index& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, Position blank = 0, Reduction = Reduction::mean,
                bool zero_infinity = false);

/// x divided by its p-norm along a dimension; the norm is clamped to at least eps.
Tensor normalize(const Tensor& x, double p = 2, Dim dim = 1, double eps = 1e-12);
/// x . y / (|x| |y|) along a dimension, which is removed; norms are clamped to at least eps.
Tensor cosine_similarity(const Tensor& x, const Tensor& y, Dim dim = 1, double eps = 1e-8);
/// The p-norm of x - y + eps along the last dimension.
Tensor pairwise_distance(const Tensor& x, const Tensor& y, double p = 2, double eps = 1e-6,
                         bool keepdim = false);
// Targets are 1 or -1, as in torch.nn.functional.

/// max(0, target (y - x) + margin).
Tensor margin_ranking_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin,
                           Reduction);
/// x where the target is 1, max(0, margin - x) where it is -1.
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin, Reduction);
/// 1 - cosine of x and y (n, d) where the target (n) is 1, max(0, cosine - margin) where it is -1.
Tensor cosine_embedding_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin,
                             Reduction);
/// max(0, |anchor - positive| - |anchor - negative| + margin) for (n, d); `swap`: uses the distance
/// between positive and negative where it is smaller than that between anchor and negative.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap, Reduction);

}  // namespace mt
