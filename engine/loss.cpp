// loss.cpp -- losses, composed of other operations
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

}  // namespace

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
