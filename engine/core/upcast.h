// upcast.h -- the compute dtypes of verbs: storage-only dtypes are converted to float32 or int32 and back
//
// Every call of a verb that does not support them (kernels/device.h) uses one of these functions,
// so that gradients, which call the same verbs, need no conversions.
#pragma once
#include "engine/core/device.h"
#include "engine/core/tensor.h"

namespace mt {

/// x in another dtype, outside the graph.
Tensor cast_no_grad(const Tensor& x, Dtype dtype);
/// x in its compute dtype: float32 for a 16-bit or 8-bit float, int32 for int8 and int16, otherwise x
/// itself. A converted tensor is outside the graph.
inline Tensor to_compute_dtype(const Tensor& x) {
  return x.defined() && is_storage_only(x.dtype()) ? cast_no_grad(x, compute_dtype(x.dtype())) : x;
}
/// The dtype in which products, convolutions and attention of a device compute: that of the
/// elements, which for a GPU may be a 16-bit float.
inline Dtype product_dtype(Dtype d, const Device& device) {
  return is_half(d) && !is_cpu(device) ? d : compute_dtype(d);
}
/// Converts `wide` into the elements of `out`, outside the graph.
void round_into(const Tensor& out, const Tensor& wide);

/// Whether a product of this dtype may use TF32 on the device.
inline bool lets_tf32(Dtype dtype, const Device& device) {
  return dtype == Dtype::f32 && !is_cpu(device) &&
         thread_state.matmul_precision != MatmulPrecision::highest;
}

/// Calls `f(out)` for an `out` that is read and written, in its compute dtype.
void in_compute_dtype(const Tensor& out, const auto& f) {
  if (!is_storage_only(out.dtype())) return f(out);
  const Tensor computed = to_compute_dtype(out);
  f(computed);
  round_into(out, computed);
}

}  // namespace mt
