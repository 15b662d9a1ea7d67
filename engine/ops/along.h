// along.h -- vectors along one dimension, seen beside tensors that they broadcast with
#pragma once
#include <algorithm>

#include "engine/ops/views.h"

namespace mt {

/// Sizes of 1, but n in dimension d.
inline Shape sizes_along(int rank, int d, int64_t n) {
  Shape shape;
  for (int k = 0; k < rank; ++k) shape.push(k == d ? n : 1);
  return shape;
}

/// A vector, or nothing, as [channels x 1 ..], which broadcasts with x (batch, channels, ..).
inline Tensor by_channel(const Tensor& t, const Tensor& x) {
  if (!t.defined()) return t;
  return reshape(t, sizes_along(std::max(x.dim() - 1, 1), 0, t.numel()));
}

}  // namespace mt
