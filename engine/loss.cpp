// loss.cpp -- softmax and losses, composed of other operations
#include "engine/autograd.h"
#include "engine/ops.h"

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

/// The largest along a dimension, outside the graph: what is taken off before exp, so that it
/// cannot overflow.
Tensor stable_offset(const Tensor& x, int d) {
  NoGrad off;
  if (x.numel() == 0) return Tensor(0.0);
  const Tensor most = amax(x, {d}, true);
  return where(isfinite(most), most, Tensor(0.0));
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim) {
  const int d = wrap_dim("softmax", dim, x.dim());
  if (x.dim() == 0) return reshape(softmax(reshape(x, {1}), 0), {});
  const Tensor e = exp(x - stable_offset(x, d));
  return e / sum(e, {d}, true);
}

Tensor log_softmax(const Tensor& x, int64_t dim) {
  const int d = wrap_dim("log_softmax", dim, x.dim());
  if (x.dim() == 0) return reshape(log_softmax(reshape(x, {1}), 0), {});
  const Tensor shifted = x - stable_offset(x, d);
  return shifted - log(sum(exp(shifted), {d}, true));
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction how) {
  same_shape("mse_loss", x, target);
  return reduced(square(x - target), how);
}

/// log is held above -100, as PyTorch does, so that p = 0 costs 100 and not infinity.
Tensor binary_cross_entropy(const Tensor& p, const Tensor& target, Reduction how) {
  same_shape("binary_cross_entropy", p, target);
  {
    NoGrad off;
    if (p.numel() > 0 && (amin(p).item() < 0 || amax(p).item() > 1))
      fail(
          "binary_cross_entropy: probabilities must lie in 0..1, found {} to {}; use "
          "binary_cross_entropy_with_logits "
          "for raw scores",
          amin(p).item(), amax(p).item());
  }
  const Tensor floor = Tensor(-100.0);
  const Tensor yes = maximum(log(p), floor), no = maximum(log1p(-p), floor);
  return reduced(-(target * yes + (Tensor(1.0) - target) * no), how);
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, Reduction how) {
  same_shape("binary_cross_entropy_with_logits", x, target);
  return reduced(softplus(x, Tensor(1.0), Tensor(1e30)) - x * target, how);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, int64_t ignore_index,
                     Reduction how) {
  if (logits.dim() != 2 || target.dim() != 1 || logits.size(0) != target.size(0))
    fail("cross_entropy: the logits are {}, the targets {}; expected (n x classes) and (n)",
         to_string(logits.shape()), to_string(target.shape()));
  if (is_float(target.dtype()) || target.dtype() == Dtype::b8)
    fail(
        "cross_entropy: targets are class positions and must be integers, these are {}; use "
        "target:long()",
        dtype_name(target.dtype()));
  Tensor safe, weight;
  {
    NoGrad off;
    const Tensor labels = to(target, Dtype::i64);
    const int64_t first = index_base, last = logits.size(1) - 1 + index_base;
    for (int64_t i = 0; i < labels.numel(); ++i) {
      const int64_t label = labels.at_integer(i);
      if (label != ignore_index && (label < first || label > last))
        fail("cross_entropy: target {} is {}, expected {}..{} (labels count from {} here)",
             i + index_base, label, first, last, first);
    }
    const Tensor kept = ne(labels, Tensor(double(ignore_index)));
    safe = where(kept, labels - Tensor(double(first)), Tensor(0.0));
    weight = to(kept, logits.dtype());
  }
  const Tensor picked = squeeze(gather(log_softmax(logits, 1), 1, unsqueeze(safe, 1)), 1);
  const Tensor loss = -where(to(weight, Dtype::b8), picked, Tensor(0.0));
  if (how == Reduction::none) return loss;
  return how == Reduction::sum ? sum(loss) : sum(loss) / sum(weight);
}

}  // namespace mt
