// function.h -- user-defined autograd functions (mt.Function), and tensors that backward recomputes (mt.recompute)
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/autograd/graph.h"
#include "engine/autograd/view_gradients.h"

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
  bool zeros = true;  // backward gets zeros for results without a gradient
  TensorList inputs;  // only their shapes, without data
  std::vector<Result> results;
  std::vector<Saved> saved;
};

/// Records a function of `inputs` whose results `outputs` were computed without recording: outputs of a float dtype get
/// a node, unless non_differentiable[k]. `save` are tensors for backward. Inputs and saved tensors may be undefined.
/// `zeros`: backward gets zeros for results without a gradient. Returns `outputs` if nothing is to be recorded.
TensorList record_function(std::string name, const TensorList& inputs, const TensorList& outputs,
                           const std::vector<bool>& non_differentiable, const TensorList& save,
                           CustomFunction::Backward, bool zeros = true);
/// Inside the backward of a function: whether an input's gradient is wanted.
bool wants_gradient(size_t input);
/// Inside the backward of a function: `compute` will return the gradient of an input that is a leaf, when all nodes
/// have been visited; other processes can work on it meanwhile.
void defer_gradient(size_t input, std::function<Tensor()> compute);
/// The saved tensors of the function whose backward is running on this thread: checked for changes
/// in place, and connected to the graph while gradients are recorded.
TensorList saved_tensors();

/// The gradients of f(inputs), given the gradients of its results, computed by recorded operations:
/// the result of a backward that is itself differentiated. Undefined inputs have none.
TensorList recorded_gradients(const std::function<TensorList(const TensorList&)>& f,
                              const TensorList& inputs, const TensorList& gradients);

// ---- tensors that nodes do not save --------------------------------------------------------------

/// Recomputes tensors that nodes did not save.
struct Unsaved {
  virtual ~Unsaved() = default;
  /// Sets the saved tensor of the slot, which has the index node.extra->place[slot] here.
  virtual void restore(Node&, int slot) = 0;
};
/// Sets the tensor if the node did not save it.
void restore_saved(Node&, int slot);

/// The number of changes in place of each tensor's storage.
std::vector<uint32_t> versions_of(const TensorList&);

/// Tensors that nodes of a region do not save, nor views and casts of them: backward recomputes them, such as gathered
/// parameters (dist.shard).
struct ReleasedTensors : Unsaved {
  /// A view of one of the tensors, or a view of a cast of such a view.
  struct Part {
    size_t tensor;
    TensorGeometry view;
    Dtype cast = Dtype::none;
    TensorGeometry view_of_cast = {};
  };
  std::function<TensorList()> recompute;
  TensorList tensors;  // while the region runs, and after they were recomputed
  TensorList sources;  // what each is computed from; if that has changed, `restore` throws Error
  std::vector<uint32_t> versions, recomputed_versions;  // of the sources; of recomputed tensors
  std::vector<Part> parts;                              // by NodeExtra::place
  void restore(Node&, int slot) override;
};
/// The region. In the first run of a checkpoint, which saves nothing either, it does nothing.
class ReleaseScope {
 public:
  explicit ReleaseScope(std::shared_ptr<ReleasedTensors>);
  ~ReleaseScope();
  ReleaseScope(const ReleaseScope&) = delete;
  /// Whether one of the tensors has been written to; recomputing it would lose that.
  bool has_written() const;
  /// Notes that the node does not save the tensor; false if it is not one of these, and the node must save it.
  bool leave_out(Node&, int slot, const Tensor&, int from);
  void note_cast(const Tensor& from, const Tensor& to);

 private:
  struct Cast {
    Tensor result;
    ReleasedTensors::Part part;
  };
  bool find(const Tensor&, ReleasedTensors::Part&) const;
  const std::shared_ptr<ReleasedTensors> released_;
  std::vector<Cast> casts_;
  std::vector<uint32_t> versions_;
  ReleaseScope* const before_;
};
/// Tells the region of this thread, if there is one, that `to` is a cast of `from`.
inline void note_cast(const Tensor& from, const Tensor& to) {
  if (thread_state.release) [[unlikely]]
    thread_state.release->note_cast(from, to);
}

// ---- gradient checkpointing (Chen 2016, "sublinear memory cost") ---------------------------------

/// Operations in its region save nothing; the region runs again to compute what backward needs. The
/// first run stores only a digest of the bits of each tensor that it would have saved: the second
/// run must give the same, otherwise the gradient would belong to another function.
struct Checkpoint : Unsaved {
  /// What a node of the second run saved, or left out.
  struct Value {
    Tensor tensor;
    uint32_t version = 0;
    const Node* node = nullptr;  // only for comparison
    int slot = 0;                // of the node
    std::shared_ptr<Unsaved> unsaved = nullptr;
    int place = -1;
  };
  std::function<void()> again;    // runs the region's operations again
  std::vector<uint64_t> digests;  // of the tensors that the first run would have saved, in order
  std::vector<Value> values;      // the tensors saved by the second run
  std::string different;          // the operation that first saved different bits
  /// Sets all saved tensors of the node.
  void restore(Node&, int slot) override;

 private:
  void run_again();
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
  const SaveAndRestore<ReleaseScope*> outside{thread_state.release, nullptr};
};
inline bool in_checkpoint() { return thread_state.checkpoint != nullptr; }
bool checkpoint_save(Node&, int slot, const Tensor&, int from);
/// Replaces what the node saved in the slot by `copy`, because the storage changes in place.
void checkpoint_keep(const Node&, int slot, const Tensor& copy);

}  // namespace mt
