// async_errors.h -- errors that a GPU reports after the call: indices out of bounds, failed kernels
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/device.h"
#include "engine/core/shape.h"

namespace mt {

/// The bounds of indices that a GPU's verb checks, for the error message: `first` to `last` as the
/// user counts them, `shift` more than in the kernel.
struct IndexBound {
  enum Kind { position, label, id };
  Kind kind;
  const char* name;
  int64_t first, last, shift;
  int dim;      // of a position: its dimension
  Shape shape;  // of the indexed tensor
};

/// To be called after a GPU's verb that checks indices: keeps the bounds until a synchronisation has read whether an
/// index was out of bounds. With MTORCH_CUDA_SYNC the verb has already reported it.
void defer_check(const Device&, IndexBound);
/// Does the same when a recorded verb is replayed, without notifying the recorder.
void defer_replayed_check(const Device&, const IndexBound&);
/// Calls `check`, which may throw, at the first synchronisation after which the work queued so far is done.
void after_sync(const Gpu&, std::function<void()> check);
/// "position 5 is outside 1..4 (dimension 2 of (3 x 4))"
std::string describe_violation(const IndexBound&, int64_t value);
/// Whether a verb that checks indices reports an invalid one in the call itself.
bool reports_synchronously(const Device&);

/// The data of a CUDA graph's recording besides its work (mt::Graph). It lives as long as the
/// graph, so that errors in replays find their bounds.
struct Capture {
  explicit Capture(const Gpu&);
  Capture(const Capture&) = delete;
  ~Capture();
  const Gpu& gpu;
  std::vector<std::pair<uint64_t, IndexBound>> bounds;  // by the number of the check
  /// Functions that a replay runs first, in order: all of them with `false`, which may throw and
  /// changes nothing, then all with `true`.
  std::vector<std::function<void(bool commit)>> before_replay;
  Capture* next;  // a list of all captures
};
/// The current capture, or null; `capturing` is its GPU.
extern Capture* current_capture;
void set_current_capture(Capture*);

/// A call by the user that launched work on a GPU.
struct GpuCall {
  const char* function;
  char where[64];       // "train.lua:12"
  int64_t started = 0;  // kernels and copies of all GPUs when the entry was created
};
/// A new entry for the current call if work was launched on GPUs since the last entry; otherwise null.
GpuCall* new_gpu_call();

}  // namespace mt
