// lazy_scope.h -- queues elementwise operations and reductions for fusion (engine/compiler/program/fuse.h)
#pragma once

#include "engine/core/error.h"
#include "engine/core/tensor.h"
#include "engine/core/thread.h"

namespace mt {

struct Reducing;  // ops/reduce_common.h

/// While one is set on a thread, elementwise operations and reductions ask it first.
struct LazyScope {
  /// A tensor without data yet; undefined where it does not take the operation, and then the data of
  /// all inputs is there.
  virtual Tensor elementwise(int op, const Tensor* const* inputs, const double* params) = 0;
  virtual Tensor reduce(const Reducing&, const Tensor&) = 0;
  /// The positions that belong to such a reduction of x, computed when they are needed.
  virtual Tensor positions(const Reducing&, const Tensor& x) = 0;
  /// Computes all that waits: something is about to be changed in place.
  virtual void evaluate_all() = 0;
  /// The function asks for a number, of what may not be computed yet.
  [[noreturn]] void refuse_number() {
    asked_ = true;
    check_asked();
    __builtin_unreachable();
  }
  /// It is an error also where the function caught it.
  void check_asked() const {
    if (asked_) fail("a fused function cannot ask for numbers; return the tensor and ask outside");
  }

 private:
  bool asked_ = false;
};

/// Operations are computed at once while this lives.
struct EagerScope : SaveAndRestore<LazyScope*> {
  EagerScope() : SaveAndRestore(thread_state.lazy, nullptr) {}
};

}  // namespace mt
