// upcast.h -- what a verb calculates in: dtypes that are only stored are float32 or int32 around it
//
// Every call of a verb that does not take them (kernels/device.h) goes through one of these, so
// that gradients, which call the same verbs, need nothing of their own.
#pragma once
#include "engine/core/device.h"
#include "engine/core/tensor.h"

namespace mt {

/// x in another dtype, outside the graph.
Tensor cast_no_grad(const Tensor& x, Dtype dtype);
/// What x is calculated in: float32 for a 16-bit float, int32 for int8 and int16, else x itself. Outside the
/// graph where it is converted.
inline Tensor to_compute_dtype(const Tensor& x) {
  return x.defined() && is_storage_only(x.dtype()) ? cast_no_grad(x, compute_dtype(x.dtype())) : x;
}
/// Converts `wide` into the elements of `out`, outside the graph.
void round_into(const Tensor& out, const Tensor& wide);

/// Whether a product of this dtype may be one of TF32 there.
inline bool lets_tf32(Dtype dtype, const Device& device) {
  return dtype == Dtype::f32 && !is_cpu(device) &&
         thread_state.matmul_precision != MatmulPrecision::highest;
}

/// `f(out)` for an `out` that is read and written, in the dtype that is calculated in.
void in_compute_dtype(const Tensor& out, const auto& f) {
  if (!is_storage_only(out.dtype())) return f(out);
  const Tensor computed = to_compute_dtype(out);
  f(computed);
  round_into(out, computed);
}

}  // namespace mt
