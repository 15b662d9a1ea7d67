// optim.h -- one step of an optimizer over all parameters
#pragma once
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

struct SgdOptions {
  double lr = 0.01, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
/// One step for every parameter that has a gradient; `velocity` (one entry each) is filled when
/// momentum asks for it.
void sgd_step(const std::vector<Tensor>& parameters, std::vector<Tensor>& velocity,
              const SgdOptions&);
struct AdamOptions {
  double lr = 0.001, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;
  int64_t step = 1;
};
void adam_step(const std::vector<Tensor>& parameters, std::vector<Tensor>& mean,
               std::vector<Tensor>& square, const AdamOptions&);

}  // namespace mt
