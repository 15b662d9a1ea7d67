// neural.cpp -- what networks are made of: softmax, losses, normalisation, attention
#include "bindings/functions/functions.h"
#include "engine/ops/ops.h"

namespace mt::lua {
namespace {

Reduction reduction(const Args& a, int i) {
  if (!a.given(i)) return Reduction::mean;
  const std::string s = a.text(i);
  if (s == "mean") return Reduction::mean;
  if (s == "sum") return Reduction::sum;
  if (s == "none") return Reduction::none;
  fail("{}: reduction is '{}'; use 'mean', 'sum' or 'none'", signature_of(a.entry()).name, s);
}

/// A tensor, or an undefined one for nothing.
Tensor maybe(const Args& a, int i) { return a.given(i) ? a.tensor(i) : Tensor(); }

/// Argument 1 in the float dtype that argument i names.
Tensor in_dtype(const Args& a, int i) {
  const Tensor& x = a.tensor(1);
  if (!a.given(i)) return x;
  const Dtype d = a.dtype(i, x.dtype());
  if (!is_float(d))
    fail("{}: dtype is '{}'; the answers are fractions", signature_of(a.entry()).name,
         dtype_name(d));
  return to(x, d);
}

/// Lengths: a tensor, a list or a number.
Tensor lengths(const Args& a, int i) {
  if (tensor_at(a.L, i)) return a.tensor(i);
  const std::vector<int64_t> list = a.integers(i);
  Tensor out = empty({int64_t(list.size())}, Dtype::i64);
  std::copy(list.begin(), list.end(), out.data_as<int64_t>());
  return out;
}

/// A running mean or variance, or nothing. Integers would lose what moves them.
Tensor running(const Args& a, int i) {
  const Tensor t = maybe(a, i);
  if (t.defined() && !is_float(t.dtype()))
    fail("{}: running_{} is {}; use x:float()", signature_of(a.entry()).name,
         i == 2 ? "mean" : "var", dtype_name(t.dtype()));
  return t;
}

int ctc_body(Args& a) {
  return a.push(ctc_loss(a.tensor(1), a.tensor(2), lengths(a, 3), lengths(a, 4),
                         a.given(5) ? a.position(5) : 0, reduction(a, 6), a.boolean(7, false)));
}

template <int Spatial> int feature_dropped(Args& a) {
  return a.push(feature_dropout(signature_of(a.entry()).name.c_str(), Spatial, a.tensor(1),
                                a.number(2, 0.5), a.boolean(3, true)));
}

Bag bag_mode(const Args& a, int i) {
  const std::string s = a.given(i) ? a.text(i) : "mean";
  if (s == "mean") return Bag::mean;
  if (s == "sum") return Bag::sum;
  if (s == "max") return Bag::max;
  fail("embedding_bag: mode is '{}'; use 'sum', 'mean' or 'max'", s);
}
int bag_body(Args& a) {
  return a.push(embedding_bag(a.tensor(1), a.tensor(2), maybe(a, 3), bag_mode(a, 4), maybe(a, 5),
                              a.boolean(6, false),
                              a.given(7) ? std::optional(a.position(7)) : std::nullopt));
}

/// Functions of the module that are methods of their first argument too.
const Entry kMethods[] = {
    {"softmax(x, dim, dtype=nil)", "exp(x) / sum of exp(x) along dim, calculated in dtype.",
     [](Args& a) { return a.push(softmax(in_dtype(a, 3), a.position(2))); }},
    {"log_softmax(x, dim, dtype=nil)", "log of softmax, exact far out, calculated in dtype.",
     [](Args& a) { return a.push(log_softmax(in_dtype(a, 3), a.position(2))); }},
    {"mse_loss(x, target, reduction='mean')", "The mean squared difference.",
     [](Args& a) { return a.push(mse_loss(a.tensor(1), a.tensor(2), reduction(a, 3))); }},
    {"l1_loss(x, target, reduction='mean')",
     "The mean absolute difference; reduction 'mean', 'sum' or 'none'.",
     [](Args& a) { return a.push(l1_loss(a.tensor(1), a.tensor(2), reduction(a, 3))); }},
    {"smooth_l1_loss(x, target, reduction='mean', beta=1)",
     "With d = |x - target|: d^2 / (2 beta) below beta, d - beta / 2 beyond.",
     [](Args& a) {
       return a.push(smooth_l1_loss(a.tensor(1), a.tensor(2), a.number(4, 1), reduction(a, 3)));
     }},
    {"huber_loss(x, target, reduction='mean', delta=1)",
     "With d = |x - target|: d^2 / 2 up to delta, delta (d - delta / 2) beyond.",
     [](Args& a) {
       return a.push(huber_loss(a.tensor(1), a.tensor(2), a.number(4, 1), reduction(a, 3)));
     }},
    {"binary_cross_entropy(x, target, weight=nil, reduction='mean')",
     "-log of the probability of the target, for x in 0..1 (beyond: an error; on a GPU NaN).",
     [](Args& a) {
       return a.push(binary_cross_entropy(a.tensor(1), a.tensor(2), reduction(a, 4), maybe(a, 3)));
     }},
    {"binary_cross_entropy_with_logits(x, target, weight=nil, reduction='mean', pos_weight=nil)",
     "The same for raw scores, before the sigmoid; pos_weight counts targets of 1 so often.",
     [](Args& a) {
       return a.push(binary_cross_entropy_with_logits(a.tensor(1), a.tensor(2), reduction(a, 4),
                                                      maybe(a, 3), maybe(a, 5)));
     }},
    {"cross_entropy(x, target, weight=nil, ignore_index=-100, reduction='mean', "
     "label_smoothing=0)",
     "-log of the softmax of the target classes (from 1), for scores [n x classes x ..]; weight "
     "for each class. A float target of x's shape holds probabilities.",
     [](Args& a) {
       return a.push(cross_entropy(a.tensor(1), a.tensor(2), a.integer(4, -100), reduction(a, 5),
                                   maybe(a, 3), a.number(6, 0)));
     }},
    {"nll_loss(x, target, weight=nil, ignore_index=-100, reduction='mean')",
     "-x of the target classes (from 1), for log-probabilities [n x classes x ..].",
     [](Args& a) {
       return a.push(
           nll_loss(a.tensor(1), a.tensor(2), maybe(a, 3), a.integer(4, -100), reduction(a, 5)));
     }},
    {"gaussian_nll_loss(x, target, var, full=false, eps=1e-6, reduction='mean')",
     "(log var + (x - target)^2 / var) / 2 for a variance of x's shape, or without its last "
     "dimension, or with size 1 in one, or a number; full: with its constant.",
     [](Args& a) {
       return a.push(gaussian_nll_loss(a.tensor(1), a.tensor(2), a.operand(3), a.boolean(4, false),
                                       a.number(5, 1e-6), reduction(a, 6)));
     }},
    {"poisson_nll_loss(x, target, log_input=true, full=false, eps=1e-8, reduction='mean')",
     "exp(x) - target x; without log_input x - target log(x + eps); full: with Stirling's term of "
     "targets above 1.",
     [](Args& a) {
       return a.push(poisson_nll_loss(a.tensor(1), a.tensor(2), a.boolean(3, true),
                                      a.boolean(4, false), a.number(5, 1e-8), reduction(a, 6)));
     }},
    {"multi_margin_loss(x, target, p=1, margin=1, weight=nil, reduction='mean')",
     "The mean over the other classes of max(0, margin - x[target] + x[class])^p, for scores "
     "[n x classes] and targets from 1; p is 1 or 2, weight for each class.",
     [](Args& a) {
       return a.push(multi_margin_loss(a.tensor(1), a.tensor(2), a.integer(3, 1), a.number(4, 1),
                                       maybe(a, 5), reduction(a, 6)));
     }},
    {"multilabel_margin_loss(x, target, reduction='mean')",
     "For scores [n x classes] and as many targets: in each row class positions (from 1), ended by "
     "-1. max(0, 1 - x[target] + x[class]) over them and all classes that are not, by classes.",
     [](Args& a) {
       return a.push(multilabel_margin_loss(a.tensor(1), a.tensor(2), reduction(a, 3)));
     }},
    {"kl_div(x, target, reduction='mean', log_target=false)",
     "target (log target - x) for log-probabilities x, broadcast; reduction also 'batchmean', over "
     "the first size of x.",
     [](Args& a) {
       const bool batch = a.given(3) && a.text(3) == "batchmean";
       return a.push(kl_div(a.tensor(1), a.tensor(2),
                            batch ? Reduction::batchmean : reduction(a, 3), a.boolean(4, false)));
     }},
    {"normalize(x, p=2, dim=2, eps=1e-12)", "x over its p-norm along dim, which is held above eps.",
     [](Args& a) {
       return a.push(normalize(a.tensor(1), a.number(2, 2), a.given(3) ? a.position(3) : 1,
                               a.number(4, 1e-12)));
     }},
    {"softmin(x, dim, dtype=nil)", "softmax of -x, calculated in dtype.",
     [](Args& a) { return a.push(softmax(-in_dtype(a, 3), a.position(2))); }},
    {"glu(x, dim=-1)", "One half of dim times the sigmoid of the other.",
     [](Args& a) { return a.push(glu(a.tensor(1), a.given(2) ? a.position(2) : -1)); }},
    {"dropout(x, p=0.5, training=true)",
     "Elements zeroed with probability p, the others scaled by 1 / (1 - p).",
     [](Args& a) { return a.push(dropout(a.tensor(1), a.number(2, 0.5), a.boolean(3, true))); }},
    {"dropout_(x, p=0.5, training=true)", "dropout in place.",
     [](Args& a) {
       dropout_(a.tensor(1), a.number(2, 0.5), a.boolean(3, true));
       return a.self();
     }},
    {"dropout1d(x, p=0.5, training=true)",
     "Whole channels of [n x c x length] or [c x length] zeroed with probability p, the others "
     "scaled by 1 / (1 - p).",
     feature_dropped<1>},
    {"dropout2d(x, p=0.5, training=true)",
     "Whole channels of [n x c x h x w] zeroed with probability p, the others scaled by 1 / (1 - p); "
     "[n x c x length] is taken as by dropout1d.",
     feature_dropped<2>},
    {"dropout3d(x, p=0.5, training=true)",
     "Whole channels of [n x c x d x h x w] or [c x d x h x w] zeroed with probability p, the others "
     "scaled by 1 / (1 - p).",
     feature_dropped<3>},
    {"alpha_dropout(x, p=0.5, training=false)",
     "Elements dropped to where selu is flat, with probability p; mean and variance stay. For "
     "training only when told so, as in PyTorch.",
     [](Args& a) {
       return a.push(alpha_dropout(a.tensor(1), a.number(2, 0.5), a.boolean(3, false)));
     }},
    {"one_hot(x, num_classes=nil)",
     "int64 zeros with a one at each id (from 1) along a new last dimension.",
     [](Args& a) {
       return a.push(one_hot(a.tensor(1), a.given(2) ? std::optional(a.integer(2)) : std::nullopt));
     }},
};

/// Functions of the module alone.
const Entry kFunctions[] = {
    {"cosine_similarity(input1, input2, dim=2, eps=1e-8)",
     "The cosine of the angle between vectors along dim; their lengths are held above eps.",
     [](Args& a) {
       return a.push(cosine_similarity(a.tensor(1), a.tensor(2), a.given(3) ? a.position(3) : 1,
                                       a.number(4, 1e-8)));
     }},
    {"pairwise_distance(input1, input2, p=2, eps=1e-6, keepdim=false)",
     "The p-norm of input1 - input2 + eps along the last dimension.",
     [](Args& a) {
       return a.push(pairwise_distance(a.tensor(1), a.tensor(2), a.number(3, 2), a.number(4, 1e-6),
                                       a.boolean(5, false)));
     }},
    {"margin_ranking_loss(input1, input2, target, margin=0, reduction='mean')",
     "max(0, -target (input1 - input2) + margin); the target is 1 or -1.",
     [](Args& a) {
       return a.push(margin_ranking_loss(a.tensor(1), a.tensor(2), a.tensor(3), a.number(4, 0),
                                         reduction(a, 5)));
     }},
    {"hinge_embedding_loss(input, target, margin=1, reduction='mean')",
     "input where the target is 1, max(0, margin - input) where it is -1.",
     [](Args& a) {
       return a.push(
           hinge_embedding_loss(a.tensor(1), a.tensor(2), a.number(3, 1), reduction(a, 4)));
     }},
    {"cosine_embedding_loss(input1, input2, target, margin=0, reduction='mean')",
     "1 - cosine where the target is 1, max(0, cosine - margin) where it is -1.",
     [](Args& a) {
       return a.push(cosine_embedding_loss(a.tensor(1), a.tensor(2), a.tensor(3), a.number(4, 0),
                                           reduction(a, 5)));
     }},
    {"triplet_margin_loss(anchor, positive, negative, margin=1, p=2, eps=1e-6, swap=false, "
     "reduction='mean')",
     "max(0, distance to the positive - distance to the negative + margin).",
     [](Args& a) {
       return a.push(triplet_margin_loss(a.tensor(1), a.tensor(2), a.tensor(3), a.number(4, 1),
                                         a.number(5, 2), a.number(6, 1e-6), a.boolean(7, false),
                                         reduction(a, 8)));
     }},
    {"layer_norm(input, normalized_shape, weight=nil, bias=nil, eps=1e-5)",
     "Mean 0 and variance 1 over the last dimensions, whose sizes are normalized_shape.",
     [](Args& a) {
       return a.push(
           layer_norm(a.tensor(1), a.shape(2), maybe(a, 3), maybe(a, 4), a.number(5, 1e-5)));
     }},
    {"rms_norm(input, normalized_shape, weight=nil, eps=nil)",
     "The input over the root of its mean square, over the last dimensions.",
     [](Args& a) {
       if (a.given(4) && !(a.number(4) >= 0)) a.wrong(4, "at least 0");
       return a.push(rms_norm(a.tensor(1), a.shape(2), maybe(a, 3), a.number(4, -1)));
     }},
    {"batch_norm(input, running_mean=nil, running_var=nil, weight=nil, bias=nil, training=false, "
     "momentum=0.1, eps=1e-5)",
     "Mean 0 and variance 1 over all but dimension 2; in training with the batch's statistics, "
     "which move the running ones (floats, or nil) in place.",
     [](Args& a) {
       return a.push(batch_norm(a.tensor(1), running(a, 2), running(a, 3), maybe(a, 4), maybe(a, 5),
                                a.boolean(6, false), a.number(7, 0.1), a.number(8, 1e-5)));
     }},
    {"instance_norm(input, running_mean=nil, running_var=nil, weight=nil, bias=nil, "
     "use_input_stats=true, momentum=0.1, eps=1e-5)",
     "Mean 0 and variance 1 over each channel of each image alone.",
     [](Args& a) {
       return a.push(instance_norm(a.tensor(1), running(a, 2), running(a, 3), maybe(a, 4),
                                   maybe(a, 5), a.boolean(6, true), a.number(7, 0.1),
                                   a.number(8, 1e-5)));
     }},
    {"group_norm(input, num_groups, weight=nil, bias=nil, eps=1e-5)",
     "Mean 0 and variance 1 over each group of channels of each image.",
     [](Args& a) {
       return a.push(
           group_norm(a.tensor(1), a.integer(2), maybe(a, 3), maybe(a, 4), a.number(5, 1e-5)));
     }},
    {"embedding(ids, weight, padding_idx=nil)",
     "Rows of weight [entries x features] by ids (from 1); the row padding_idx gets no gradient.",
     [](Args& a) {
       return a.push(embedding(a.tensor(1), a.tensor(2),
                               a.given(3) ? std::optional(a.position(3)) : std::nullopt));
     }},
    {"embedding_bag(ids, weight, offsets=nil, mode='mean', per_sample_weights=nil, "
     "include_last_offset=false, padding_idx=nil)",
     "'mean', 'sum' or 'max' of the rows of weight over bags of ids: the rows of [bags x ids], or "
     "parts of ids in one row, each beginning at its offset (from 1).\nper_sample_weights: factors "
     "of a sum; include_last_offset: the last offset is the end (the number of ids + 1); "
     "padding_idx: an id that does not count. Empty bags are 0.",
     bag_body},
    {"ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=1, reduction='mean', "
     "zero_infinity=false)",
     "-log of the probability that log_probs [time x n x classes] spell the targets [n x length] "
     "(or all in one row; from 1, as blank is). Lengths: a tensor or a list. 'mean' is of each loss "
     "by its target's length.\nThe gradient takes log_probs to be from log_softmax, as in PyTorch; "
     "there is no second one. Runs on the CPU.",
     ctc_body},
    {"scaled_dot_product_attention(query, key, value, attn_mask=nil, dropout_p=0, "
     "is_causal=false, scale=nil, enable_gqa=false)",
     "softmax(query key' scale + mask) value over [.. x length x features]; a bool mask is true "
     "where a key takes part. enable_gqa: heads of key and value (dimension -3) are repeated.",
     [](Args& a) {
       return a.push(scaled_dot_product_attention(
           a.tensor(1), a.tensor(2), a.tensor(3), maybe(a, 4), a.number(5, 0), a.boolean(6, false),
           a.given(7) ? std::optional(a.number(7)) : std::nullopt, a.boolean(8, false)));
     }},
    {"bilinear(input1, input2, weight, bias=nil)",
     "input1 . weight[o] . input2 for each o; weight [out x in1 x in2].",
     [](Args& a) { return a.push(bilinear(a.tensor(1), a.tensor(2), a.tensor(3), maybe(a, 4))); }},
    {"pixel_shuffle(input, upscale_factor)", "[.. x c r^2 x h x w] as [.. x c x h r x w r].",
     [](Args& a) { return a.push(pixel_shuffle(a.tensor(1), a.integer(2))); }},
    {"pixel_unshuffle(input, downscale_factor)", "[.. x c x h r x w r] as [.. x c r^2 x h x w].",
     [](Args& a) { return a.push(pixel_unshuffle(a.tensor(1), a.integer(2))); }},
    {"channel_shuffle(input, groups)",
     "The channels of [n x c x ..] dealt out to groups in turn: c as [groups x c / groups], turned.",
     [](Args& a) { return a.push(channel_shuffle(a.tensor(1), a.integer(2))); }},
};

}  // namespace

void register_neural(Registry& c) {
  c.functions(kFunctions);
  c.add_with_method(kMethods);
}

}  // namespace mt::lua
