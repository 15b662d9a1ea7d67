// recorded_function.cpp -- creates and runs recorded functions
#include "engine/compiler/record/recorded_function.h"

#include <algorithm>
#include <cstring>

#include "engine/autograd/graph.h"
#include "engine/compiler/record/step_fuse.h"
#include "engine/ops/generator.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
/// The layout of x, without its data.
static Tensor layout_of(const Tensor& x) {
  Tensor t = placed(x, nullptr);
  t.impl()->requires_grad = x.requires_grad();
  return t;
}

// ---- running ------------------------------------------------------------------------------------------------

bool RecordedFunction::fits(const TensorList& inputs) const {
  if (inputs.size() != inputs_.size() || cpu_threads() != threads_) return false;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (!same_layout(inputs[k], inputs_[k].like) ||
        inputs[k].requires_grad() != inputs_[k].like.requires_grad() ||
        inputs[k].impl()->storage->device != inputs_[k].device)
      return false;
  for (const Captured& c : captured_)
    if (c.tensor.impl()->storage != c.like.impl()->storage ||
        c.tensor.offset() != c.like.offset() || c.tensor.requires_grad() != c.requires_grad)
      return false;
  return true;
}

/// Allocates memory for this run, and sets the pointers of the calls to it.
Ref<Storage> RecordedFunction::allocate(RunBuffer& m) {
  const Tensor x = empty({int64_t(m.bytes)}, Dtype::u8, *m.device);
  m.calls.move_to(x.data());
  if (!m.numbers.empty()) {
    std::memcpy(x.data(), m.numbers.data(), m.bytes);
    mark_constant(x);
  }
  return Ref<Storage>::share(x.impl()->storage);
}

std::optional<TensorList> RecordedFunction::run(const TensorList& inputs, uint64_t random_begin) {
  const NoGrad off;
  if (step_recorder) {  // this run is part of a step
    for (const Captured& c : captured_) step_recorder->on_use(c.tensor);
    if (numbers_.defined()) {
      step_recorder->on_allocate(numbers_.impl()->storage);
      mark_constant(numbers_);
    }
  }
  for (size_t k = 0; k < inputs.size(); ++k) inputs_[k].memory.move_to(inputs[k].data());
  std::vector<Ref<Storage>> memory;
  for (RunBuffer& m : memory_) memory.push_back(allocate(m));
  for (const StepCall& c : calls_) {
    check_interrupt();
    if (!c.run(random_begin)) return {};
  }
  TensorList results;
  for (const Result& r : results_)
    results.push_back(r.input < 0 ? placed(r.like, memory[r.memory].get())
                                  : placed(r.like, inputs[r.input].impl()->storage,
                                           inputs[r.input].offset() * item_size(r.like.dtype())));
  return results;
}

// ---- the end of a recording ---------------------------------------------------------------------------------

TensorList StepRecorder::captured_with_gradient() const {
  TensorList list;
  for (const Tensor& x : captured_)
    if (x.requires_grad() && (x.is_leaf() || x.impl()->node->sequence < first_node_))
      list.push_back(x);
  return list;
}

/// A recorded function has no effects but its results.
void StepRecorder::refuse_effects() {
  for (const auto& [impl, leaf] : leaves_)
    if (leaf.set || leaf.read) refuse("it reads or sets the gradient of a tensor");
  for (const auto& [storage, written] : touched_)
    if (const TrackedBlock* const m = memory_at(storage->data); written && m && m->outside)
      refuse("it changes a tensor from outside in place");
  check_flags("from outside");
}

/// The index of the memory of results that replaces a buffer of the recording.
int StepRecorder::add_memory(RecordedFunction& made, int buffer) {
  const auto [at, is_new] = results_of_.try_emplace(buffer, int(made.memory_.size()));
  StepBuffer& b = buffers_[buffer];
  b.kind = StepBuffer::Kind::escaping;
  if (is_new) made.memory_.push_back({b.device, b.bytes});
  return at->second;
}

void StepRecorder::add_results(RecordedFunction& made, const TensorList& results) {
  for (size_t n = 0; n < results.size(); ++n) {
    const Tensor& x = results[n];
    RecordedFunction::Result r{layout_of(x), input_at(x)};
    r.like.impl()->requires_grad = false;
    const TrackedBlock* const m = memory_at(x.data());
    if (r.input < 0 && (!m || m->outside || !(m->written || m->constant)))
      refuse(fmt::format("result {} was not computed in the function", n + 1));
    else if (r.input < 0) r.memory = add_memory(made, m->buffer);
    if (m && m->constant && r.memory >= 0)
      made.memory_[r.memory].numbers.assign(m->constant, m->constant + m->bytes);
    made.results_.push_back(std::move(r));
  }
}

// ---- intermediate results for the gradient --------------------------------------------------------------

/// Whether a program can repeat the call at little cost.
static bool is_cheap(Verb v) {
  constexpr Verb cheap[] = {Verb::map,    Verb::map_numbers,  Verb::run,
                            Verb::reduce, Verb::copy,         Verb::fill,
                            Verb::upload, Verb::upload_later, Verb::download};
  return std::ranges::find(cheap, v) != std::end(cheap);
}

static Tensor bytes_of(size_t bytes) { return layout_of(empty({int64_t(bytes)}, Dtype::u8)); }

/// The buffers that a call of the function itself writes, which is not cheap, and that later calls
/// read. They are the same in the recordings of the function and of its gradient.
std::vector<int> StepRecorder::costly_buffers() const {
  std::map<int, int> writes;
  std::map<int, size_t> last_read;
  for (size_t i = 0; i < calls_.size() && !calls_[i].gradient; ++i)
    for (const BufferUse& u : calls_[i].uses) {
      if (u.out) ++writes[u.buffer];
      else last_read[u.buffer] = i;
    }
  std::vector<int> list;
  for (size_t i = 0; i < calls_.size() && !calls_[i].gradient; ++i)
    for (const BufferUse& u : calls_[i].uses) {
      if (!u.out || u.buffer < 0 || is_cheap(calls_[i].verb)) continue;
      const auto read = last_read.find(u.buffer);
      if (buffers_[u.buffer].kind == StepBuffer::Kind::outside) continue;
      if (writes[u.buffer] == 1 && read != last_read.end() && read->second > i)
        list.push_back(u.buffer);
    }
  return list;
}

void StepRecorder::save_costly(RecordedFunction& made) {
  for (int b : costly_buffers()) {
    made.results_.push_back({bytes_of(buffers_[b].bytes), -1, add_memory(made, b)});
    ++made.saved_;
  }
}

/// The gradient gets these buffers as inputs, instead of the calls that write them.
void StepRecorder::read_saved(RecordedFunction& made) {
  std::vector<bool> saved(buffers_.size()), read(buffers_.size());
  for (int b : costly_buffers()) {
    saved[b] = true, ++made.saved_;
    input_of_[b] = made.inputs_.size();
    made.inputs_.push_back({bytes_of(buffers_[b].bytes), buffers_[b].device});
  }
  for (const StepCall& c : calls_)
    for (const BufferUse& u : c.uses)
      if (u.buffer >= 0 && !u.out) read[u.buffer] = true;
  std::erase_if(calls_, [&](const StepCall& c) {
    bool writes_saved = false, all = true;
    for (const BufferUse& u : c.uses) {
      if (!u.out || u.buffer < 0) continue;
      writes_saved |= saved[u.buffer], all &= saved[u.buffer] || !read[u.buffer];
    }
    if (!writes_saved || c.gradient) return false;
    for (const BufferUse& u : c.uses)
      if (u.out && u.buffer >= 0 && saved[u.buffer] && all)
        buffers_[u.buffer].kind = StepBuffer::Kind::input;
    return all;
  });
}

/// Assigns memory to the calls.
void StepRecorder::plan(RecordedFunction& made) {
  set_lifetimes(calls_, buffers_);
  share_in_place(calls_, buffers_);
  std::map<const Device*, int> arenas;
  for (const Device* d : {&cpu_device(), gpu_}) {
    if (!d) continue;
    const size_t bytes = plan_memory(buffers_, calls_.size(), *d);
    if (bytes == 0) continue;
    arenas[d] = int(made.memory_.size());
    made.memory_.push_back({d, bytes});
  }
  for (const StepCall& c : calls_) {
    for (BufferUse u : c.uses) {
      if (u.buffer < 0) continue;
      const StepBuffer& b = buffers_[u.buffer];
      if (b.kind == StepBuffer::Kind::inner) {
        u.offset += int64_t(b.offset);
        made.memory_[arenas.at(b.device)].calls.uses.push_back(u);
      } else if (b.kind == StepBuffer::Kind::escaping) {
        made.memory_[results_of_.at(u.buffer)].calls.uses.push_back(u);
      } else if (const auto at = input_of_.find(u.buffer); at != input_of_.end()) {
        made.inputs_[at->second].memory.uses.push_back(u);
      }
    }
  }
  move_numbers(made);
  made.calls_ = std::move(calls_);
}

/// Moves the numbers of calls to one tensor, so that a StepRecorder can record a run of the function.
void StepRecorder::move_numbers(RecordedFunction& made) {
  std::map<const std::byte*, int64_t> places;
  int64_t bytes = 0;
  const auto begin_of = [](const BufferUse& u) {
    std::byte* at = nullptr;
    std::memcpy(&at, u.slot, sizeof at);
    return at - u.offset;
  };
  const auto each = [&](const auto& f) {
    for (const StepCall& c : calls_)
      for (const BufferUse& u : c.uses)
        if (u.buffer < 0) f(u, begin_of(u), u.bytes ? int64_t(u.bytes) : 8);
  };
  each([&](const BufferUse&, const std::byte* from, int64_t n) {
    if (places.try_emplace(from, bytes).second) bytes += (n + 63) / 64 * 64;
  });
  if (bytes == 0) return;
  made.numbers_ = empty({bytes}, Dtype::u8);
  auto* const to = static_cast<std::byte*>(made.numbers_.data());
  each([&](const BufferUse& u, const std::byte* from, int64_t n) {
    std::memcpy(to + places.at(from), from, size_t(n));
    u.set(to + places.at(from));
  });
}

std::unique_ptr<RecordedFunction> StepRecorder::finish_function(const TensorList& results,
                                                                bool saves) {
  auto made = std::make_unique<RecordedFunction>();
  made->draws_ = end_recording();
  made->threads_ = cpu_threads();
  refuse_effects();
  for (const StepReplay::Input& in : replay_->inputs_) {
    made->inputs_.push_back({layout_of(in.tensor), &in.tensor.device()});
    if (gradient_) made->inputs_.back().like.impl()->requires_grad = false;
    if (const TrackedBlock* const m = memory_at(in.tensor.data())) {
      buffers_[m->buffer].kind = StepBuffer::Kind::input;
      input_of_[m->buffer] = made->inputs_.size() - 1;
    }
  }
  for (const Tensor& x : captured_) made->captured_.push_back({x, x.detach(), x.requires_grad()});
  add_results(*made, results);
  if (saves && gradient_) read_saved(*made);
  else if (saves) save_costly(*made);
  if (why_.empty()) {
    drop_dead_calls(calls_, buffers_, gradient_);
    std::vector<size_t> ends = {calls_.size()};
    made->arguments_ = std::move(replay_->arguments_);
    made->fused_ = fuse_calls(calls_, ends, buffers_, made->arguments_, &made->separate_);
    plan(*made);
    for (std::vector<std::byte>& n : numbers_) made->arguments_.push_back(std::move(n));
  }
  replay_.reset();
  return why_.empty() ? std::move(made) : nullptr;
}

}  // namespace mt
