// lazy_scope.h -- queues elementwise operations and reductions for fusion (engine/compiler/program/fuse.h)
#pragma once

#include "engine/core/error.h"
#include "engine/core/tensor.h"
#include "engine/core/thread.h"

namespace mt {

struct Reducing;  // ops/reduce_common.h

/// While one is set on a thread, elementwise operations and reductions call it first.
struct LazyScope {
  /// Returns a tensor without data yet, or an undefined one if it does not accept the operation;
  /// then all inputs have their data.
  virtual Tensor elementwise(int op, const Tensor* const* inputs, const double* params) = 0;
  virtual Tensor reduce(const Reducing&, const Tensor&) = 0;
  /// The positions that belong to such a reduction of x; they are computed on demand.
  virtual Tensor positions(const Reducing&, const Tensor& x) = 0;
  /// Computes all deferred tensors, before something is changed in place.
  virtual void evaluate_all() = 0;
  /// Refuses to read a number of a tensor that may not be computed yet.
  [[noreturn]] void refuse_number() {
    asked_ = true;
    check_asked();
    __builtin_unreachable();
  }
  /// It is an error even if the function caught it.
  void check_asked() const {
    if (asked_) fail("a fused function cannot ask for numbers; return the tensor and ask outside");
  }

 private:
  bool asked_ = false;
};

/// During its lifetime operations are computed at once.
struct EagerScope : SaveAndRestore<LazyScope*> {
  EagerScope() : SaveAndRestore(thread_state.lazy, nullptr) {}
};

}  // namespace mt
