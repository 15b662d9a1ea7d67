// replay.h -- a step that was recorded: the verbs that it called, and the memory that they work on
//
// A StepRecorder intercepts the calls of verbs while a step runs, on the CPU and on the GPU that it works on, and
// keeps each with its argument. The step's own memory is then planned once, so that
// the calls can be repeated without Lua, without a graph, without allocation. A replay is right where
// the step would call the same verbs again: `fits` asks what is cheap to ask, mt.compile tries the rest.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/compiler/record/step_calls.h"
#include "engine/core/interceptor.h"
#include "engine/core/step_listener.h"
#include "engine/core/tensor.h"

namespace mt {

class StepReplay {
 public:
  StepReplay(const StepReplay&) = delete;
  ~StepReplay();

  /// Whether parameters, and gradients that are added to, still lie where they lay, and those that
  /// required a gradient still do.
  bool fits() const;
  /// The calls read these. Their dtypes and shapes must be those of the recording.
  void start(const TensorList& inputs);
  bool takes(size_t input, const Tensor&) const;
  size_t inputs() const { return inputs_.size(); }
  /// The calls up to the next pause of the recording. False where a position is not there: what follows
  /// has not been done.
  bool run(size_t part);
  size_t parts() const { return ends_.size(); }
  /// After the last part: versions, the generator's place. The results.
  TensorList finish();
  /// Tensors from before the step that its verbs write to.
  TensorList changes() const;
  /// The leaves that it was given, whose gradients are compared with the step's.
  TensorList leaves() const;
  /// Whether the step, or an optimizer between its parts, changes what this tensor sees.
  bool writes(const Tensor&) const;
  /// Keeps the gradients of now and the versions of tensors that change, and puts them back.
  void hold(const TensorList& changed);
  void restore();
  struct Facts {
    size_t parts, calls;
    size_t buffers, bytes;  // of the step's own memory, each buffer by itself
    size_t planned;         // the arena that they share
    size_t graphs;          // of CUDA, that parts are
  };
  const std::vector<std::string>& fused() const { return fused_; }
  Facts facts() const {
    return {ends_.size(), calls_.size(), buffers_, bytes_, planned_, graphs()};
  }

 private:
  friend class StepRecorder;
  struct Call {
    const Device* device;
    Verb verb;
    void* argument;
    Random* random;
    uint64_t place;
    std::shared_ptr<const IndexBound> bound;
  };
  struct Grad {
    Tensor leaf, grad;
  };
  enum class GradPrecondition { any, none, present, same };  // what .grad must be before the step
  struct Guard {
    Tensor tensor;
    Tensor like;  // the tensor of then
    bool wanted;  // requires_grad
    GradPrecondition precondition;
    const Storage* grad =
        nullptr;               // the same: verbs read or write it; this program does not keep it
    const void* at = nullptr;  // where it lies, and how
    int64_t offset = 0;
    size_t bytes = 0;
    bool contiguous = true;
    bool moves = false;  // only backward adds to it: another one will do
    std::vector<BufferUse> uses = {};
    bool takes(const TensorImpl* grad) const;
    bool takes_layout() const;
    Storage* storage() const { return like.impl()->storage; }
  };
  struct Change {
    Tensor tensor;
    uint32_t version;  // changes in place, of one run
    bool of_grad;      // of the gradient of `tensor`
    Tensor now() const { return of_grad ? tensor.grad() : tensor; }
  };
  struct Input {
    Tensor tensor;  // of the recording
    std::vector<BufferUse> uses;
    const void* at;
  };
  struct Result {
    Tensor tensor;
    bool own;        // else it sees memory from before the step, as `tensor` does
    int input = -1;  // of this argument
    int guard = -1;  // of the gradient that this leaf has before the step
    Tensor grad = {};
    bool is_grad = false;  // it is one that the step made, or a view of it
  };
  /// Memory that is seen after the step. Results get a new one at each call, gradients where somebody
  /// other than the leaf still has the last one.
  struct EscapingBuffer {
    int buffer;
    size_t bytes;
    const Device* device;
    std::vector<BufferUse> uses;
    std::vector<size_t> results;
    std::vector<Grad*> grads;
    std::vector<std::byte> numbers;  // what lies there at the start of each call
    struct GradOwner {
      TensorImpl *grad, *leaf;
      int handles;
    };
    std::vector<GradOwner> owners;
    void count_owners(const std::vector<Result>&);
    bool is_held() const;
  };
  StepReplay();
  static bool has_hooks(const TensorImpl&);
  bool shares_gradients() const;  // two leaves one storage, among those whose gradient is kept
  void set_grads(size_t part) const;
  TensorList results();
  bool call(const Call&) const;
  void renew(EscapingBuffer&);
  struct PartGraph;
  size_t graphs() const;
  void choose_graphs();
  void drop_graphs();
  std::unique_ptr<PartGraph> capture(size_t part);
  bool run_graph(size_t part);

  std::deque<std::vector<std::byte>> arguments_;
  std::vector<Call> calls_;
  std::vector<std::string> fused_;
  std::vector<size_t> ends_;  // of the parts
  std::vector<Input> inputs_;
  std::vector<Result> results_;
  std::vector<EscapingBuffer> escaping_;
  std::vector<Ref<Storage>> kept_;
  std::vector<std::vector<Grad>> grads_;  // after each part
  std::vector<Guard> guards_;
  std::vector<Change> changes_;
  TensorList stepped_;  // parameters of the optimizers between the parts
  TensorList given_;    // the arguments of this replay
  TensorList held_;     // gradients, as `guards_`
  std::map<Storage*, uint32_t> held_versions_;
  size_t first_change_ = 0;         // the call that first changes something from before the step
  int threads_ = 0;                 // scratch is for so many
  uint64_t begun_ = 0, draws_ = 0;  // of the default generator
  size_t buffers_ = 0, bytes_ = 0, planned_ = 0;
  const Device* gpu_ = nullptr;
  std::vector<bool> graph_parts_;  // whether they have calls of the GPU alone
  std::vector<std::unique_ptr<PartGraph>> graphs_;
  bool uses_graphs_ = false;  // in this replay
  int starts_ = 0, drops_ = 0;
};

/// Copies of tensors, without a past; those that share a storage share its copy.
TensorList copies_of(const TensorList&);

/// The results as views of the arguments where they are views of their copies, `inputs`.
TensorList on_arguments(TensorList results, const TensorList& inputs, const TensorList& arguments);

/// A tensor as `like` in another storage, `bytes` further than `like` is in its own.
Tensor placed(const Tensor& like, Storage*, int64_t bytes = 0);

/// Records this thread's calls while it lives, on the CPU and one GPU.
class StepRecorder : public StepListener, public Interceptor {
 public:
  /// `inputs` are copies of the arguments, which stand for those of later calls.
  explicit StepRecorder(const TensorList& inputs);
  StepRecorder(const StepRecorder&) = delete;
  ~StepRecorder();
  /// Between the two nothing is recorded: it is executed at each replay.
  void pause();
  void resume();
  /// Ends the recording. Null where the step cannot be replayed: why() says the reason.
  /// `stepped`: the parameters of the optimizers that step between the parts.
  std::unique_ptr<StepReplay> finish(const TensorList& results, TensorList stepped);
  const std::string& why() const { return why_; }
  void on_allocate(Storage*) override;
  void on_free(Storage*) override;
  void on_constant(Storage*) override;
  void on_untraced_computation() override;
  void on_external_effect() override;
  void on_requires_grad_change(const Tensor&) override;
  void on_index_check(const IndexBound&) override;
  void on_element_read(const std::string& by) override;
  void on_use(const Tensor&) override;
  void on_grad_read(const Tensor&) override;
  bool around(InterceptedCall&) override;

 private:
  struct Memory {
    size_t bytes;
    Storage* storage;
    bool written, outside;          // outside: from before the step
    int buffer;                     // its number
    std::byte* constant = nullptr;  // a copy of what was written without a verb
  };
  template <class A> void add(const InterceptedCall&, const A&);
  bool takes(const Device&);
  void stop();
  void keep_grads();
  void refuse(std::string why);
  void check_generator(uint64_t counter);
  Memory* memory_at(const void*);
  Memory& add_outside(Storage*);
  Memory* own_memory(const Tensor&);
  bool check(std::byte* slot, bool out, StepCall&);
  struct PointerCheck;
  void check_results(StepReplay&, const TensorList&);
  void check_flags(const StepReplay&);
  void make_guards(StepReplay&);
  void find_escaping(StepReplay&);
  void upload_constants(StepReplay&);
  std::vector<std::vector<BufferUse>*> find_movable(StepReplay&);
  void plan(StepReplay&);
  void put_calls(StepReplay&);

  std::unique_ptr<StepReplay> replay_;
  std::vector<StepCall> calls_;
  std::vector<StepBuffer> buffers_;
  std::map<uintptr_t, Memory> memory_;  // by the first byte
  std::deque<std::vector<std::byte>> numbers_;
  struct Leaf {
    Tensor tensor, grad;  // the gradient at first
    bool set = false;     // a part of the step ended with another one
    bool read = false;    // the step itself has asked for it
  };
  std::map<TensorImpl*, Leaf> leaves_;
  std::map<TensorImpl*, std::pair<Tensor, bool>>
      flags_;  // requires_grad at first, where it changed
  // With the version at first, in a pause how often it was changed before.
  std::map<Storage*, std::pair<Tensor, uint32_t>> outside_;
  std::map<Storage*, bool> touched_;           // storages that verbs were given
  bool asked_ = false;                         // for an element
  const Device* gpu_ = nullptr;                // that the step works on
  uint64_t seed_ = 0, begun_ = 0, drawn_ = 0;  // of the default generator: how far it came
  std::string why_;
  std::vector<Ref<Storage>> paused_;  // what lives in a pause stays
  bool active_ = false;
};

}  // namespace mt
