// graph.h -- CUDA graphs: a run of operations captured once and replayed
#pragma once
#include <memory>

#include "engine/core/async_errors.h"

namespace mt {

/// A run of operations on one GPU, captured for replays. See mt.cuda.graph.
class Graph {
 public:
  /// Begins the capture. Throws if one is active, or if the GPU does not support it.
  explicit Graph(const Device&);
  Graph(const Graph&) = delete;
  ~Graph();
  /// Ends the capture. Without `keep`, or after an error, nothing can be replayed.
  void finish(bool keep);
  /// Queues everything that was captured. Optimizers count the steps, with their current options.
  void replay();
  const Gpu& gpu() const { return gpu_; }

 private:
  const Gpu& gpu_;
  std::unique_ptr<Capture> capture_;
  void* handle_ = nullptr;
  uint64_t begun_ = 0, draws_ = 0;  // the default generator's counter, and its advance per replay
};

}  // namespace mt
