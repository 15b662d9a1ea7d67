// upcast.h -- 16-bit floats where a verb calculates: as float32 before it, rounded after it
//
// Every call of a verb that takes no 16-bit floats (kernels/device.h) goes through one of these, so
// that gradients, which call the same verbs, need nothing of their own.
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// x in another dtype, outside the graph.
Tensor cast_no_grad(const Tensor& x, Dtype dtype);
/// What x is calculated in: float32 for a 16-bit float, else x itself. Outside the graph where it is
/// converted.
inline Tensor to_compute_dtype(const Tensor& x) {
  return x.defined() && is_half(x.dtype()) ? cast_no_grad(x, Dtype::f32) : x;
}
/// Rounds `wide` into the elements of `out`, outside the graph.
void round_into(const Tensor& out, const Tensor& wide);

/// `f(out)` for an `out` that is read and written and must not be a 16-bit float.
template <class F> void in_compute_dtype(const Tensor& out, const F& f) {
  if (!is_half(out.dtype())) return f(out);
  const Tensor wide = cast_no_grad(out, Dtype::f32);
  f(wide);
  round_into(out, wide);
}

}  // namespace mt
