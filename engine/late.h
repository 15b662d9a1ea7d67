// late.h -- what a GPU tells later than it is asked: wrong positions, failures; graphs under way
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "engine/device.h"
#include "engine/shape.h"

namespace mt {

/// What a verb of a GPU looks for in positions that are data, for the sentence about a wrong one:
/// they go from `first` to `last` as the user counts them, who sees `shift` more than the GPU does.
struct Expected {
  enum Kind { position, label, id };
  Kind kind;
  const char* name;
  int64_t first, last, shift;
  int dim;      // of a position: where in
  Shape shape;  // this
};

/// After such a verb was started on a GPU. With MTORCH_CUDA_SYNC it has said what it found.
void expect(const Device&, const Expected&);
/// "position 5 is outside 1..4 (dimension 2 of (3 x 4))"
std::string unexpected(const Expected&, int64_t value);
/// Whether a verb that looks at positions says at once what it finds.
bool tells_at_once(const Device&);

/// The numbers of a step from its learning rate and its place among the steps.
using StepRule = std::function<StepNumbers(double lr, int64_t step)>;

/// A run of operations on one GPU, recorded to be replayed. See mt.cuda.graph.
class Graph {
 public:
  /// Begins the recording. Throws where one is under way, or the GPU cannot.
  explicit Graph(const Device&);
  Graph(const Graph&) = delete;
  ~Graph();
  /// Ends the recording. Without `keep`, or where something went wrong, nothing can be replayed.
  void finish(bool keep);
  /// Queues all that was recorded; `steps` are the optimizers', as many and in the order as they
  /// were recorded.
  struct Step {
    double lr;
    int64_t number;
  };
  void replay(const std::vector<Step>& steps);
  const Gpu& gpu() const { return gpu_; }

 private:
  friend void expect(const Device&, const Expected&);
  friend void record_step(StepRule);
  friend void raise_unexpected(const Gpu&);
  const Gpu& gpu_;
  void* handle_ = nullptr;
  std::vector<StepRule> steps_;
  uint64_t begun_ = 0, draws_ = 0;  // of the default generator: its place, how far a run goes on
  std::vector<std::pair<uint64_t, Expected>> expected_;
  Graph* next_ = nullptr;
};
/// The next sgd or adam of the GPU that is recorded reads its numbers from each replay.
void record_step(StepRule);

/// Which of the user's functions is under way, or null; the bindings know.
extern const char* (*function_under_way)();

/// A call of the user's after which GPUs had more to do.
struct GpuCall {
  const char* function;
  char where[64];  // "train.lua:12"
  int64_t started = 0;
};
/// A place for what was called, where GPUs have more to do than when this was asked last; else null.
GpuCall* new_gpu_call();

}  // namespace mt
