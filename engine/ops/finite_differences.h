// finite_differences.h -- integrals and slopes of sampled functions
#pragma once
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

/// The positions of the samples along a dimension: spaced by a number, or given by a tensor.
struct Spacing {
  double apart = 1;
  Tensor at;
};

/// The integral along a dimension by the trapezoidal rule, 0 for fewer than two samples. The
/// positions are a vector, or broadcast with y.
Tensor trapezoid(const Tensor& y, const Spacing& = {}, int64_t dim = -1);
/// The integral up to each sample except the first.
Tensor cumulative_trapezoid(const Tensor& y, const Spacing& = {}, int64_t dim = -1);

/// The slope along each dimension: central differences inside, exact for parabolas; one-sided ones
/// of order 1 or 2 at the ends. One spacing per dimension; positions are vectors.
TensorList gradient(const Tensor&, const std::vector<Spacing>&, const Shape& dims,
                    int64_t edge_order = 1);

}  // namespace mt
