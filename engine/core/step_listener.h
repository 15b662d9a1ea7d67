// step_listener.h -- the events of memory and tensors for the recorder of a step (engine/compiler/record/replay.h)
#pragma once
#include <string>

namespace mt {

struct Exchange;
struct IndexBound;
struct Storage;
class Tensor;

/// Called for the storages of this thread, and when a result depends on values.
struct StepListener {
  virtual void on_allocate(Storage*) {}
  /// A storage is freed; its memory stays with the recording.
  virtual void on_free(Storage*) {}
  /// Numbers that do not depend on a tensor were written to it: they are the same at each replay.
  virtual void on_constant(Storage*) {}
  /// Numbers are computed from tensors without a verb, or elements decide what an operation does: a
  /// replay could not repeat that.
  virtual void on_untraced_computation() {}
  /// A function reads or changes something other than tensors; `what` replaces this reason.
  virtual void on_external_effect([[maybe_unused]] const char* what = nullptr) {}
  /// The tensor's requires_grad is about to change.
  virtual void on_requires_grad_change(const Tensor&) {}
  /// The last verb checks on a GPU whether indices are in bounds.
  virtual void on_index_check(const IndexBound&) {}
  /// An element is read, and the next operations may depend on it. Throws if the step itself reads
  /// it; if a file of the library does (`by`), the step will run eagerly.
  virtual void on_element_read(const std::string& by) = 0;
  /// The tensor is passed to the step as an argument, or the step reads one of its fields.
  virtual void on_use(const Tensor&) {}
  /// The step reads its .grad.
  virtual void on_grad_read(const Tensor&) {}
  /// Other processes take part: runs it.
  virtual void on_exchange(const Exchange&) = 0;

 protected:
  ~StepListener() = default;
};
extern constinit thread_local StepListener* step_recorder [[gnu::tls_model("initial-exec")]];

/// Call it after numbers that do not depend on a tensor were written into x without a verb.
void mark_constant(const Tensor& x);
/// Call it where tensors are computed from others without a verb, or elements are read.
inline void mark_untraceable() {
  if (step_recorder) [[unlikely]]
    step_recorder->on_untraced_computation();
}

}  // namespace mt
