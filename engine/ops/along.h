// along.h -- vectors along one dimension, in shapes that broadcast with a tensor
#pragma once
#include <algorithm>

#include "engine/ops/views.h"

namespace mt {

/// The shape with `rank` dimensions that is n in dimension d and 1 in the others.
inline Shape sizes_along(int rank, int d, int64_t n) {
  Shape shape;
  for (int k = 0; k < rank; ++k) shape.push(k == d ? n : 1);
  return shape;
}

/// Views a vector (may be undefined) as [channels x 1 ..], which broadcasts with x.
inline Tensor by_channel(const Tensor& t, const Tensor& x) {
  if (!t.defined()) return t;
  return reshape(t, sizes_along(std::max(x.dim() - 1, 1), 0, t.numel()));
}

}  // namespace mt
