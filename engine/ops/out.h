// out.h -- {out=t}: a result made in memory that the caller has
#pragma once
#include <utility>

#include "engine/core/tensor.h"

namespace mt {

/// While it lives, the next operation of this thread (elementwise, reduction, product) makes its
/// result in *target if that has the result's shape, dtype and device; null for new memory.
struct Into : SaveAndRestore<const Tensor*> {
  explicit Into(const Tensor* target) : SaveAndRestore(thread_state.out, target) {}
  /// The target, which the operations inside the one that takes it do not see.
  static const Tensor* take() { return std::exchange(thread_state.out, nullptr); }
};

/// Uninitialised memory for a result: the target where it fits, else new. `dense`: only a contiguous
/// target fits.
Tensor result_in(const Tensor* target, const Shape&, Dtype, const Device&, bool dense = false);

/// Whether both are the same elements in the same order.
bool same_place(const Tensor&, const Tensor&);

}  // namespace mt
