// out.h -- {out=t}: a result written to memory of the caller
#pragma once
#include <utility>

#include "engine/core/tensor.h"

namespace mt {

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
