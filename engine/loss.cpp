// loss.cpp -- losses, composed of other operations
#include <cmath>

#include "engine/autograd.h"
#include "engine/late.h"
#include "engine/ops.h"
#include "engine/positions.h"

namespace mt {
namespace {

Tensor reduced(const Tensor& loss, Reduction how) {
  return how == Reduction::mean ? mean(loss) : how == Reduction::sum ? sum(loss) : loss;
}

void same_shape(const char* name, const Tensor& x, const Tensor& target) {
  if (!(x.shape() == target.shape()))
    fail("{}: the input is {}, the target {}; they must be alike", name, to_string(x.shape()),
         to_string(target.shape()));
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction how) {
  same_shape("mse_loss", x, target);
  return reduced(square(x - target), how);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction how) {
  same_shape("l1_loss", x, target);
  return reduced(abs(x - target), how);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, Reduction how) {
  same_shape("smooth_l1_loss", x, target);
  if (!(beta >= 0)) fail("smooth_l1_loss: beta is {}, it must be at least 0", show(beta));
  const Tensor d = abs(x - target);
  if (beta == 0) return reduced(d, how);
  return reduced(where(lt(d, Tensor(beta)), square(d) * Tensor(0.5 / beta), d - Tensor(0.5 * beta)),
                 how);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, Reduction how) {
  same_shape("huber_loss", x, target);
  if (!(delta > 0)) fail("huber_loss: delta is {}, it must be above 0", show(delta));
  const Tensor d = abs(x - target);
  const Tensor far = (d - Tensor(0.5 * delta)) * Tensor(delta);
  return reduced(where(le(d, Tensor(delta)), square(d) * Tensor(0.5), far), how);
}

namespace {

Tensor weighted(const char* name, const Tensor& loss, const Tensor& weight) {
  if (!weight.defined()) return loss;
  if (!(broadcast(name, loss.shape(), weight.shape()) == loss.shape()))
    fail("{}: the weight {} does not fit the input {}", name, to_string(weight.shape()),
         to_string(loss.shape()));
  return loss * weight;
}

/// log p and log(1 - p), held above -100, as PyTorch does, so that p = 0 costs 100 and not infinity.
Tensor held_log(const Tensor& p) { return maximum(log(p), Tensor(-100.0)); }
Tensor held_log_rest(const Tensor& p) { return maximum(log1p(-p), Tensor(-100.0)); }

/// The slope (p - target) / (p (1 - p)) stays finite at the ends, where the logarithm's does not.
const NodeType kBinary{
    "binary_cross_entropy", [](Node& node, const Tensor& g, Tensor* dx) {
      const Tensor p = node.get(0);
      if (node.wants(0)) {
        const Tensor spread = maximum(p * (Tensor(1.0) - p), Tensor(1e-12));
        dx[0] = g * (p - node.get(1)) / spread;
      }
      if (node.wants(1)) dx[1] = g * (held_log_rest(p) - held_log(p));
    }};

}  // namespace

Tensor binary_cross_entropy(const Tensor& p0, const Tensor& target0, Reduction how,
                            const Tensor& weight) {
  const char* name = "binary_cross_entropy";
  same_shape(name, p0, target0);
  const Dtype dtype = promote(promote(p0.dtype(), target0.dtype()), Dtype::f32);
  const Tensor p = to(p0, dtype), target = to(target0, dtype);
  Tensor loss;
  {
    NoGrad off;
    // A GPU is not waited for: there the loss becomes NaN.
    if (p.numel() > 0 && tells_at_once(p.device()) &&
        (amin(p).item() < 0 || amax(p).item() > 1))
      fail(
          "binary_cross_entropy: probabilities must lie in 0..1, found {} to {}; use "
          "binary_cross_entropy_with_logits "
          "for raw scores",
          amin(p).item(), amax(p).item());
    loss = -(target * held_log(p) + (Tensor(1.0) - target) * held_log_rest(p));
  }
  if (wants_grad(p, target)) {
    Node& node = record(kBinary, loss, {&p, &target});
    node.save(0, p, 0);
    if (node.wants(0)) node.save(1, target, 1);
  }
  return reduced(weighted(name, loss, weight), how);
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, Reduction how,
                                        const Tensor& weight, const Tensor& pos_weight) {
  const char* name = "binary_cross_entropy_with_logits";
  same_shape(name, x, target);
  Tensor cost = softplus(-x, Tensor(1.0), Tensor(1e30));  // -log of the sigmoid
  if (pos_weight.defined())
    cost = weighted(name, cost, Tensor(1.0) + (pos_weight - Tensor(1.0)) * target);
  return reduced(weighted(name, (Tensor(1.0) - target) * x + cost, weight), how);
}

Tensor kl_div(const Tensor& x, const Tensor& target, Reduction how, bool log_target) {
  broadcast("kl_div", x.shape(), target.shape());
  if (how == Reduction::batchmean) {  // over the input's batch, the target's does not count
    const Tensor total = kl_div(x, target, Reduction::sum, log_target);
    return x.dim() > 0 ? total / Tensor(double(x.size(0))) : total;
  }
  if (log_target) return reduced(exp(target) * (target - x), how);
  const Tensor none = eq(target, Tensor(0.0));
  const Tensor entropy = where(none, Tensor(0.0), target * log(where(none, Tensor(1.0), target)));
  return reduced(entropy - target * x, how);
}

// ---- classes ------------------------------------------------------------------------------------

namespace {

/// Targets as positions from 0; what is ignored stands at 0 and is not `kept`.
struct Labels {
  Tensor position, kept;
};

[[noreturn]] void bad_label(const char* name, const Tensor& labels, int64_t ignore, int64_t first,
                            int64_t last) {
  const Tensor host = to(labels, cpu_device());
  for (int64_t i = 0; i < host.numel(); ++i) {
    const int64_t label = host.at_integer(i);
    if (label != ignore && (label < first || label > last))
      fail("{}: target {} is {}, expected {}..{} (labels count from {} here)", name,
           i + index_base, label, first, last, first);
  }
  fail("{}: the targets changed while they were read", name);
}

Labels labels_of(const char* name, const Tensor& target, int64_t classes, int64_t ignore) {
  if (is_float(target.dtype()) || target.dtype() == Dtype::b8)
    fail("{}: targets are class positions and must be integers, these are {}; use target:long()",
         name, dtype_name(target.dtype()));
  NoGrad off;
  const Tensor labels = to(target, Dtype::i64), base = scalar(index_base, Dtype::i64);
  Labels l;
  l.kept = ne(labels, scalar(double(ignore), Dtype::i64));
  l.position = where(l.kept, labels - base, scalar(0, Dtype::i64));
  if (l.position.numel() == 0) return l;
  if (!tells_at_once(target.device()) && classes > 0) {
    locate({l.position}, classes, nullptr);
    expect(target.device(), {Expected::label, name, index_base, classes - 1 + index_base, index_base,
                             0, {}});
    return l;
  }
  if (amin(l.position).at_integer(0) < 0 || amax(l.position).at_integer(0) >= classes) {
    if (classes > 0 || any(l.kept).item() != 0)
      bad_label(name, labels, ignore, index_base, classes - 1 + index_base);
  }
  return l;
}

void check_class_weight(const char* name, const Tensor& weight, int64_t classes) {
  if (weight.defined() && (weight.dim() != 1 || weight.size(0) != classes))
    fail("{}: the weight is {}; expected one number for each of the {} classes", name,
         to_string(weight.shape()), classes);
}

/// The weights of classes beside log-probabilities (n, classes, ..).
Tensor along_classes(const Tensor& weight, const Tensor& x) {
  Shape shape{weight.size(0)};
  for (int d = 2; d < x.dim(); ++d) shape.push(1);
  return reshape(weight, shape);
}

/// x with a batch, and the targets' shape that belongs to it.
Tensor with_batch(const char* name, const Tensor& x, const Tensor& target) {
  Shape expected = x.shape();
  if (x.dim() > 0) expected.erase(x.dim() == 1 ? 0 : 1);
  if (x.dim() == 0 || !(expected == target.shape()))
    fail("{}: the logits are {}, the targets {}; expected (n x classes) and (n)", name,
         to_string(x.shape()), to_string(target.shape()));
  return x.dim() == 1 ? unsqueeze(x, 0) : x;
}

/// -log p of the targets; `smoothing` of the weight goes to all classes alike.
Tensor negative_log(const char* name, const Tensor& logp, const Tensor& target,
                    const Tensor& weight, int64_t ignore, double smoothing, Reduction how) {
  const int64_t classes = logp.size(1);
  check_class_weight(name, weight, classes);
  const Labels l = labels_of(name, logp.dim() == target.dim() + 1 ? target : unsqueeze(target, 0),
                             classes, ignore);
  const bool nothing = l.position.numel() == 0 || classes == 0;
  Tensor share;  // of each target in a mean
  if (weight.defined() && !nothing) {
    NoGrad off;
    const Tensor w = reshape(index_select(to(weight, logp.dtype()), 0, reshape(l.position, {-1})),
                             l.position.shape());
    share = where(l.kept, w, Tensor(0.0));
  } else {
    share = to(l.kept, logp.dtype());
  }
  Tensor loss = nothing ? zeros(l.position.shape(), logp.dtype(), logp.device())
                        : -where(l.kept, squeeze(gather(logp, 1, unsqueeze(l.position, 1)), 1),
                                 Tensor(0.0));
  if (weight.defined()) loss = loss * share;
  if (smoothing > 0 && !nothing) {
    const Tensor all = weight.defined() ? logp * along_classes(to(weight, logp.dtype()), logp) : logp;
    const Tensor smooth = -where(l.kept, sum(all, {1}), Tensor(0.0));
    loss = loss * Tensor(1 - smoothing) + smooth * Tensor(smoothing / double(classes));
  }
  if (how == Reduction::none) return reshape(loss, target.shape());
  return how == Reduction::sum ? sum(loss) : sum(loss) / sum(share);
}

}  // namespace

Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight, int64_t ignore_index,
                Reduction how) {
  return negative_log("nll_loss", with_batch("nll_loss", x, target), target, weight, ignore_index,
                      0, how);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, int64_t ignore_index,
                     Reduction how, const Tensor& weight, double smoothing) {
  const char* name = "cross_entropy";
  if (!(smoothing >= 0 && smoothing <= 1))
    fail("{}: label_smoothing is {}, it must lie in 0..1", name, show(smoothing));
  if (!is_float(logits.dtype()))
    fail("{}: the logits are {}; use x:float()", name, dtype_name(logits.dtype()));
  if (is_float(target.dtype()) && logits.shape() == target.shape() && logits.dim() > 0) {
    // Probabilities of the classes instead of labels.
    const int d = logits.dim() == 1 ? 0 : 1;
    const int64_t classes = logits.size(d);
    check_class_weight(name, weight, classes);
    Tensor p = target;
    if (smoothing > 0) p = p * Tensor(1 - smoothing) + Tensor(smoothing / double(classes));
    Tensor each = log_softmax(logits, d) * p;
    if (weight.defined()) each = each * (d == 0 ? weight : along_classes(weight, logits));
    const Tensor loss = -sum(each, {d});
    return reduced(loss, how);
  }
  const Tensor x = with_batch(name, logits, target);
  return negative_log(name, log_softmax(x, 1), target, weight, ignore_index, smoothing, how);
}

// ---- distances ----------------------------------------------------------------------------------

namespace {

/// The p-norm along a dimension, held above eps, where its slope would be infinite.
Tensor norm_above(const Tensor& x, double p, int d, bool keepdim, double eps) {
  const double least = std::max(std::pow(eps, p), 1e-37);
  if (std::isinf(p)) return maximum(amax(abs(x), {d}, keepdim), Tensor(eps));
  if (p == 1) return maximum(sum(abs(x), {d}, keepdim), Tensor(eps));
  if (p == 2) return sqrt(maximum(sum(square(x), {d}, keepdim), Tensor(least)));
  if (p == 0) return maximum(sum(to(ne(x, Tensor(0.0)), x.dtype()), {d}, keepdim), Tensor(eps));
  return pow(maximum(sum(pow(abs(x), Tensor(p)), {d}, keepdim), Tensor(least)), Tensor(1 / p));
}

void check_norm(const char* name, const Tensor& x, double p) {
  if (!(p >= 0)) fail("{}: p is {}, it must be at least 0", name, show(p));
  if (!is_float(x.dtype()))
    fail("{}: the input is {}; use x:float()", name, dtype_name(x.dtype()));
}

}  // namespace

Tensor normalize(const Tensor& x, double p, int64_t dim, double eps) {
  check_norm("normalize", x, p);
  const int d = wrap_dim("normalize", dim, x.dim());
  if (x.numel() == 0) return x;
  return x / norm_above(x, p, d, true, eps);
}

Tensor cosine_similarity(const Tensor& x, const Tensor& y, int64_t dim, double eps) {
  const char* name = "cosine_similarity";
  const Shape shape = broadcast(name, x.shape(), y.shape());
  const Tensor a = expand(x, shape), b = expand(y, shape);
  check_norm(name, a, 2);
  check_norm(name, b, 2);
  const int d = wrap_dim(name, dim, a.dim());
  return sum(a * b, {d}) / (norm_above(a, 2, d, false, eps) * norm_above(b, 2, d, false, eps));
}

Tensor pairwise_distance(const Tensor& x, const Tensor& y, double p, double eps, bool keepdim) {
  const Tensor d = x - y + Tensor(eps);
  check_norm("pairwise_distance", d, p);
  return norm_above(d, p, d.dim() - 1, keepdim, 0);
}

namespace {

/// Signs that say which of two: 1 or -1.
Tensor is_one(const Tensor& y) { return eq(y, Tensor(1.0)); }

}  // namespace

Tensor margin_ranking_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin,
                           Reduction how) {
  if (x.dim() != y.dim() || x.dim() != target.dim())
    fail("margin_ranking_loss: the inputs are {} and {}, the target {}; all need as many dimensions",
         to_string(x.shape()), to_string(y.shape()), to_string(target.shape()));
  return reduced(relu(target * (y - x) + Tensor(margin)), how);
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin, Reduction how) {
  return reduced(where(is_one(target), x, relu(Tensor(margin) - x)), how);
}

Tensor cosine_embedding_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin,
                             Reduction how) {
  const Tensor c = cosine_similarity(x, y, -1, 1e-8);
  return reduced(where(is_one(target), Tensor(1.0) - c, relu(c - Tensor(margin))), how);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap, Reduction how) {
  if (!(margin > 0)) fail("triplet_margin_loss: margin is {}, it must be above 0", show(margin));
  const Tensor near = pairwise_distance(anchor, positive, p, eps, false);
  Tensor far = pairwise_distance(anchor, negative, p, eps, false);
  if (swap) far = minimum(far, pairwise_distance(positive, negative, p, eps, false));
  return reduced(relu(near - far + Tensor(margin)), how);
}

}  // namespace mt
