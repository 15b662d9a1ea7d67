// loss.cpp -- losses, composed of other operations
#include <cmath>
#include <optional>

#include "engine/autograd/graph.h"
#include "engine/ops/index_checks.h"
#include "engine/ops/ops.h"

namespace mt {
static Tensor reduce_loss(const Tensor& loss, Reduction how) {
  return how == Reduction::mean ? mean(loss) : how == Reduction::sum ? sum(loss) : loss;
}

static void check_same_shape(const char* name, const Tensor& x, const Tensor& target) {
  if (x.shape() != target.shape())
    fail("{}: the input is {}, the target {}; they must be equal", name, x.shape(), target.shape());
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction how) {
  check_same_shape("mse_loss", x, target);
  return reduce_loss(square(x - target), how);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction how) {
  check_same_shape("l1_loss", x, target);
  return reduce_loss(abs(x - target), how);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction how, double beta) {
  check_same_shape("smooth_l1_loss", x, target);
  if (!(beta >= 0)) fail("smooth_l1_loss: beta is {}, it must be at least 0", show(beta));
  const Tensor d = x - target;
  if (beta == 0) return reduce_loss(abs(d), how);
  const Tensor loss = reduce_loss(huber(d, beta), how);
  return beta == 1 ? loss : loss / beta;
}

Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction how, double delta) {
  check_same_shape("huber_loss", x, target);
  if (!(delta > 0)) fail("huber_loss: delta is {}, it must be above 0", show(delta));
  return reduce_loss(huber(x - target, delta), how);
}

namespace {

Tensor apply_weight(const char* name, const Tensor& loss, const Tensor& weight) {
  if (!weight.defined()) return loss;
  if (broadcast(name, loss.shape(), weight.shape()) != loss.shape())
    fail("{}: the weight {} does not fit the input {}", name, weight.shape(), loss.shape());
  return loss * weight;
}

/// log p and log(1 - p), clamped to -100 as in PyTorch, so that p = 0 costs 100 and not infinity.
Tensor clamped_log(const Tensor& p) { return maximum(log(p), -100.0); }
Tensor clamped_log1m(const Tensor& p) { return maximum(log1p(-p), -100.0); }

/// The derivative (p - target) / (p (1 - p)) stays finite at 0 and 1, unlike the logarithm's.
const NodeType kBinary{"binary_cross_entropy", [](Node& node, const Tensor& g, Tensor* dx) {
                         const Tensor p = node.get(0);
                         if (node.wants(0)) {
                           const Tensor variance = maximum(p * (1.0 - p), 1e-12);
                           dx[0] = g * (p - node.get(1)) / variance;
                         }
                         if (node.wants(1)) dx[1] = g * (clamped_log1m(p) - clamped_log(p));
                       }};

}  // namespace

Tensor binary_cross_entropy(const Tensor& p0, const Tensor& target0, const Tensor& weight,
                            Reduction how) {
  const char* name = "binary_cross_entropy";
  check_same_shape(name, p0, target0);
  const Dtype dtype = promote(promote(p0.dtype(), target0.dtype()), Dtype::f32);
  const Tensor p = to(p0, dtype), target = to(target0, dtype);
  Tensor loss;
  {
    NoGrad off;
    // No synchronisation with a GPU: there the loss becomes NaN.
    if (p.numel() > 0 && reports_synchronously(p.device()) &&
        (amin(p).item() < 0 || amax(p).item() > 1))
      fail(
          "binary_cross_entropy: probabilities must lie in 0..1, found {} to {}; use "
          "binary_cross_entropy_with_logits "
          "for raw scores",
          amin(p).item(), amax(p).item());
    loss = -(target * clamped_log(p) + (1.0 - target) * clamped_log1m(p));
  }
  if (wants_grad(p, target))
    record(kBinary, loss, {&p, &target}).save(0, p, 0).save_for(0, 1, target, 1);
  return reduce_loss(apply_weight(name, loss, weight), how);
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight,
                                        Reduction how, const Tensor& pos_weight) {
  const char* name = "binary_cross_entropy_with_logits";
  check_same_shape(name, x, target);
  Tensor cost = softplus(-x, 1.0, 1e30);  // -log of the sigmoid
  if (pos_weight.defined()) cost = apply_weight(name, cost, 1.0 + (pos_weight - 1.0) * target);
  return reduce_loss(apply_weight(name, (1.0 - target) * x + cost, weight), how);
}

Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction how) {
  check_float("soft_margin_loss", x, "the scores are");
  broadcast("soft_margin_loss", x.shape(), target.shape());
  return reduce_loss(softplus(-(target * x), 1.0, 1e30), how);
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                                   Reduction how) {
  const char* name = "multilabel_soft_margin_loss";
  check_float(name, x, "the scores are");
  if (x.shape() != target.shape() || x.dim() == 0)
    fail("{}: the scores are {}, the targets {}; expected (n x classes) twice", name, x.shape(),
         target.shape());
  const Tensor each = binary_cross_entropy_with_logits(x, target, weight, Reduction::none);
  return reduce_loss(mean(each, {x.dim() - 1}), how);
}

Tensor kl_div(const Tensor& x, const Tensor& target, Reduction how, bool log_target) {
  broadcast("kl_div", x.shape(), target.shape());
  if (how == Reduction::batchmean) {  // over the input's batch size, not the target's
    const Tensor total = kl_div(x, target, Reduction::sum, log_target);
    return x.dim() > 0 ? total / double(x.size(0)) : total;
  }
  if (log_target) return reduce_loss(exp(target) * (target - x), how);
  const Tensor is_zero = eq(target, 0.0);
  const Tensor entropy = where(is_zero, 0.0, target * log(where(is_zero, 1.0, target)));
  return reduce_loss(entropy - target * x, how);
}

// ---- likelihoods of counts and of normal distributions ------------------------------------------

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& variance, bool full,
                         double eps, Reduction how) {
  const char* name = "gaussian_nll_loss";
  if (!(eps > 0)) fail("{}: eps is {}, it must be above 0", name, show(eps));
  broadcast(name, x.shape(), target.shape());
  const Dtype dtype = is_float(x.dtype()) ? x.dtype() : default_dtype();
  Tensor var =
      variance.impl()->number ? mt::full(x.shape(), variance.at(0), dtype, x.device()) : variance;
  if (var.shape() != x.shape()) {
    const bool row = x.dim() == var.dim() + 1 && var.shape() == x.shape().first(var.dim());
    int64_t ones = 0;  // the sizes of var that differ from x's: only one, of 1
    for (int d = 0; x.dim() == var.dim() && d < x.dim(); ++d)
      if (x.size(d) != var.size(d)) ones += var.size(d);
    if (row) var = unsqueeze(var, -1);
    else if (ones != 1)
      fail("{}: the variance {} does not fit the input {}", name, var.shape(), x.shape());
  }
  if (var.numel() > 0 && reports_synchronously(var.device()) && amin(var).item() < 0)
    fail("{}: a variance is {}, it must not be negative", name, show(amin(var).item()));
  var = where(lt(var, eps), var - var.detach() + eps, var);
  Tensor loss = (log(var) + square(x - target) / var) * 0.5;
  if (full) loss = loss + (0.5 * std::log(2 * M_PI));
  return reduce_loss(loss, how);
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, bool log_input, bool full,
                        double eps, Reduction how) {
  broadcast("poisson_nll_loss", x.shape(), target.shape());
  Tensor loss = log_input ? exp(x) - target * x : x - target * log(x + eps);
  if (full) {
    const Tensor few = le(target, 1.0), n = where(few, 1.0, target);
    const Tensor stirling = n * log(n) - n + log(n * (2 * M_PI)) * 0.5;
    loss = loss + where(few, 0.0, stirling);
  }
  return reduce_loss(loss, how);
}

// ---- classes ------------------------------------------------------------------------------------

namespace {

/// Targets as 0-based positions; an ignored target has position 0 and is not `kept`.
struct Labels {
  Tensor position, kept;
};

Labels labels_of(const char* name, const Index& target, int64_t classes,
                 std::optional<int64_t> ignore) {
  const Index labels = integer_positions(name, target, "targets are class positions and", "target");
  Labels l;
  l.kept = ignore ? ne(labels.at, scalar(double(*ignore), Dtype::i64))
                  : ones(labels.at.shape(), Dtype::b8, labels.at.device());
  l.position = where(l.kept, labels.from_zero(), scalar(0, Dtype::i64));
  check_counted(IndexBound::label, name, labels, l.position, classes, ignore);
  return l;
}

void check_class_weight(const char* name, const Tensor& weight, int64_t classes) {
  if (weight.defined() && (weight.dim() != 1 || weight.size(0) != classes))
    fail("{}: the weight is {}; expected one number for each of the {} classes", name,
         weight.shape(), classes);
}

/// x with a batch dimension, after a check of the targets' shape.
Tensor to_batch(const char* name, const Tensor& x, const Tensor& target) {
  Shape expected = x.shape();
  if (x.dim() > 0) expected.erase(x.dim() == 1 ? 0 : 1);
  if (x.dim() == 0 || expected != target.shape())
    fail("{}: the logits are {}, the targets {}; expected (n x classes) and (n)", name, x.shape(),
         target.shape());
  return x.dim() == 1 ? unsqueeze(x, 0) : x;
}

/// -log p of the targets; the fraction `smoothing` of the weight is spread evenly over all classes.
Tensor negative_log(const char* name, const Tensor& logp, const Index& target, const Tensor& weight,
                    int64_t ignore, double smoothing, Reduction how) {
  const int64_t classes = logp.size(1);
  check_class_weight(name, weight, classes);
  const bool is_batch = logp.dim() == target.at.dim() + 1;
  const Index labels{is_batch ? target.at : unsqueeze(target.at, 0), target.first};
  const Labels l = labels_of(name, labels, classes, ignore);
  const bool is_empty = l.position.numel() == 0 || classes == 0;
  Tensor share;  // the weight of each target in the mean
  if (weight.defined() && !is_empty) {
    const Tensor w = index_select(to(weight.detach(), logp.dtype()), 0, reshape(l.position, {-1}));
    share = where(l.kept, reshape(w, l.position.shape()), 0.0);
  } else {
    share = to(l.kept, logp.dtype());
  }
  Tensor loss = is_empty
                    ? sum(logp, {1})  // zeros with a gradient
                    : -where(l.kept, squeeze(gather(logp, 1, unsqueeze(l.position, 1)), 1), 0.0);
  if (weight.defined()) loss = loss * share;
  if (smoothing > 0 && !is_empty) {
    const Tensor all = weight.defined() ? logp * by_channel(to(weight, logp.dtype()), logp) : logp;
    const Tensor smooth = -where(l.kept, sum(all, {1}), 0.0);
    loss = loss * (1 - smoothing) + smooth * (smoothing / double(classes));
  }
  if (how == Reduction::none) return reshape(loss, target.at.shape());
  return how == Reduction::sum ? sum(loss) : sum(loss) / sum(share);
}

}  // namespace

Tensor nll_loss(const Tensor& x, const Index& target, const Tensor& weight, int64_t ignore_index,
                Reduction how) {
  return negative_log("nll_loss", to_batch("nll_loss", x, target.at), target, weight, ignore_index,
                      0, how);
}

Tensor cross_entropy(const Tensor& logits, const Index& labels, const Tensor& weight,
                     int64_t ignore_index, Reduction how, double smoothing) {
  const char* name = "cross_entropy";
  const Tensor& target = labels.at;
  if (!(smoothing >= 0 && smoothing <= 1))
    fail("{}: label_smoothing is {}, it must lie in 0..1", name, show(smoothing));
  if (!is_float(logits.dtype()) && is_float(target.dtype()) && target.dim() > logits.dim())
    fail("{}: the logits are {} {} and the targets {} {}: they are in the wrong order", name,
         logits.shape(), dtype_name(logits.dtype()), target.shape(), dtype_name(target.dtype()));
  check_float(name, logits, "the logits are");
  if (is_float(target.dtype()) && logits.shape() == target.shape() && logits.dim() > 0) {
    // The targets are probabilities of the classes instead of labels.
    if (ignore_index >= 0)
      fail("{}: ignore_index is {}, but the targets are probabilities, not labels", name,
           ignore_index);
    const int d = logits.dim() == 1 ? 0 : 1;
    const int64_t classes = logits.size(d);
    check_class_weight(name, weight, classes);
    Tensor p = target;
    if (smoothing > 0) p = p * (1 - smoothing) + (smoothing / double(classes));
    Tensor each = log_softmax(logits, d) * p;
    if (weight.defined()) each = each * by_channel(weight, logits);
    return reduce_loss(-sum(each, {d}), how);
  }
  const Tensor x = to_batch(name, logits, target);
  return negative_log(name, log_softmax(x, 1), labels, weight, ignore_index, smoothing, how);
}

// ---- margins between classes --------------------------------------------------------------------

namespace {

/// Checks the scores, (n, classes) or (classes), and the shape of the targets.
void check_rows(const char* name, const Tensor& x, const Tensor& target, const Shape& expected) {
  if (x.dim() != 1 && x.dim() != 2)
    fail("{}: the scores are {}; expected (n x classes) or (classes)", name, x.shape());
  check_float(name, x, "the scores are");
  if (target.shape() != expected)
    fail("{}: the scores are {}, the targets {}; expected {}", name, x.shape(), target.shape(),
         expected);
  if (x.size(-1) == 0) fail("{}: the scores {} have no classes", name, x.shape());
}

Shape batch_of_rows(const Tensor& x) { return x.dim() == 2 ? Shape{x.size(0)} : Shape{}; }
Tensor as_rows(const Tensor& x, const Tensor& part) {
  return x.dim() == 1 ? unsqueeze(part, 0) : part;
}

/// The mean or the sum of a loss per row (0 for no rows, as in PyTorch), or the losses.
Tensor of_rows(const Tensor& loss, const Shape& shape, Reduction how) {
  if (how == Reduction::mean && loss.numel() == 0) how = Reduction::sum;
  return reduce_loss(reshape(loss, shape), how);
}

}  // namespace

Tensor multi_margin_loss(const Tensor& x0, const Index& labels, int64_t p, double margin,
                         const Tensor& weight, Reduction how) {
  const char* name = "multi_margin_loss";
  const Tensor& target = labels.at;
  if (p != 1 && p != 2) fail("{}: p is {}; use 1 or 2", name, p);
  const bool one = x0.dim() == 1 && target.dim() == 1 && target.numel() == 1;
  check_rows(name, x0, target, one ? Shape{1} : batch_of_rows(x0));
  const Tensor x = as_rows(x0, x0);
  const int64_t classes = x.size(1);
  check_class_weight(name, weight, classes);
  const Tensor at =
      labels_of(name, {reshape(target, {x.size(0)}), labels.first}, classes, {}).position;
  const Tensor label = unsqueeze(at, 1);
  const Tensor own = eq(label, arange(classes, x.device()));
  Tensor cost = relu(x - gather(x, 1, label) + margin);
  if (p == 2) cost = square(cost);
  if (weight.defined()) cost = cost * unsqueeze(index_select(to(weight, x.dtype()), 0, at), 1);
  const Tensor loss = sum(where(own, 0.0, cost), {1}) / double(classes);
  return of_rows(loss, target.shape(), how);
}

Tensor multilabel_margin_loss(const Tensor& x0, const Index& target, Reduction how) {
  const char* name = "multilabel_margin_loss";
  check_rows(name, x0, target.at, x0.shape());
  const Tensor x = as_rows(x0, x0);
  const int64_t n = x.size(0), classes = x.size(1);
  checked_count(name, {n, classes, classes});
  const Labels l = labels_of(name, {as_rows(x0, target.at), target.first}, classes, -1);
  const Tensor counts = cumprod(to(l.kept, Dtype::i64), 1);
  int64_t max_targets = classes;  // the number of targets in a row
  if (n > 0 && reports_synchronously(x.device()))
    max_targets = std::max<int64_t>(amax(sum(counts, {1})).at_integer(0), 1);
  const Tensor listed = slice(ne(counts, 0.0), 1, 0, max_targets);  // targets before the end
  const Tensor zero = zeros({n, classes}, Dtype::i64, x.device());
  const Tensor outside = eq(scatter_add(zero, 1, l.position, counts), 0.0);  // not listed
  const Tensor own = unsqueeze(gather(x, 1, {slice(l.position, 1, 0, max_targets)}), 2);
  const Tensor cost = relu(unsqueeze(x, 1) - own + 1.0);
  const Tensor counted = logical_and(unsqueeze(listed, 2), unsqueeze(outside, 1));
  const Tensor loss = sum(where(counted, cost, 0.0), {1, 2}) / double(classes);
  return of_rows(loss, batch_of_rows(x0), how);
}

// ---- distances ----------------------------------------------------------------------------------

/// x divided by its p-norm along a dimension, which is clamped to at least eps.
static Tensor over_norm(const Tensor& x, double p, int d, double eps) {
  return x / maximum(norm(x, p, {d}, true), eps);
}

static void check_norm(const char* name, const Tensor& x, double p) {
  if (!(p >= 0)) fail("{}: p is {}, it must be at least 0", name, show(p));
  check_float(name, x);
}

Tensor normalize(const Tensor& x, double p, Dim dim, double eps) {
  check_norm("normalize", x, p);
  const int d = wrap_dim("normalize", dim, x.dim());
  if (x.numel() == 0) return x;
  return over_norm(x, p, d, eps);
}

Tensor cosine_similarity(const Tensor& x, const Tensor& y, Dim dim, double eps) {
  const char* name = "cosine_similarity";
  const Shape shape = broadcast(name, x.shape(), y.shape());
  const Tensor a = expand(x, shape), b = expand(y, shape);
  check_norm(name, a, 2);
  check_norm(name, b, 2);
  const int d = wrap_dim(name, dim, a.dim());
  // Each vector is divided by its own norm, so that products neither overflow nor underflow.
  return sum(over_norm(a, 2, d, eps) * over_norm(b, 2, d, eps), {d});
}

Tensor pairwise_distance(const Tensor& x, const Tensor& y, double p, double eps, bool keepdim) {
  const Tensor d = x - y + eps;
  check_norm("pairwise_distance", d, p);
  return norm(d, p, {d.dim() - 1}, keepdim);
}

Tensor margin_ranking_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin,
                           Reduction how) {
  if (x.dim() != y.dim() || x.dim() != target.dim())
    fail(
        "margin_ranking_loss: the inputs are {} and {}, the target {}; all need as many dimensions",
        x.shape(), y.shape(), target.shape());
  return reduce_loss(relu(target * (y - x) + margin), how);
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin, Reduction how) {
  return reduce_loss(where(eq(target, 1.0), x, relu(margin - x)), how);
}

Tensor cosine_embedding_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin,
                             Reduction how) {
  const auto square_of = [](const Tensor& v) { return sum(v * v, {-1}) + 1e-12; };
  const Tensor dot = sum(x * y, {-1}), c = dot / sqrt(square_of(x) * square_of(y));
  return reduce_loss(where(eq(target, 1.0), 1.0 - c, relu(c - margin)), how);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap, Reduction how) {
  if (!(margin > 0)) fail("triplet_margin_loss: margin is {}, it must be above 0", show(margin));
  const Tensor near = pairwise_distance(anchor, positive, p, eps, false);
  Tensor far = pairwise_distance(anchor, negative, p, eps, false);
  if (swap) far = minimum(far, pairwise_distance(positive, negative, p, eps, false));
  return reduce_loss(relu(near - far + margin), how);
}

}  // namespace mt
