// optim.cpp -- optimizer steps over all parameters in one call
#include <cmath>

#include "engine/autograd/graph.h"
#include "engine/core/async_errors.h"
#include "engine/core/upcast.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

/// Calls `step(i, value, gradient)` for each parameter that has a gradient, with plain contiguous
/// data.
template <class Step>
void each(const char* name, const std::vector<Tensor>& parameters, const Step& step) {
  NoGrad off;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    check_alive(p.device());
    Tensor g = p.grad();
    if (!g.defined()) continue;
    if (!(g.shape() == p.shape()))
      fail("{}: parameter {} is {}, its gradient {}", name, i + 1, to_string(p.shape()),
           to_string(g.shape()));
    if (!is_float(p.dtype())) fail("{}: parameter {} is {}", name, i + 1, dtype_name(p.dtype()));
    if (&g.device() != &p.device())
      fail("{}: parameter {} is on {}, its gradient on {}", name, i + 1, p.device().name,
           g.device().name);
    g = contiguous(to(g, wide(p.dtype())));
    const Tensor value = contiguous(to_compute_dtype(p));
    step(i, value, g);
    if (value.impl() != p.impl()) copy_(p, value);
    else bump(p);
  }
}

/// In a graph the step gets its numbers from each replay.
void tell_graph(const std::vector<Tensor>& parameters, StepRule rule) {
  if (capturing && !parameters.empty() && &parameters[0].device() == capturing)
    record_step(std::move(rule));
}

/// State beside a parameter: zeros at first, then of the parameter's shape and dtype; float32 for
/// 16-bit floats.
void fit_state(const char* name, Tensor& state, const Tensor& value, size_t i) {
  if (!state.defined()) {
    if (capturing)
      fail(
          "{}: parameter {} has no state yet, which every replay would make anew; let mt.cuda.graph "
          "run the function before it records, warmup=1 or more",
          name, i + 1);
    state = zeros_like(value);
    return;
  }
  if (!(state.shape() == value.shape()))
    fail("{}: parameter {} is {}, its state {}; make a new optimizer", name, i + 1,
         to_string(value.shape()), to_string(state.shape()));
  state = contiguous(to(to(state, value.device()), value.dtype()));
}

}  // namespace

void sgd_step(const std::vector<Tensor>& parameters, std::vector<Tensor>& velocity,
              const SgdOptions& o) {
  velocity.resize(parameters.size());
  tell_graph(parameters, [](double lr, int64_t) { return StepNumbers{lr, 0, 0}; });
  each("SGD", parameters, [&](size_t i, const Tensor& value, const Tensor& g) {
    const bool first = !velocity[i].defined();
    if (o.momentum != 0) fit_state("SGD", velocity[i], value, i);
    value.device().sgd({value.dtype(),
                        value.numel(),
                        value.data(),
                        g.data(),
                        o.momentum != 0 ? velocity[i].data() : nullptr,
                        {o.lr, 0, 0},
                        o.momentum,
                        o.dampening,
                        o.weight_decay,
                        o.nesterov,
                        first});
  });
}

void adam_step(const std::vector<Tensor>& parameters, std::vector<Tensor>& mean,
               std::vector<Tensor>& square, const AdamOptions& o) {
  mean.resize(parameters.size());
  square.resize(parameters.size());
  const auto numbers = [beta1 = o.beta1, beta2 = o.beta2](double lr, int64_t step) {
    return StepNumbers{lr, 1 - std::pow(beta1, step), 1 - std::pow(beta2, step)};
  };
  const StepNumbers now = numbers(o.lr, o.step);
  tell_graph(parameters, numbers);
  each("Adam", parameters, [&](size_t i, const Tensor& value, const Tensor& g) {
    fit_state("Adam", mean[i], value, i);
    fit_state("Adam", square[i], value, i);
    value.device().adam({value.dtype(), value.numel(), value.data(), g.data(), mean[i].data(),
                         square[i].data(), now, o.beta1, o.beta2, o.eps, o.weight_decay,
                         o.decoupled});
  });
}

}  // namespace mt
