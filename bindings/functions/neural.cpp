// neural.cpp -- functions for networks: softmax, losses, normalisation, attention
#include "engine/ops/neural.h"
#include "bindings/functions/functions.h"
#include "engine/autograd/graph.h"

namespace mt::lua {
namespace {

/// x converted to the given float dtype, or unchanged.
Tensor in_float_dtype(const Tensor& x, Dtype d) {
  if (d == Dtype::none) return x;
  if (!is_float(d)) fail("{} cannot hold fractions; dtype must be a float dtype", dtype_name(d));
  return to(x, d);
}

Tensor checked_softmax(const Tensor& x, Dim dim, Dtype dtype) {
  hint_single("softmax", x, dim, 1);
  return softmax(in_float_dtype(x, dtype), dim);
}
Tensor checked_log_softmax(const Tensor& x, Dim dim, Dtype dtype) {
  hint_single("log_softmax", x, dim, 0);
  return log_softmax(in_float_dtype(x, dtype), dim);
}

Tensor checked_cross_entropy(const Tensor& x, const Index& target, const Tensor& weight,
                             int64_t ignore_index, Reduction how, double smoothing) {
  if (const Node* node = x.impl()->node; node && std::string_view(node->type->name) == "softmax")
    hint(
        "cross_entropy takes scores (logits), of which it takes the softmax itself; these are of softmax");
  return cross_entropy(x, target, weight, ignore_index, how, smoothing);
}

const RankedEntry kOfRank[] = {
    {"dropout#d(x, p=0.5, training=true)",
     "Whole channels of <[n x c x length] or [c x length]|[n x c x h x w]|[n x c x d x h x w] or "
     "[c x d x h x w]> zeroed with probability p, the others scaled by 1 / (1 - p)<|; [n x c x length] "
     "is taken as by dropout1d>.",
     bind<feature_dropout>},
};

const Entry kNeuralMethods[] = {
    {"softmax(x, dim, dtype=nil)", "exp(x) / sum of exp(x) along dim, calculated in dtype.",
     bind<checked_softmax>},
    {"log_softmax(x, dim, dtype=nil)", "log of softmax, exact also near 0, calculated in dtype.",
     bind<checked_log_softmax>},
    {"mse_loss(x, target, reduction='mean')", "The mean squared difference.", bind<mse_loss>},
    {"l1_loss(x, target, reduction='mean')", "The mean absolute difference.", bind<l1_loss>},
    {"smooth_l1_loss(x, target, reduction='mean', beta=1)",
     "With d = |x - target|: d^2 / (2 beta) below beta, d - beta / 2 beyond.",
     bind<smooth_l1_loss>},
    {"huber_loss(x, target, reduction='mean', delta=1)",
     "With d = |x - target|: d^2 / 2 up to delta, delta (d - delta / 2) beyond.", bind<huber_loss>},
    {"binary_cross_entropy(x, target, weight=nil, reduction='mean')",
     "-log of the probability of the target, for x in 0..1 (beyond: an error; on a GPU NaN).",
     bind<binary_cross_entropy>},
    {"binary_cross_entropy_with_logits(x, target, weight=nil, reduction='mean', pos_weight=nil)",
     "binary_cross_entropy of sigmoid(x), for raw scores x; pos_weight is the weight of targets of 1.",
     bind<binary_cross_entropy_with_logits>},
    {"cross_entropy(x, target, weight=nil, ignore_index=-100, reduction='mean', "
     "label_smoothing=0)",
     "-log of the softmax of the target classes (from 1), for scores [n x classes x ..]; weight "
     "for each class. A float target of x's shape holds probabilities.",
     bind<checked_cross_entropy>},
    {"nll_loss(x, target, weight=nil, ignore_index=-100, reduction='mean')",
     "-x of the target classes (from 1), for log-probabilities [n x classes x ..].",
     bind<nll_loss>},
    {"gaussian_nll_loss(x, target, var, full=false, eps=1e-6, reduction='mean')",
     "(log var + (x - target)^2 / var) / 2 for a variance of x's shape, or without its last "
     "dimension, or with size 1 in one, or a number; full: with its constant.",
     bind<gaussian_nll_loss, Tensor, Tensor, Operand, bool, double, Reduction>},
    {"poisson_nll_loss(x, target, log_input=true, full=false, eps=1e-8, reduction='mean')",
     "exp(x) - target x; without log_input x - target log(x + eps); full: with Stirling's term of "
     "targets above 1.",
     bind<poisson_nll_loss>},
    {"multi_margin_loss(x, target, p=1, margin=1, weight=nil, reduction='mean')",
     "The mean over the other classes of max(0, margin - x[target] + x[class])^p, for scores "
     "[n x classes] and targets from 1; p is 1 or 2, weight for each class.",
     bind<multi_margin_loss>},
    {"multilabel_margin_loss(x, target, reduction='mean')",
     "For scores [n x classes] and as many targets: in each row class positions (from 1), ended by "
     "-1. The sum of max(0, 1 - x[target] + x[class]) over targets and all other classes, divided by "
     "the number of classes.",
     bind<multilabel_margin_loss>},
    {"soft_margin_loss(x, target, reduction='mean')",
     "log(1 + exp(-target x)) for scores x; the target is 1 or -1.", bind<soft_margin_loss>},
    {"multilabel_soft_margin_loss(x, target, weight=nil, reduction='mean')",
     "The mean over the classes, the last dimension, of binary_cross_entropy_with_logits: scores "
     "[n x classes] and for each class 0 or 1; weight for each class.",
     bind<multilabel_soft_margin_loss>},
    {"kl_div(x, target, reduction: 'mean'|'sum'|'none'|'batchmean' = 'mean', log_target=false)",
     "target (log target - x) for log-probabilities x, broadcast; 'batchmean': the sum over the first "
     "size of x.",
     bind<kl_div>},
    {"normalize(x, p=2, dim=2, eps=1e-12)",
     "x divided by its p-norm along dim, or by eps if that is larger.", bind<normalize>},
    {"softmin(x, dim, dtype=nil)", "softmax of -x, calculated in dtype.",
     bind<[](const Tensor& x, Dim dim, Dtype d) { return softmin(in_float_dtype(x, d), dim); }>},
    {"glu(x, dim=-1)", "One half of dim times the sigmoid of the other.", bind<glu>},
    {"dropout(x, p=0.5, training=true)",
     "Elements zeroed with probability p, the others scaled by 1 / (1 - p).", bind<dropout>},
    {"dropout_(x, p=0.5, training=true)", "dropout in place.", bind<dropout_>},
    {"alpha_dropout(x, p=0.5, training=false)",
     "Elements dropped to where selu is flat, with probability p; mean and variance stay. Only "
     "in training; the function's default is training=false, as in PyTorch.",
     bind<alpha_dropout>},
    {"rrelu(x, lower=0.125, upper=0.3333333333333333, training=false)",
     "x, or a slope times x below 0: in training drawn for each element, else the mean of lower and upper (Xu 2015).",
     bind<rrelu>},
    {"one_hot(x, num_classes=nil)",
     "int64 zeros with a one at each id (from 1) along a new last dimension.", bind<one_hot>},
};

const Entry kNeuralFunctions[] = {
    {"cosine_similarity(input1, input2, dim=2, eps=1e-8)",
     "The cosine of the angle between vectors along dim; lengths below eps count as eps.",
     bind<cosine_similarity>},
    {"pairwise_distance(input1, input2, p=2, eps=1e-6, keepdim=false)",
     "The p-norm of input1 - input2 + eps along the last dimension.", bind<pairwise_distance>},
    {"margin_ranking_loss(input1, input2, target, margin=0, reduction='mean')",
     "max(0, -target (input1 - input2) + margin); the target is 1 or -1.",
     bind<margin_ranking_loss>},
    {"hinge_embedding_loss(input, target, margin=1, reduction='mean')",
     "input where the target is 1, max(0, margin - input) where it is -1.",
     bind<hinge_embedding_loss>},
    {"cosine_embedding_loss(input1, input2, target, margin=0, reduction='mean')",
     "1 - cosine where the target is 1, max(0, cosine - margin) where it is -1.",
     bind<cosine_embedding_loss>},
    {"triplet_margin_loss(anchor, positive, negative, margin=1, p=2, eps=1e-6, swap=false, "
     "reduction='mean')",
     "max(0, distance to the positive - distance to the negative + margin).",
     bind<triplet_margin_loss>},
    {"layer_norm(input, normalized_shape, weight=nil, bias=nil, eps=1e-5)",
     "Mean 0 and variance 1 over the last dimensions, whose sizes are normalized_shape.",
     bind<layer_norm>},
    {"rms_norm(input, normalized_shape, weight=nil, eps: number >= 0 = nil)",
     "The input over the root of its mean square, over the last dimensions.", bind<rms_norm>},
    {"batch_norm(input, running_mean=nil, running_var=nil, weight=nil, bias=nil, training=false, "
     "momentum=0.1, eps=1e-5)",
     "Mean 0 and variance 1 over all but dimension 2; in training with the batch's statistics, "
     "which move the running ones (floats, or nil) in place.",
     bind<batch_norm>},
    {"instance_norm(input, running_mean=nil, running_var=nil, weight=nil, bias=nil, "
     "use_input_stats=true, momentum=0.1, eps=1e-5)",
     "Mean 0 and variance 1 over each channel of each image alone.", bind<instance_norm>},
    {"group_norm(input, num_groups, weight=nil, bias=nil, eps=1e-5)",
     "Mean 0 and variance 1 over each group of channels of each image.", bind<group_norm>},
    {"embedding(ids, weight, padding_idx=nil)",
     "Rows of weight [entries x features] by ids (from 1); the row padding_idx gets no gradient.",
     bind<embedding>},
    {"embedding_bag(ids, weight, offsets=nil, mode='mean', per_sample_weights=nil, "
     "include_last_offset=false, padding_idx=nil)",
     "'mean', 'sum' or 'max' of the rows of weight over bags of ids: the rows of [bags x ids], or "
     "parts of ids in one row, each beginning at its offset (from 1).\nper_sample_weights: factors "
     "of a sum; include_last_offset: the last offset is the end (the number of ids + 1); "
     "padding_idx: an id that does not count. Empty bags are 0.",
     bind<embedding_bag>},
    {"ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=1, reduction='mean', "
     "zero_infinity=false)",
     "-log of the probability that log_probs [time x n x classes] spell the targets [n x length] "
     "(or all in one row; from 1, as blank is). Lengths: a tensor or a list. 'mean' is of each loss "
     "by its target's length.\nThe gradient takes log_probs to be from log_softmax, as in PyTorch; "
     "there is no second one. Runs on the CPU.",
     bind<ctc_loss, Tensor, Index, WholeNumbers, WholeNumbers, Position, Reduction, bool>},
    {"scaled_dot_product_attention(query, key, value, attn_mask=nil, dropout_p=0, "
     "is_causal=false, scale=nil, enable_gqa=false)",
     "softmax(query key' scale + mask) value over [.. x length x features]; a bool mask is true "
     "where a key takes part; one of keys, [.. x 1 x keys], may be combined with is_causal. enable_gqa: "
     "heads of key and value (dimension -3) are repeated.",
     bind<scaled_dot_product_attention>},
    {"recurrent_layer(input, weight_ih, weight_hh, bias_ih=nil, bias_hh=nil, h=nil, c=nil, "
     "weight_hr=nil, mode='lstm', reverse=false, batch_sizes=nil)",
     "One layer of nn.RNN, nn.LSTM or nn.GRU in one direction over [time x n x in]: the states after "
     "every step, the last state h and, of an LSTM, its c.\nbatch_sizes: the input is [all x in], "
     "sequences in order of falling length, so many of them in each step.",
     bind<recurrent_layer>},
    {"bilinear(input1, input2, weight, bias=nil)",
     "input1 . weight[o] . input2 for each o; weight [out x in1 x in2].",
     bind<[](const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias) {
       check_same_dtype(x, weight), check_same_dtype(y, weight);
       return bilinear(x, y, weight, bias);
     }>},
    {"pixel_shuffle(input, upscale_factor)", "[.. x c r^2 x h x w] as [.. x c x h r x w r].",
     bind<pixel_shuffle>},
    {"pixel_unshuffle(input, downscale_factor)", "[.. x c x h r x w r] as [.. x c r^2 x h x w].",
     bind<pixel_unshuffle>},
};

}  // namespace

void register_neural(Registry& c) {
  c.functions(kNeuralFunctions);
  c.both(kNeuralMethods);
  add_ranks(kOfRank, [&](const Entry& e) { c.both(e); });
}

}  // namespace mt::lua
