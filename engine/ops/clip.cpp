// clip.cpp -- gradient clipping by norm and by value
#include "engine/ops/optim.h"

#include <cmath>

#include "engine/autograd/graph.h"
#include "engine/ops/ops.h"

namespace mt {
/// The gradients that are defined and have elements.
static TensorList gradients_of(const TensorList& parameters) {
  TensorList all;
  for (const Tensor& p : parameters)
    if (Tensor g = p.grad(); g.defined() && g.numel() > 0) all.push_back(std::move(g));
  return all;
}

Tensor clip_grad_norm_(const TensorList& parameters, double max_norm, double p, bool finite) {
  const NoGrad off;
  const TensorList all = gradients_of(parameters);
  if (all.empty()) return zeros({});
  TensorList norms;
  for (const Tensor& g : all)
    norms.push_back(to(norm(to(g, compute_dtype(g.dtype())), p), all[0].device()));
  const Tensor total = norms.size() == 1 ? norms[0] : norm(stack(norms), p);
  if (finite && !std::isfinite(total.item()))
    fail("clip_grad_norm_: the norm of the gradients is {}", show(total.item()));
  Tensor factor = minimum(max_norm / (total + 1e-6), 1.0);
  for (const Tensor& g : all) {
    if (&factor.device() != &g.device()) factor = to(factor, g.device());
    g *= factor;
  }
  return total;
}

void clip_grad_value_(const TensorList& parameters, double clip_value) {
  const NoGrad off;
  const double range[op::kMaxParams] = {-clip_value, clip_value};
  for (const Tensor& g : gradients_of(parameters)) {
    const Tensor* inputs[] = {&g};
    elementwise_(op::id<op::Clamp>, inputs, range);
  }
}

}  // namespace mt
