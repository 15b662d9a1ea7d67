// step_listener.h -- what memory and tensors report to the recorder of a step (engine/compiler/record/replay.h)
#pragma once
#include <string>

namespace mt {

struct IndexBound;
struct Storage;
class Tensor;

/// Is called for the storages of this thread, and for decisions by values.
struct StepListener {
  virtual void on_allocate(Storage*) = 0;
  /// Its memory stays with the recording.
  virtual void on_free(Storage*) = 0;
  /// Numbers were written into it that no tensor gave: they are the same at each replay.
  virtual void on_constant(Storage*) = 0;
  /// Numbers are computed from tensors without a verb, or elements decide what an operation does:
  /// there is nothing that a replay could repeat.
  virtual void on_untraced_computation() = 0;
  /// A function reads or changes something that is no tensor.
  virtual void on_external_effect() = 0;
  /// Its flag is about to be another.
  virtual void on_requires_grad_change(const Tensor&) = 0;
  /// The last verb looks on a GPU whether positions are there.
  virtual void on_index_check(const IndexBound&) = 0;
  /// An element is read, and what comes next may depend on it. Throws where the step itself
  /// does; where a file of the library does (`by`), the step will run as it is.
  virtual void on_element_read(const std::string& by) = 0;
  /// The step was given this tensor, or reads one of its fields.
  virtual void on_use(const Tensor&) = 0;
  /// The step reads its .grad.
  virtual void on_grad_read(const Tensor&) = 0;

 protected:
  ~StepListener() = default;
};
extern constinit thread_local StepListener* step_recorder [[gnu::tls_model("initial-exec")]];

/// To be called after numbers that depend on no tensor were written into x without a verb.
void mark_constant(const Tensor& x);
/// To be called where tensors are computed from others without a verb, or elements are read.
inline void mark_untraceable() {
  if (step_recorder) [[unlikely]]
    step_recorder->on_untraced_computation();
}

}  // namespace mt
