// async_errors.h -- errors that a GPU reports after the call: positions out of bounds, failed kernels
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/device.h"
#include "engine/core/shape.h"

namespace mt {

/// The bounds of positions that a GPU's verb checks, for the message about one outside: `first` to
/// `last` as the user counts them, `shift` more than the kernel does.
struct IndexBound {
  enum Kind { position, label, id };
  Kind kind;
  const char* name;
  int64_t first, last, shift;
  int dim;      // of a position: where in
  Shape shape;  // this
};

/// After such a verb was launched on a GPU: keeps its bounds until a synchronisation has read
/// whether they held. With MTORCH_CUDA_SYNC the verb has reported already.
void defer_check(const Device&, IndexBound);
/// The same at a replay of what was recorded then.
void defer_again(const Device&, const IndexBound&);
/// Calls `look`, which may throw, once somebody has waited for what the GPU was given until now.
void when_done(const Gpu&, std::function<void()> look);
/// "position 5 is outside 1..4 (dimension 2 of (3 x 4))"
std::string describe_violation(const IndexBound&, int64_t value);
/// Whether a verb that checks positions reports a wrong one when it is called.
bool reports_synchronously(const Device&);

/// What a CUDA graph keeps of its recording beside the work itself (mt::Graph). Lives as long as
/// the graph, so that errors of its replays find their bounds.
struct Capture {
  explicit Capture(const Gpu&);
  Capture(const Capture&) = delete;
  ~Capture();
  const Gpu& gpu;
  std::vector<std::pair<uint64_t, IndexBound>> bounds;  // by the number of the check
  /// What a replay does first, in order: all of them with `false`, which may throw and changes
  /// nothing, then with `true`.
  std::vector<std::function<void(bool commit)>> before_replay;
  Capture* next;  // of all that live
};
/// The capture of this moment, or null; `capturing` is its GPU.
extern Capture* current_capture;
void set_current_capture(Capture*);

/// A call of the user's that launched work on a GPU.
struct GpuCall {
  const char* function;
  char where[64];  // "train.lua:12"
  int64_t started = 0;
};
/// The entry for this call if GPUs were given work since the last one was asked for; else null.
GpuCall* new_gpu_call();

}  // namespace mt
