// common.h -- common parts of operations: checks of tensors, compute dtypes, constants, memory for results
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/core/device.h"
#include "engine/core/tensor.h"

namespace mt {

// ---- checks -------------------------------------------------------------------------------------

/// Refuses tensors on two devices.
void check_together(const char* operation, const Tensor& x, const Tensor& y);
/// Throws for non-float dtypes; `what` begins the sentence, `name` is the tensor in the advice.
void check_float(const char* operation, const Tensor&, const char* what = "the input is",
                 const char* name = "x");
/// Throws for dtypes that are not integer, and for bool.
void check_integers(const char* operation, const Tensor&, const char* what, const char* name);
/// Throws for a defined tensor whose shape is not this one or whose device is not x's.
void check_beside(const char* operation, const char* what, const Tensor&, const Tensor& x,
                  const Shape&);
/// Throws an Error if OpenBLAS cannot be opened.
void require_openblas(const char* name);

// ---- compute dtypes: storage-only dtypes are converted to float32 or int32 and back -------------
//
// Every call of a verb that does not support them (kernels/device.h) uses one of these functions,
// so that gradients, which call the same verbs, need no conversions.

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

// ---- constants: CPU tensors of numbers that do not depend on tensors, as tables and lists --------

/// The tensor that `write(T* to)` fills. Its values may depend on shapes and options, and on
/// elements of tensors only if those were read by `item`: a recorded step keeps the numbers.
template <class T> Tensor constants(const Shape& shape, const auto& write) {
  const Tensor x = empty(shape, dtype_of<T>);
  write(x.argument_as<T>());
  mark_constant(x);
  return x;
}

/// The numbers of a list, as a 1-d tensor.
template <class T> Tensor constants(const std::vector<T>& list) {
  return constants<T>({int64_t(list.size())}, [&](T* to) { std::ranges::copy(list, to); });
}

// ---- {out=t}: a result written to memory of the caller ------------------------------------------

/// While it exists, the next operation of this thread (elementwise, reduction, product) writes its
/// result to *target if that has the result's shape, dtype and device; null: new memory.
struct Into : SaveAndRestore<const Tensor*> {
  explicit Into(const Tensor* target) : SaveAndRestore(thread_state.out, target) {}
  /// Returns and clears the target, so that nested operations do not use it.
  static const Tensor* take() { return std::exchange(thread_state.out, nullptr); }
};

/// Uninitialised memory for a result: the target if it fits, otherwise new memory. `dense`: the
/// target must be contiguous.
Tensor result_in(const Tensor* target, const Shape&, Dtype, const Device&, bool dense = false);

/// Whether both view the same elements in the same order.
bool same_place(const Tensor&, const Tensor&);

}  // namespace mt
