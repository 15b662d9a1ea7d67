// channels.h -- a number for each channel, seen beside a tensor of (batch, channels, ..)
#pragma once
#include "engine/ops/views.h"

namespace mt {

/// A vector, or nothing, as [channels x 1 ..], which broadcasts with x.
inline Tensor by_channel(const Tensor& t, const Tensor& x) {
  if (!t.defined()) return t;
  Shape shape{t.numel()};
  while (shape.size() < x.dim() - 1) shape.push(1);
  return reshape(t, shape);
}

}  // namespace mt
