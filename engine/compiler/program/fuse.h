// fuse.h -- fused functions: elementwise operations and reductions of rows are deferred, and run as one program
//
// While a fused function runs, an operation adds its value to the program of its iteration space
// (the shape of its elements) and returns a tensor without data (Deferred). A tensor that is needed
// elsewhere, or that the function returns, is computed by the part of the program that leads to it.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/lazy_scope.h"
#include "engine/core/tensor.h"

namespace mt {
struct OpRow;  // engine/ops/ops.h
}

namespace mt::ir {

/// Whether programs by rows support the reduction.
bool fuses_rows(int reduction);
inline Shape without_last(const Shape& s) { return Shape(s.data(), s.size() - 1); }

class Fusion;  // one iteration space and its program

/// The iteration space of an operation: the broadcast shape of its operands.
struct IterationSpace {
  Shape result;  // initially that of the first operand
  Dtype dtype = Dtype::none;
  const Device* device = nullptr;
  bool wants = false;  // whether a gradient is needed
};

/// Intercepts the operations of this thread during its lifetime.
class Fuser : public LazyScope {
 public:
  Fuser();
  Fuser(const Fuser&) = delete;
  ~Fuser();
  Tensor elementwise(int op, const Tensor* const* inputs, const double* params) override;
  Tensor reduce(const Reducing&, const Tensor&) override;
  Tensor positions(const Reducing&, const Tensor&) override;
  void evaluate_all() override;
  /// Operations on fewer elements are computed at once, in a function of rows those on fewer than
  /// 16 times as many: a program would be slower.
  static inline std::atomic<int64_t> smallest = 2048;
  /// This thread's list of operations that are not deferred: line and reason (mt.explain).
  static inline thread_local std::vector<std::string>* notes = nullptr;
  /// Computes these tensors; those of one space are computed together.
  static void evaluate_together(const std::vector<Tensor>&);

 private:
  bool can_wait(const OpRow&, const Tensor* const* inputs, IterationSpace&) const;
  bool can_wait(const Reducing&, const Tensor&, IterationSpace&);
  std::shared_ptr<Fusion> fusion_of(const IterationSpace&, const Tensor* const* inputs, int n);
  Tensor wait(Tensor);
  std::vector<std::shared_ptr<Fusion>> open_;
  std::vector<Tensor> waiting_;
  int64_t min_elements_ = smallest.load(std::memory_order_relaxed);
  const int64_t min_rows_ = 16 * min_elements_;
  LazyScope* const before_;
};

}  // namespace mt::ir
