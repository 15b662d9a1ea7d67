// replay.h -- a recorded step: the verbs that it called, and the memory that they use
//
// A StepRecorder intercepts the calls of verbs while a step runs, on the CPU and on the GPU that it
// uses, and keeps each call with its argument. The step's own memory is then planned once, so that the
// calls can be repeated without Lua, without a graph, without allocation. A replay is correct if the
// step would call the same verbs again: `fits` checks the cheap conditions, mt.compile tests the rest.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "engine/compiler/record/step_calls.h"
#include "engine/core/exchange.h"
#include "engine/core/interceptor.h"
#include "engine/core/step_listener.h"
#include "engine/core/tensor.h"
#include "engine/gpu/graph.h"

namespace mt {

/// An exchange with tensors in the memory of a replay.
struct RecordedExchange {
  std::deque<Storage> storages;  // of its tensors, whose memory belongs to others
  Exchange exchange;
  /// Adds a tensor like x to one of the lists; returns the place of its address.
  std::byte* add(const Tensor& x, TensorList& list);
};

class RecordedFunction;

class StepReplay {
 public:
  StepReplay(const StepReplay&) = delete;

  /// Whether parameters, and gradients that are accumulated, are still at the same address, and
  /// those that required a gradient still do.
  bool fits() const;
  /// Whether these are arguments like those of the recording.
  bool takes(const TensorList& inputs) const;
  /// Begins a replay with these arguments, for which `takes` is true.
  void start(const TensorList& inputs);
  /// Runs the calls up to the next pause of the recording. False if an index is out of bounds: then
  /// the calls after it have not run.
  bool run(size_t part);
  size_t parts() const { return ends_.size(); }
  /// To be called after the last part: updates versions and the generator; returns the results.
  TensorList finish();
  /// Tensors that existed before the step and that its verbs write to.
  TensorList changes() const;
  /// The leaves among its arguments, whose gradients are compared with those of the step.
  TensorList leaves() const;
  /// Whether the step, or an optimizer between its parts, changes memory that one of the tensors views.
  bool writes(const TensorList&) const;
  /// Saves the current gradients and the versions of tensors that change; restore() restores them.
  void hold(const TensorList& changed);
  void restore();
  const std::vector<std::string>& fused() const { return fused_; }
  /// The numbers of parts, of calls, and of the step's own buffers; the sum of the bytes of these, and the bytes of the
  /// arena that they share; the number of parts that are CUDA graphs.
  auto statistics() const {
    return std::tuple(ends_.size(), calls_.size(), buffers_, bytes_, planned_, graphs());
  }

 private:
  friend class StepRecorder;
  struct Grad {
    Tensor leaf, grad;
  };
  /// What `.grad` must be before the step; same: verbs read or write the one of the recording.
  enum class GradPrecondition { any, none, present, same };
  struct Guard {
    Tensor tensor;
    Tensor like;  // the tensor at the recording
    bool wanted;  // requires_grad
    GradPrecondition precondition;
    const Storage* grad = nullptr;  // for GradPrecondition::same; not owned
    MovableMemory memory = {};      // its address, and its layout
    int64_t offset = 0;
    size_t bytes = 0;
    bool contiguous = true;
    bool moves = false;  // only backward adds to it: a different one may be used
    size_t groups = 0;   // GradientGroups of the tensor
    bool takes(const TensorImpl* grad) const;
    bool takes_layout() const;
    bool groups_fit() const;
    Storage* storage() const { return like.impl()->storage; }
  };
  struct Change {
    Tensor tensor;
    uint32_t version;  // changes in place during one run
    bool of_grad;      // of the gradient of `tensor`
    Tensor now() const { return of_grad ? tensor.grad() : tensor; }
  };
  struct Input {
    Tensor tensor;  // from the recording
    MovableMemory memory = {};
  };
  struct Result {
    Tensor tensor;
    bool own;        // the step computed it; otherwise it views memory from before the step
    int input = -1;  // it views this argument
    int guard = -1;  // it views the gradient that this leaf has before the step
    Tensor grad = {};
    bool is_grad = false;  // it is a gradient made by the step, or a view of one
  };
  /// Memory that is visible after the step. Results get new memory at each call, gradients only if
  /// something other than the leaf still owns the last one.
  struct EscapingBuffer {
    int buffer;
    size_t bytes;
    const Device* device;
    std::vector<BufferUse> uses;
    std::vector<size_t> results;
    std::vector<Grad*> grads;
    std::vector<std::byte> numbers;  // its contents at the start of each call
    struct GradOwner {
      TensorImpl *grad, *leaf;
      int handles;
    };
    std::vector<GradOwner> owners;
    void count_owners(const std::vector<Result>&);
    bool is_held() const;
  };
  StepReplay() = default;
  static bool has_hooks(const TensorImpl&);
  bool shares_gradients() const;  // two leaves share a storage, among those whose gradient is kept
  void set_grads(size_t part) const;
  TensorList results();
  void renew(EscapingBuffer&);
  size_t graphs() const;
  void choose_graphs();
  void drop_graphs();
  std::unique_ptr<Graph> capture(size_t part) const;
  bool run_graph(size_t part);

  std::deque<std::vector<std::byte>> arguments_;
  std::vector<StepCall> calls_;
  std::vector<std::string> fused_;
  std::vector<size_t> ends_;  // of the parts
  std::vector<Input> inputs_;
  std::vector<Result> results_;
  std::vector<EscapingBuffer> escaping_;
  std::vector<Ref<Storage>> kept_;
  std::vector<std::vector<Grad>> grads_;  // after each part
  std::vector<Guard> guards_;
  std::vector<Change> changes_;
  TensorList stepped_;  // parameters of the optimizers that step between the parts
  TensorList given_;    // the arguments of this replay
  TensorList held_;     // gradients, in the order of `guards_`
  std::map<Storage*, uint32_t> held_versions_;
  size_t first_change_ = 0;         // the first call that changes memory from before the step
  int threads_ = 0;                 // the number of threads that scratch is allocated for
  uint64_t begun_ = 0, draws_ = 0;  // of the default generator
  size_t buffers_ = 0, bytes_ = 0, planned_ = 0;
  const Device* gpu_ = nullptr;
  std::vector<bool> graph_parts_;  // whether all their calls are on the GPU
  std::vector<std::unique_ptr<Graph>> graphs_;
  bool uses_graphs_ = false;  // in this replay
  int replays_ = 0;           // that have started
  int dropped_ = 0;           // how often captured graphs were dropped
};

/// The results as views of `arguments` where they are views of `inputs`, the copies of these.
TensorList on_arguments(TensorList results, const TensorList& inputs, const TensorList& arguments);

/// A tensor with the layout of `like` in another storage, at the offset of `like` plus `bytes`.
Tensor placed(const Tensor& like, Storage*, int64_t bytes = 0);
/// Whether x has the dtype, sizes and strides of `like`.
bool same_layout(const Tensor& x, const Tensor& like);

/// Records this thread's calls during its lifetime, on the CPU and one GPU.
class StepRecorder : public StepListener, public Interceptor {
 public:
  /// `step`: of mt.compile, which may change tensors. `function`: of mt.fuse, which may not.
  enum class Kind { step, function };
  /// `inputs` are copies of the arguments, which represent those of later calls.
  explicit StepRecorder(const TensorList& inputs, Kind kind = Kind::step);
  StepRecorder(const StepRecorder&) = delete;
  ~StepRecorder();
  /// Between the two nothing is recorded; this work runs again at each replay.
  void pause();
  void resume();
  /// Ends the recording. Null if the step cannot be replayed: why() is the reason. `stepped`: the
  /// parameters of the optimizers that step between the parts.
  std::unique_ptr<StepReplay> finish(const TensorList& results, TensorList stepped);
  const std::string& why() const { return why_; }
  /// Whether an error of the recorder ended the function, before it changed an argument.
  bool ended() const { return ended_; }
  /// Throws the error of a step or function that reads elements of a tensor.
  [[noreturn]] static void refuse_number(Kind);
  /// Ends the recording of a function. Null if it cannot be replayed. With `saves` it has further
  /// results, for its gradient.
  std::unique_ptr<RecordedFunction> finish_function(const TensorList& results, bool saves);
  /// The following calls compute gradients of the function.
  void begin_gradient() { gradient_ = true; }
  /// The tensors from before the recording that require a gradient and that the function used,
  /// other than its inputs.
  TensorList captured_with_gradient() const;
  void on_allocate(Storage*) override;
  void on_free(Storage*) override;
  void on_constant(Storage*) override;
  void on_untraced_computation() override;
  void on_external_effect(const char* what) override;
  void on_requires_grad_change(const Tensor&) override;
  void on_index_check(const IndexBound&) override;
  void on_element_read(const std::string& by) override;
  void on_use(const Tensor&) override;
  void on_grad_read(const Tensor&) override;
  void on_exchange(const Exchange&) override;
  bool around(InterceptedCall&) override;

 private:
  struct TrackedBlock {
    size_t bytes;
    Storage* storage;
    bool written;                   // by a verb, or before the step
    bool outside;                   // from before the step
    int buffer;                     // the index of its buffer
    std::byte* constant = nullptr;  // a copy of the data that was written without a verb
  };
  template <class A> void add(const InterceptedCall&, const A&);
  bool takes(const Device&);
  void stop();
  void keep_grads();
  void refuse(std::string why);
  void check_generator(uint64_t counter);
  TrackedBlock* memory_at(const void*);
  TrackedBlock& add_outside(Storage*);
  TrackedBlock* own_memory(const Tensor&);
  bool add_use(std::byte* slot, bool out, StepCall&);
  void check_results(StepReplay&, const TensorList&);
  uint64_t end_recording();
  void check_flags(const char* whose);
  void make_guards(StepReplay&);
  void find_escaping(StepReplay&);
  void upload_constants(StepReplay&);
  std::vector<std::vector<BufferUse>*> find_movable(StepReplay&);
  void plan(StepReplay&);
  int input_at(const Tensor&) const;  // the input in whose memory the tensor is, or -1
  void refuse_effects();
  void add_results(RecordedFunction&, const TensorList&);
  int add_memory(RecordedFunction&, int buffer);
  std::vector<int> costly_buffers() const;
  void save_costly(RecordedFunction&);
  void read_saved(RecordedFunction&);
  void plan(RecordedFunction&);
  void move_numbers(RecordedFunction&);
  void store_calls(StepReplay&);

  std::unique_ptr<StepReplay> replay_;
  std::vector<StepCall> calls_;
  std::vector<StepBuffer> buffers_;
  std::map<uintptr_t, TrackedBlock> memory_;  // by the first byte
  std::deque<std::vector<std::byte>> numbers_;
  struct Leaf {
    Tensor tensor, grad;  // grad: the gradient at the start
    bool set = false;     // a part of the step ended with another gradient
    bool read = false;    // the step itself has read it
  };
  std::map<TensorImpl*, Leaf> leaves_;
  std::map<TensorImpl*, std::pair<Tensor, bool>>
      flags_;  // requires_grad at the start, where it changed
  // With the version at the start; in a pause, with the number of changes before it.
  std::map<Storage*, std::pair<Tensor, uint32_t>> outside_;
  std::map<Storage*, bool> touched_;  // storages that were passed to verbs
  bool read_element_ = false;         // whether it read an element of a tensor
  const Device* gpu_ = nullptr;       // the GPU that the step uses
  // Of the default generator: the seed, the first position, the furthest position.
  uint64_t seed_ = 0, begun_ = 0, drawn_ = 0;
  std::string why_;
  std::vector<Ref<Storage>> paused_;  // storages that are live in a pause are kept
  bool active_ = false;
  const Kind kind_;
  bool gradient_ = false, ended_ = false;
  uint64_t first_node_ = 0;         // nodes from this sequence number on are of the recording
  std::vector<Tensor> captured_;    // of a function: tensors from before that it used
  std::map<int, int> results_of_;   // by buffer: its index in RecordedFunction::memory_
  std::map<int, size_t> input_of_;  // by buffer: its index in RecordedFunction::inputs_
};

}  // namespace mt
