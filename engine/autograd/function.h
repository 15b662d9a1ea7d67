// function.h -- user-defined autograd functions (mt.Function) and gradient checkpointing (mt.recompute)
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/autograd/graph.h"

namespace mt {

// ---- a function with its own gradient -----------------------------------------------------------

/// The state of the inner node of a function. Each result has a separate node, which stores its
/// gradient in the backward pass and leads to the inner node; that runs after all of them.
struct CustomFunction {
  /// Maps the results' gradients (undefined for results without one) to those of the inputs
  /// (undefined if there is none).
  using Backward = std::function<TensorList(const TensorList&)>;
  struct Result {
    Shape size;
    Dtype dtype = Dtype::none;
    const Device* device = nullptr;  // null: without a gradient
    Node* node = nullptr;            // the result's node while it exists; not an owner
  };
  struct Saved {
    Tensor tensor;  // without a graph
    uint32_t version = 0;
    int input = -1, result = -1;  // the argument or result that it is, if any
  };
  std::string name;
  Backward backward;
  TensorList inputs;  // only their shapes, without data
  std::vector<Result> results;
  std::vector<Saved> saved;
};

/// Makes `outputs`, computed without recording, results of a function of `inputs`: those of float
/// type get a node, unless plain[k]. `save` are tensors for backward. Inputs and saved tensors may
/// be undefined.
TensorList record_function(std::string name, const TensorList& inputs, const TensorList& outputs,
                           const std::vector<bool>& plain, const TensorList& save,
                           CustomFunction::Backward);
/// The saved tensors of the function whose backward is running on this thread: checked for changes
/// in place, and connected to the graph while gradients are recorded.
TensorList saved_tensors();

/// The gradients of f(inputs), given the gradients of its results, computed by recorded operations:
/// the result of a backward that is itself differentiated. Undefined inputs have none.
TensorList recorded_gradients(const std::function<TensorList(const TensorList&)>& f,
                              const TensorList& inputs, const TensorList& gradients);

// ---- gradient checkpointing (Chen 2016, "sublinear memory cost") ---------------------------------

/// Operations in its region save nothing; the region runs again to compute what backward needs. The
/// first run stores only a digest of the bits of each tensor that it would have saved: the second
/// run must give the same, otherwise the gradient would belong to another function.
struct Checkpoint {
  struct Value {
    Tensor tensor;
    uint32_t version = 0;
    const Node* node = nullptr;  // of the second run, only for comparison
  };
  std::function<void()> again;    // runs the same operations
  std::vector<uint64_t> digests;  // of the tensors that the first run would have saved, in order
  std::vector<Value> values;      // the tensors saved by the second run
  std::string different;          // the operation that first saved different bits
};
/// During its lifetime, operations on this thread leave the saving of tensors to the checkpoint.
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
/// Call it before the storage changes in place: copies what the node saved of it in this region.
void checkpoint_keep(const Node&, const Storage*);
void checkpoint_restore(Node&, int slot);

}  // namespace mt
