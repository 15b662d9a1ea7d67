// gradcheck.h -- compares gradients with finite differences
#pragma once
#include <functional>

#include "engine/core/tensor.h"

namespace mt {

struct GradcheckOptions {
  double eps = 1e-6, atol = 1e-5, rtol = 1e-3, nondet_tol = 0;  // as torch.autograd.gradcheck
};
using TensorFunction = std::function<Tensor(const TensorList&)>;

/// Compares the Jacobian of `f` with respect to each float64 input that requires a gradient with
/// central differences, and checks that a second backward gives the same result, up to nondet_tol.
/// Throws an Error with the first entry that differs.
void gradcheck(const TensorFunction& f, const TensorList& inputs, const GradcheckOptions& = {});
/// Does the same for the gradient of the outputs' sum, weighted by numbers from 0.5 to 1.5, and by these weights.
void gradgradcheck(const TensorFunction& f, const TensorList& inputs, const GradcheckOptions& = {});

}  // namespace mt
