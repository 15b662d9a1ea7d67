// fuse.h -- fused functions: elementwise operations and reductions of rows wait, and run as one program
//
// While a fused function runs, an operation adds its value to the program of its iteration space (the
// shape of its elements) and gives a tensor without data (Deferred). A tensor that something else
// needs, or that the function returns, is computed by the part of the program that leads to it.
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

/// Whether programs by rows have the reduction.
bool fuses_rows(int reduction);
inline Shape without_last(const Shape& s) { return Shape(s.data(), s.size() - 1); }

class Fusion;  // one iteration space and its program

/// The iteration space of an operation: what its operands are broadcast to.
struct IterationSpace {
  Shape result;  // at first that of the first operand
  Dtype dtype = Dtype::none;
  const Device* device = nullptr;
  bool wants = false;  // a gradient
};

/// Takes over the operations of this thread while it lives.
class Fuser : public LazyScope {
 public:
  Fuser();
  Fuser(const Fuser&) = delete;
  ~Fuser();
  Tensor elementwise(int op, const Tensor* const* inputs, const double* params) override;
  Tensor reduce(const Reducing&, const Tensor&) override;
  Tensor positions(const Reducing&, const Tensor&) override;
  void evaluate_all() override;
  /// Operations on fewer elements are computed at once, in a function of rows those on fewer than 16
  /// times as many: a program would take longer.
  static inline std::atomic<int64_t> smallest = 2048;
  /// Where this thread notes what does not wait: its line, and why (mt.explain).
  static inline thread_local std::vector<std::string>* notes = nullptr;
  /// Computes these tensors, those of one space together.
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
