// recorded_function.h -- a function of tensors without other effects, recorded once: what mt.fuse(f) runs
//
// Its calls were fused by step_fuse. Each run has memory of its own, so that runs may overlap in time, and
// may themselves be recorded as parts of a step. It has no graph: a gradient is another recorded function.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/compiler/record/replay.h"

namespace mt {

class RecordedFunction {
 public:
  /// Whether these inputs have the layout of the recorded ones, and the captured tensors are unchanged.
  bool fits(const TensorList& inputs) const;
  /// The results, without a graph; nothing if an index is out of bounds or a device cannot run a
  /// program. Random numbers are drawn from this place of the default generator's stream on.
  std::optional<TensorList> run(const TensorList& inputs, uint64_t random_begin);
  /// How many of the last results, or of a gradient's last inputs, are intermediate results that the
  /// gradient reads: those of products and other calls that are not cheap to repeat.
  size_t saved() const { return saved_; }
  /// The number of places by which a run advances the generator.
  uint64_t draws() const { return draws_; }
  /// A line for each program, and for each call that is not part of one, and why.
  const std::vector<std::string>& fused() const { return fused_; }
  const std::vector<std::string>& separate() const { return separate_; }

 private:
  friend class StepRecorder;
  struct Input {
    Tensor like;  // without data
    const Device* device;
    MovableMemory memory = {};
  };
  struct Captured {
    Tensor tensor, like;
    bool requires_grad;
  };
  /// Memory that a run allocates: an arena of inner buffers, or that of results.
  struct RunBuffer {
    const Device* device;
    size_t bytes;
    MovableMemory calls = {};
    std::vector<std::byte> numbers = {};  // its contents at the start
  };
  struct Result {
    Tensor like;      // without data
    int input;        // the input whose memory it views, or -1
    int memory = -1;  // otherwise the index of its memory
  };
  static Ref<Storage> allocate(RunBuffer&);

  std::deque<std::vector<std::byte>> arguments_;
  std::vector<StepCall> calls_;
  std::vector<Input> inputs_;
  std::vector<Captured> captured_;
  std::vector<RunBuffer> memory_;
  std::vector<Result> results_;
  Tensor numbers_;  // of calls, the same at each run
  uint64_t draws_ = 0;
  size_t saved_ = 0;
  int threads_ = 0;
  std::vector<std::string> fused_, separate_;
};

}  // namespace mt
