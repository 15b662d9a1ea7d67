// optim.cpp -- optimizer steps over all parameters in one call
#include "engine/autograd.h"
#include "engine/ops.h"

namespace mt {
namespace {

/// Calls `step(i, value, gradient)` for each parameter that has a gradient, with plain contiguous
/// data.
template <class Step>
void each(const char* name, const std::vector<Tensor>& parameters, const Step& step) {
  NoGrad off;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    Tensor g = p.grad();
    if (!g.defined()) continue;
    if (!(g.shape() == p.shape()))
      fail("{}: parameter {} is {}, its gradient {}", name, i + 1, to_string(p.shape()),
           to_string(g.shape()));
    if (!is_float(p.dtype())) fail("{}: parameter {} is {}", name, i + 1, dtype_name(p.dtype()));
    g = contiguous(to(g, p.dtype()));
    const Tensor value = contiguous(p);
    step(i, value, g);
    if (value.impl() != p.impl()) copy_(p, value);
    else bump(p);
  }
}

void fill_state(std::vector<Tensor>& state, size_t i, const Tensor& like) {
  if (!state[i].defined()) state[i] = zeros_like(like);
}

}  // namespace

void sgd_step(const std::vector<Tensor>& parameters, std::vector<Tensor>& velocity,
              const SgdOptions& o) {
  velocity.resize(parameters.size());
  each("SGD", parameters, [&](size_t i, const Tensor& value, const Tensor& g) {
    const bool first = !velocity[i].defined();
    if (o.momentum != 0) fill_state(velocity, i, value);
    value.device().sgd({value.dtype(), value.numel(), value.data(), g.data(),
                        o.momentum != 0 ? velocity[i].data() : nullptr, o.lr, o.momentum,
                        o.dampening, o.weight_decay, o.nesterov, first});
  });
}

void adam_step(const std::vector<Tensor>& parameters, std::vector<Tensor>& mean,
               std::vector<Tensor>& square, const AdamOptions& o) {
  mean.resize(parameters.size());
  square.resize(parameters.size());
  each("Adam", parameters, [&](size_t i, const Tensor& value, const Tensor& g) {
    fill_state(mean, i, value);
    fill_state(square, i, value);
    value.device().adam({value.dtype(), value.numel(), value.data(), g.data(), mean[i].data(),
                         square[i].data(), o.lr, o.beta1, o.beta2, o.eps, o.weight_decay,
                         o.decoupled, o.step});
  });
}

}  // namespace mt
