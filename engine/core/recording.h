// recording.h -- while a step is recorded (engine/compile/replay.h): what memory and tensors tell the recorder
#pragma once
#include <string>

namespace mt {

struct IndexBound;
struct Storage;
class Tensor;

/// Hears of this thread's storages, and of decisions by values.
struct Recording {
  virtual void allocated(Storage*) = 0;
  /// Its memory stays with the recording.
  virtual void freed(Storage*) = 0;
  /// Numbers were written into it that no tensor gave: they are the same at each replay.
  virtual void made_constant(Storage*) = 0;
  /// Numbers are computed from tensors without a verb, or elements decide what an operation does:
  /// there is nothing that a replay could repeat.
  virtual void computes_beside() = 0;
  /// A function reads or changes something that is no tensor.
  virtual void reaches_out() = 0;
  /// Its flag is about to be another.
  virtual void changes_requires_grad(const Tensor&) = 0;
  /// The last verb looks on a GPU whether positions are there.
  virtual void checks(const IndexBound&) = 0;
  /// Somebody asks for an element, and what comes next may depend on it. Throws where the step itself
  /// does; where a file of the library does (`by`), the step will run as it is.
  virtual void reads_element(const std::string& by) = 0;

 protected:
  ~Recording() = default;
};
extern constinit thread_local Recording* step_recorder [[gnu::tls_model("initial-exec")]];

/// To be called after numbers were written into x beside the verbs, that no tensor gave.
void tell_constant(const Tensor& x);
/// To be called where tensors are computed from others beside the verbs, or elements are read.
inline void tell_beside() {
  if (step_recorder) [[unlikely]]
    step_recorder->computes_beside();
}

}  // namespace mt
