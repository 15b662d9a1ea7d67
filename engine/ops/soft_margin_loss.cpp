// soft_margin_loss.cpp -- logistic losses, composed of other operations
#include "engine/ops/soft_margin_loss.h"

#include "engine/ops/ops.h"

namespace mt {
namespace {

Tensor reduced(const Tensor& loss, Reduction how) {
  return how == Reduction::mean ? mean(loss) : how == Reduction::sum ? sum(loss) : loss;
}

void check_scores(const char* name, const Tensor& x) {
  if (!is_float(x.dtype()))
    fail("{}: the scores are {}; use x:float()", name, dtype_name(x.dtype()));
}

}  // namespace

Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction how) {
  check_scores("soft_margin_loss", x);
  broadcast("soft_margin_loss", x.shape(), target.shape());
  return reduced(softplus(-(target * x), Tensor(1.0), Tensor(1e30)), how);
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                                   Reduction how) {
  const char* name = "multilabel_soft_margin_loss";
  check_scores(name, x);
  if (!(x.shape() == target.shape()) || x.dim() == 0)
    fail("{}: the scores are {}, the targets {}; expected (n x classes) twice", name,
         to_string(x.shape()), to_string(target.shape()));
  const Tensor each = binary_cross_entropy_with_logits(x, target, weight, Reduction::none);
  return reduced(mean(each, {x.dim() - 1}), how);
}

}  // namespace mt
