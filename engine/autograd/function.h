// function.h -- user-defined autograd functions (mt.Function) and gradient checkpointing (mt.recompute)
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/autograd/graph.h"

namespace mt {

// ---- a function with its own gradient -----------------------------------------------------------

/// What its inner node holds. Each result has a node of its own, which leaves its gradient with the
/// backward pass and leads to the inner one; that runs when all have come.
struct CustomFunction {
  /// From the results' gradients (undefined for results without one) to those of the inputs
  /// (undefined for none).
  using Backward = std::function<TensorList(const TensorList&)>;
  struct Result {
    Shape size;
    Dtype dtype = Dtype::none;
    const Device* device = nullptr;  // null: without a gradient
    Node* node = nullptr;            // the result's node while it lives, not counted
  };
  struct Saved {
    Tensor tensor;  // without a past
    uint32_t version = 0;
    int input = -1, result = -1;  // which it is, if one of them
  };
  std::string name;
  Backward backward;
  TensorList inputs;  // their shapes, without data
  std::vector<Result> results;
  std::vector<Saved> saved;
};

/// `outputs`, which were computed without recording, as results of a function of `inputs`: those of
/// float type get a node, unless plain[k]. `save` are tensors for the way back. Inputs and what is
/// saved may be undefined.
TensorList record_function(std::string name, const TensorList& inputs, const TensorList& outputs,
                           const std::vector<bool>& plain, const TensorList& save,
                           CustomFunction::Backward);
/// What the function saved whose backward is running on this thread: checked against changes in
/// place, part of the graph while gradients are recorded.
TensorList saved_tensors();

/// The gradients of f(inputs), whose results have these gradients, by operations that are recorded:
/// what a backward that is itself differentiated gives. Undefined inputs have none.
TensorList recorded_gradients(const std::function<TensorList(const TensorList&)>& f,
                              const TensorList& inputs, const TensorList& gradients);

// ---- gradient checkpointing (Chen 2016, "sublinear memory cost") ---------------------------------

/// Operations in its region save nothing; what backward needs comes from running the region again.
/// Of what the first run would have saved it keeps a digest of the bits: the second run must make
/// the same, or the gradient would belong to another function.
struct Checkpoint {
  struct Value {
    Tensor tensor;
    uint32_t version = 0;
    const Node* node = nullptr;  // of the second run, to compare with only
  };
  std::function<void()> again;    // runs the same operations
  std::vector<uint64_t> digests;  // of what the first run would have saved, in order
  std::vector<Value> values;      // what the second run saved
  std::string different;          // its first operation that did so with other bits
};
/// While one lives, what operations on this thread would save is left to the checkpoint.
struct CheckpointScope {
  CheckpointScope(std::shared_ptr<Checkpoint> s, bool second)
      : checkpoint(std::move(s)),
        again(second),
        before(std::exchange(thread_state.checkpoint, this)) {}
  ~CheckpointScope() { thread_state.checkpoint = before; }
  CheckpointScope(const CheckpointScope&) = delete;
  const std::shared_ptr<Checkpoint> checkpoint;
  const bool again;  // the second run
  CheckpointScope* const before;
};
inline bool in_checkpoint() { return thread_state.checkpoint != nullptr; }
void checkpoint_save(Node&, int slot, const Tensor&, int from);
/// Before the storage changes in place: what the node saved of it in this region is copied.
void checkpoint_keep(const Node&, const Storage*);
void checkpoint_restore(Node&, int slot);

}  // namespace mt
