// graph.h -- CUDA graphs: a run of operations recorded once and replayed
#pragma once
#include <memory>

#include "engine/core/async_errors.h"

namespace mt {

/// A run of operations on one GPU, recorded to be replayed. See mt.cuda.graph.
class Graph {
 public:
  /// Begins the recording. Throws where one is under way, or the GPU cannot.
  explicit Graph(const Device&);
  Graph(const Graph&) = delete;
  ~Graph();
  /// Ends the recording. Without `keep`, or where something went wrong, nothing can be replayed.
  void finish(bool keep);
  /// Queues all that was recorded. The optimizers' steps count, with the options of now.
  void replay();
  const Gpu& gpu() const { return gpu_; }

 private:
  const Gpu& gpu_;
  std::unique_ptr<Capture> capture_;
  void* handle_ = nullptr;
  uint64_t begun_ = 0, draws_ = 0;  // of the default generator: its place, how far a run goes on
};

}  // namespace mt
