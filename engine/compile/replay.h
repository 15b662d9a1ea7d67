// replay.h -- a step that was recorded: the verbs that it called, and the memory that they work on
//
// A StepRecorder stands in the CPU's table of verbs while a step runs, and keeps each call with its
// argument. What the step allocates comes from a pool of its own, so that the calls can be repeated
// on the same memory: without Lua, without a graph, without allocation. A replay is right where the
// step would call the same verbs again: `fits` asks what is cheap to ask, mt.compile tries the rest.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/recording.h"
#include "engine/core/tensor.h"

namespace mt {

class StepReplay {
 public:
  StepReplay(const StepReplay&) = delete;
  ~StepReplay();

  /// Whether parameters, and gradients that are added to, still lie where they lay, and those that
  /// required a gradient still do.
  bool fits() const;
  /// Copies the inputs into the memory that was recorded. Their dtypes and shapes must be those of then.
  void start(const std::vector<Tensor>& inputs);
  bool takes(size_t input, const Tensor&) const;
  size_t inputs() const { return inputs_.size(); }
  /// The calls up to the next pause of the recording. False where a position is not there: what follows
  /// has not been done.
  bool run(size_t part);
  size_t parts() const { return ends_.size(); }
  /// After the last part: versions, the generator's place. The results, copied.
  std::vector<Tensor> finish();
  /// Tensors from before the step that its verbs write to.
  std::vector<Tensor> changes() const;
  /// Whether the step changes what this tensor sees.
  bool writes(const Tensor&) const;
  /// Keeps the gradients of now, and puts them back.
  void hold_grads();
  void restore_grads();
  size_t calls() const { return calls_.size(); }

 private:
  friend class StepRecorder;
  struct Call {
    bool (*run)(const void* argument);
    void* argument;
    struct Random* random;  // of a call that draws numbers: its place in the stream is set anew
    uint64_t place;
  };
  struct Grad {
    Tensor leaf, grad;
  };
  enum class Before { any, none, same };  // what .grad must be before the step
  struct Guard {
    Tensor tensor;
    Storage* storage;
    bool wanted;  // requires_grad
    Before before;
    const Storage* grad;  // the same: verbs read or write it
  };
  struct Change {
    Tensor tensor;
    uint32_t version;  // changes in place, of one run
  };
  StepReplay() = default;
  void set_grads(size_t part) const;

  BlockPool pool_;
  std::deque<std::vector<std::byte>> arguments_;
  std::vector<Call> calls_;
  std::vector<size_t> ends_;  // of the parts
  std::vector<Tensor> inputs_, results_;
  std::vector<Ref<Storage>> kept_;
  std::vector<std::vector<Grad>> grads_;  // after each part
  std::vector<Guard> guards_;
  std::vector<Change> changes_;
  std::vector<Tensor> held_;        // gradients, as `guards_`
  size_t first_change_ = 0;         // the call that first changes something from before the step
  int threads_ = 0;                 // scratch is for so many
  uint64_t begun_ = 0, draws_ = 0;  // of the default generator
};

/// Records this thread's calls while it lives, on the CPU.
class StepRecorder : public Recording {
 public:
  /// `inputs` stand for the arguments of later calls.
  explicit StepRecorder(const std::vector<Tensor>& inputs);
  StepRecorder(const StepRecorder&) = delete;
  ~StepRecorder();
  /// An operation was given this tensor.
  void see(const Tensor&);
  /// Between the two nothing is recorded: it is done anew at each replay.
  void pause();
  void resume();
  /// Ends the recording. Null where the step cannot be replayed: why() says the reason.
  std::unique_ptr<StepReplay> finish(const std::vector<Tensor>& results);
  const std::string& why() const { return why_; }
  static StepRecorder* current() { return static_cast<StepRecorder*>(step_recorder); }

  void allocated(Storage*) override;
  void freed(Storage*) override;
  void made_constant(Storage*) override;
  void computes_beside() override;
  void reads_element() override;
  /// A verb was called with this argument.
  template <class Argument> void add(bool (*run)(const void*), const Argument&);

 private:
  struct Memory {
    size_t bytes;
    Storage* storage;
    bool written, outside;          // outside: from before the step
    std::byte* constant = nullptr;  // a copy of what was written without a verb
  };
  void stop();
  void keep_grads();
  void refuse(std::string why);
  Memory* memory_at(const void*);
  bool check(void*& pointer, bool out);

  std::unique_ptr<StepReplay> replay_;
  std::map<uintptr_t, Memory> memory_;  // by the first byte
  std::deque<std::vector<std::byte>> numbers_;
  struct Leaf {
    Tensor tensor, grad;  // the gradient at first
  };
  std::map<TensorImpl*, Leaf> leaves_;
  std::map<Storage*, std::pair<Tensor, uint32_t>> outside_;  // with the version at first
  std::map<Storage*, bool> touched_;                         // storages that verbs were given
  std::string why_;
  size_t first_change_ = SIZE_MAX;
  std::vector<Ref<Storage>> paused_;  // what lives in a pause: its blocks are the pool's
  bool active_ = false;
};

}  // namespace mt
