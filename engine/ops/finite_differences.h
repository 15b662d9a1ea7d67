// finite_differences.h -- functions that are known at places: their integrals and their slopes
#pragma once
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

/// Where the samples along a dimension lie: `apart` by a number, or at the places of a tensor.
struct Spacing {
  double apart = 1;
  Tensor at;
};

/// The integral along a dimension by the trapezoidal rule, 0 of fewer than two samples. The places
/// are a vector, or broadcast with y.
Tensor trapezoid(const Tensor& y, const Spacing& = {}, int64_t dim = -1);
/// The integral up to each sample but the first.
Tensor cumulative_trapezoid(const Tensor& y, const Spacing& = {}, int64_t dim = -1);

/// The slope along each of the dimensions: inside by central differences, exact for parabolas, at
/// the ends one-sided, of order 1 or 2. One spacing for each; places are vectors.
TensorList gradient(const Tensor&, const std::vector<Spacing>&, const Shape& dims,
                    int64_t edge_order = 1);

}  // namespace mt
