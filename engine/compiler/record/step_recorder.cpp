// step_recorder.cpp -- records a step: the arguments of its verbs, its memory, the conditions for a replay
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "engine/autograd/graph.h"
#include "engine/compiler/cuda/program_cuda.h"
#include "engine/compiler/record/replay.h"
#include "engine/compiler/record/step_fuse.h"
#include "engine/compiler/record/verb_fields.h"
#include "engine/core/async_errors.h"
#include "engine/core/device.h"
#include "engine/ops/generator.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
static bool on_stack(const void* p) {
#ifdef __SANITIZE_ADDRESS__  // which keeps locals outside of the stack
  if (__asan_addr_is_in_fake_stack(__asan_get_current_fake_stack(), const_cast<void*>(p), nullptr,
                                   nullptr))
    return true;
#endif
  return p >= __builtin_frame_address(0) && p < stack_bounds().second;
}

// ---- recording ------------------------------------------------------------------------------------------

StepRecorder::StepRecorder(const TensorList& inputs, Kind kind) : kind_(kind) {
  if (step_recorder) fail("a step is being recorded already");
  static const NodeType marker{"recording", nullptr};
  first_node_ = record(marker, scalar(0, Dtype::f32), TensorList()).sequence;
  replay_.reset(new StepReplay);
  for (const Tensor& x : inputs) replay_->inputs_.push_back({x});
  replay_->begun_ = begun_ = drawn_ = default_generator().counter();
  seed_ = default_generator().initial_seed();
  for (const Tensor& x : inputs) on_use(x);
  add_interceptor(*this);
  resume();
}
StepRecorder::~StepRecorder() { stop(); }

void StepRecorder::stop() {
  if (active_) pause();
  remove_interceptor(*this);
  replay_.reset();
}
void StepRecorder::pause() {
  for (const auto& [at, m] : memory_)
    if (!m.outside) paused_.push_back(Ref<Storage>::share(m.storage));
  step_recorder = nullptr, active_ = false;
  for (auto& [storage, seen] : outside_) seen.second = storage->version - seen.second;
  replay_->ends_.push_back(calls_.size());
  keep_grads();
}
/// Keeps the gradients that an optimizer, or the caller, will read.
void StepRecorder::keep_grads() {
  std::vector<StepReplay::Grad>& grads = replay_->grads_.emplace_back();
  for (auto& [impl, leaf] : leaves_) {
    // A gradient that an earlier part set may have been removed later.
    leaf.set |= impl->grad != leaf.grad.impl();
    if (leaf.set) grads.push_back({leaf.tensor, leaf.tensor.grad()});
  }
}
void StepRecorder::resume() {
  step_recorder = this, active_ = true;
  // Changes in the pause are made, and counted, by each replay too.
  for (auto& [storage, seen] : outside_) seen.second = storage->version - seen.second;
  paused_.clear();
}

/// A replay continues from the generator's position: the step may set it back to one that it has passed, but to no
/// other.
void StepRecorder::check_generator(uint64_t counter) {
  if (default_generator().initial_seed() != seed_ || counter < begun_ || counter > drawn_)
    refuse("set_rng_state sets a position outside the step");
}

void StepRecorder::refuse(std::string why) {
  if (why_.empty()) why_ = std::move(why);
}

/// Whether the step may use the device: the CPU, and one GPU.
bool StepRecorder::takes(const Device& d) {
  if (is_cpu(d) || &d == gpu_) return true;
  if (gpu_) return refuse(fmt::format("tensors are on {} and {}", gpu_->name, d.name)), false;
  gpu_ = &d;
  return true;
}

void StepRecorder::on_allocate(Storage* s) {
  if (!takes(*s->device)) return;
  memory_[uintptr_t(s->data)] = {s->bytes, s, false, false, int(buffers_.size())};
  buffers_.push_back({s->bytes, s->device});
}
StepRecorder::TrackedBlock& StepRecorder::add_outside(Storage* s) {
  const auto [at, is_new] = memory_.try_emplace(
      uintptr_t(s->data), TrackedBlock{s->bytes, s, true, true, int(buffers_.size())});
  if (is_new) buffers_.push_back({s->bytes, s->device, StepBuffer::Kind::outside});
  return at->second;
}
void StepRecorder::on_free(Storage* s) {
  memory_.erase(uintptr_t(s->data));
  touched_.erase(s);
}
void StepRecorder::on_constant(Storage* s) {
  const auto at = memory_.find(uintptr_t(s->data));
  if (at == memory_.end() || at->second.outside) return;
  const auto* const bytes = static_cast<const std::byte*>(s->data);
  at->second.constant = numbers_.emplace_back(bytes, bytes + s->bytes).data();
}
void StepRecorder::on_untraced_computation() {
  const char* const name = host.function();
  refuse(std::string(name ? name : "x[mask], x[i] of a 0-d i, or tostring(x)") +
         " cannot be recorded: it computes on the CPU outside of device functions");
}
void StepRecorder::on_external_effect(const char* what) {
  if (what) return refuse(what);
  const char* const name = host.function();
  refuse(std::string(name ? name : "a function") +
         " reads or changes something other than tensors, which a replay cannot repeat");
}
void StepRecorder::on_requires_grad_change(const Tensor& x) {
  flags_.try_emplace(x.impl(), x, x.requires_grad());
}
void StepRecorder::on_index_check(const IndexBound& e) {
  if (!calls_.empty()) calls_.back().bound = std::make_shared<const IndexBound>(e);
}
void StepRecorder::on_element_read(const std::string& by) {
  if (!by.empty()) return refuse(by + " reads elements of tensors, on which its result depends");
  read_element_ = true;  // the step may catch the error
  refuse_number(kind_);
}

void StepRecorder::refuse_number(Kind kind) {
  if (kind == Kind::function)
    fail("a fused function cannot ask for numbers; return the tensor and ask outside");
  fail(
      "a compiled step cannot ask for the elements of a tensor; return the tensor and ask outside");
}

void StepRecorder::on_use(const Tensor& x) {
  Storage* const s = x.impl()->storage;
  if (!s || x.impl()->number) return;
  if (!takes(x.device()) || !add_outside(s).outside) return;
  outside_.try_emplace(s, x.detach(), s->version);
  if (kind_ == Kind::function && active_ && input_at(x) < 0) {
    const auto is_x = [&](const Tensor& y) { return y.impl() == x.impl(); };
    if (std::ranges::none_of(captured_, is_x)) captured_.push_back(x);
    if (x.requires_grad() && !x.is_leaf()) return;
  }
  if (!x.is_leaf() || leaves_.count(x.impl())) return;
  const Tensor g = x.grad();
  leaves_.emplace(x.impl(), Leaf{x, g});
  if (!g.defined()) return;
  Storage* const of = g.impl()->storage;
  add_outside(of);
  outside_.try_emplace(of, g.detach(), of->version);
}

void StepRecorder::on_grad_read(const Tensor& x) {
  on_use(x);
  if (const auto at = leaves_.find(x.impl()); at != leaves_.end()) at->second.read = true;
}

std::byte* RecordedExchange::add(const Tensor& x, TensorList& list) {
  Storage& s = storages.emplace_back();
  const int64_t offset = x.offset() * item_size(x.dtype());
  s.device = &x.device(), s.bytes = x.impl()->storage->bytes - size_t(offset);
  list.push_back(placed(x, &s, -offset));
  return reinterpret_cast<std::byte*>(&s.data);
}
void StepRecorder::on_exchange(const Exchange& e) {
  if (kind_ == Kind::function) refuse("a fused function exchanges tensors with other processes");
  {
    const SaveAndRestore<StepListener*> pause(step_recorder, nullptr);
    e.run(e.in, e.out);
  }
  if (!why_.empty()) return;
  StepCall call{Verb::sync, &cpu_device(), nullptr, nullptr, 0, {}};
  call.exchange = std::make_shared<RecordedExchange>();
  Exchange& kept = call.exchange->exchange;
  kept.run = e.run;
  bool known = true;
  const auto add = [&](const Tensor& x, TensorList& list, bool out) {
    std::byte* const slot = call.exchange->add(x, list);
    void* const at = const_cast<void*>(x.data());
    std::memcpy(slot, &at, sizeof at);
    known &= add_use(slot, out, call);
  };
  for (const Tensor& x : e.in) add(x, kept.in, false);
  for (const Tensor& x : e.out) add(x, kept.out, true);
  calls_.push_back(std::move(call));
  if (!known) on_untraced_computation();
}

StepRecorder::TrackedBlock* StepRecorder::memory_at(const void* p) {
  auto at = memory_.upper_bound(uintptr_t(p));
  if (at == memory_.begin()) return nullptr;
  --at;
  return uintptr_t(p) <= at->first + at->second.bytes ? &at->second : nullptr;
}

/// Adds the use of a verb's pointer to the call. False if a replay could not find the memory. A number on the stack is
/// copied.
bool StepRecorder::add_use(std::byte* slot, bool out, StepCall& call) {
  std::byte* pointer = nullptr;
  std::memcpy(&pointer, slot, sizeof pointer);
  if (on_stack(pointer)) {
    if (out) return false;
    call.uses.push_back({slot, -1, 0, false});
    call.uses.back().set(numbers_.emplace_back(pointer, pointer + 8).data());
    return true;
  }
  TrackedBlock* const m = memory_at(pointer);
  if (!m) return false;
  const int64_t offset = pointer - static_cast<std::byte*>(m->storage->data);
  if (m->constant && !out) {
    call.uses.push_back({slot, -1, offset, false, m->bytes});
    call.uses.back().set(m->constant);
    return true;
  }
  if (!out && !m->written) return false;
  if (out && kind_ == Kind::function && m->outside)
    for (const StepReplay::Input& in : replay_->inputs_)
      if (in.tensor.impl()->storage == m->storage) {
        refuse("it changes an argument in place");  // the argument is a copy
        ended_ = true;
        fail("{}", why_);
      }
  if (m->constant) {  // it is changed in place, which a replay would repeat on the changed numbers
    m->constant = nullptr;
    return false;
  }
  touched_[m->storage] |= out;
  m->written = true;
  call.uses.push_back({slot, m->buffer, offset, out});
  return true;
}

// ---- as an interceptor: it keeps each call of a verb with its argument -----------------------------------

template <class A> void StepRecorder::add(const InterceptedCall& seen, const A& given) {
  if (!why_.empty() && kind_ == Kind::step) return;
  const char* const name = host.function();
  const std::string by = name ? name : "an operation";
  if constexpr (!kRecords<A>) {
    return refuse(by + " cannot be recorded");
  } else {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&given);
    std::byte* const kept = replay_->arguments_.emplace_back(bytes, bytes + sizeof given).data();
    // A replay may change the source of its upload right after the call.
    const Verb verb = seen.verb == Verb::upload_later ? Verb::upload : seen.verb;
    StepCall call{verb, &seen.device, kept, nullptr, 0, {}};
    A& a = *reinterpret_cast<A*>(kept);
    bool known = true;
    const auto look = [&](auto*& p, bool out) {
      known &= !p || add_use(reinterpret_cast<std::byte*>(&p), out, call);
    };
    fields(a, look);
    if (!known) return refuse(by + " reads memory that no recorded operation has written");
    if constexpr (requires { a.program->numbers; }) {
      if (a.numbers) {
        const auto* const from = reinterpret_cast<const std::byte*>(a.numbers);
        const size_t size = sizeof(double) * a.program->numbers;
        a.numbers =
            reinterpret_cast<const double*>(numbers_.emplace_back(from, from + size).data());
      }
    } else if constexpr (std::is_same_v<A, Random>) {
      if (a.seed != default_generator().initial_seed())
        return refuse(by + " draws from a generator other than the default one");
      check_generator(a.offset);
      drawn_ = std::max(drawn_, default_generator().counter());
      call.random = &a, call.place = a.offset - begun_;
    }
    if constexpr (std::is_base_of_v<Map, A> || std::is_same_v<A, Reduce>)
      if (host.where && !gradient_) call.where = host.where();
    call.gradient = gradient_;
    calls_.push_back(std::move(call));
  }
}

bool StepRecorder::around(InterceptedCall& call) {
  const auto record = [&] {
    with_argument(call.verb, call.argument, [&](const auto& a) { add(call, a); });
  };
  if (step_recorder != this || call.verb == Verb::alloc || call.verb == Verb::free ||
      call.verb == Verb::sync)
    return call.next();
  if (call.verb == Verb::run && !is_cpu(call.device)) {  // one call, though it may call other verbs
    const auto run = [&] {
      const SaveAndRestore<StepListener*> pause(step_recorder, nullptr);
      return call.next();
    };
    if (!run()) return false;
    record();
    return true;
  }
  record();
  if (call.verb == Verb::matmul || call.verb == Verb::conv) return call.next();
  if (!call.next())
    fail("an index is out of range; run the step without mt.compile to see which one");
  return true;
}

// ---- the end of a recording -----------------------------------------------------------------------------

int StepRecorder::input_at(const Tensor& x) const {
  for (size_t k = 0; k < replay_->inputs_.size(); ++k)
    if (replay_->inputs_[k].tensor.impl()->storage == x.impl()->storage) return int(k);
  return -1;
}

void StepRecorder::check_results(StepReplay& made, const TensorList& results) {
  for (size_t k = 0; k < results.size(); ++k) {
    const TrackedBlock* const m = memory_at(results[k].data());
    if (const Node* n = results[k].impl()->node; n && !n->consumed)
      refuse(fmt::format(
          "result {} leads back to a graph; call backward inside, or compile it in no_grad",
          k + 1));
    if (!m || !m->written) refuse(fmt::format("result {} was not computed in the step", k + 1));
    made.results_.push_back({results[k].detach(), m && !m->outside});
    for (size_t i = 0; i < made.inputs_.size(); ++i)
      if (made.inputs_[i].tensor.impl()->storage == results[k].impl()->storage)
        made.results_.back().input = int(i);
  }
  for (size_t k = 0; k < made.inputs_.size(); ++k)
    for (const auto& part : made.grads_)
      for (const StepReplay::Grad& g : part)
        if (g.grad.defined() && g.grad.impl()->storage == made.inputs_[k].tensor.impl()->storage)
          refuse(fmt::format("argument {} is set as a gradient; set a clone of it", k + 1));
  for (size_t k = 0; k < made.inputs_.size(); ++k) {  // the caller's argument would not be changed
    const Tensor& x = made.inputs_[k].tensor;
    if (const auto at = touched_.find(x.impl()->storage); at != touched_.end() && at->second)
      refuse(fmt::format("argument {} is changed in place", k + 1));
    if (x.requires_grad() || x.grad().defined())
      refuse(fmt::format(
          "argument {} requires or gets a gradient; pass a tensor that does not require one",
          k + 1));
  }
}

/// Refuses a recording that changes requires_grad.
void StepRecorder::check_flags(const char* whose) {
  for (const auto& [impl, before] : flags_)
    if (const TrackedBlock* const m = memory_at(impl->storage->data);
        (!m || m->outside) && impl->requires_grad != before.second)
      refuse(
          fmt::format("it changes requires_grad of a tensor {}, or of a view of one; "
                      "x:clone():requires_grad_() may have a gradient",
                      whose));
}

void StepRecorder::make_guards(StepReplay& made) {
  std::map<const Storage*, Tensor>
      gradients;                        // owned by a leaf: another program may write there again
  std::map<const Storage*, int> users;  // leaves, and those that own it as gradient
  std::set<const Storage*> unused;      // gradients that the step only replaces
  for (const auto& [impl, leaf] : leaves_) {
    ++users[impl->storage];
    if (leaf.grad.defined()) ++users[leaf.grad.impl()->storage];
  }
  for (const auto& [impl, leaf] : leaves_) {
    if (!outside_.count(impl->storage)) continue;
    const Tensor& x = leaf.tensor;
    StepReplay::Guard g{x, x.detach(), x.requires_grad(), StepReplay::GradPrecondition::any};
    const TensorImpl* const first = leaf.grad.impl();
    if (first && !touched_.count(first->storage)) unused.insert(first->storage);
    if (first && touched_.count(first->storage)) {
      g.precondition = StepReplay::GradPrecondition::same, g.grad = first->storage;
      g.memory.at = first->storage->data;
      g.offset = first->offset, g.contiguous = first->contiguous;
      g.bytes = size_t(first->storage->bytes);
      g.moves = impl->grad == first && users[first->storage] == 1;
      if (impl->grad == first) gradients.emplace(first->storage, x);
    }
    // The step made the gradient, or found none that it could zero.
    if (!first) g.precondition = StepReplay::GradPrecondition::none;
    for (StepReplay::Result& r : made.results_)
      if (first && r.tensor.impl()->storage == first->storage) r.guard = int(made.guards_.size());
    if (first && leaf.read && g.precondition == StepReplay::GradPrecondition::any)
      g.precondition = StepReplay::GradPrecondition::present;
    if (x.requires_grad() && StepReplay::has_hooks(*impl))
      refuse("a tensor that it reads has a hook, which a replay would not call");
    if (impl->hooks)
      g.groups = size_t(
          std::ranges::count_if(*impl->hooks, [](const auto& h) { return h->group != nullptr; }));
    made.guards_.push_back(std::move(g));
  }
  made.threads_ = cpu_threads();
  for (const auto& [storage, seen] : outside_) {
    const auto leaf = gradients.find(storage);
    const bool of_grad = leaf != gradients.end();
    if (const auto at = touched_.find(storage); at != touched_.end() && at->second)
      made.changes_.push_back({of_grad ? leaf->second : seen.first, seen.second, of_grad});
    if (!of_grad && !unused.count(storage)) made.kept_.push_back(Ref<Storage>::share(storage));
  }
}

/// The memory of the step in which a tensor is, or null.
StepRecorder::TrackedBlock* StepRecorder::own_memory(const Tensor& x) {
  if (!x.defined()) return nullptr;
  const auto at = memory_.find(uintptr_t(x.impl()->storage->data));
  return at == memory_.end() || at->second.outside ? nullptr : &at->second;
}

/// Finds the memory of results and of the last gradients. Optimizers need that of earlier ones.
void StepRecorder::find_escaping(StepReplay& made) {
  std::map<int, size_t> places;
  const auto add = [&](const Tensor& x) {
    const TrackedBlock* const m = own_memory(x);
    if (!m || !places.try_emplace(m->buffer, made.escaping_.size()).second) return;
    StepReplay::EscapingBuffer& o = made.escaping_.emplace_back();
    o.buffer = m->buffer, o.bytes = m->bytes, o.device = m->storage->device;
    if (m->constant) o.numbers.assign(m->constant, m->constant + m->bytes);
    buffers_[m->buffer].kind = StepBuffer::Kind::escaping;
  };
  for (const StepReplay::Result& r : made.results_) add(r.tensor);
  for (const StepReplay::Grad& g : made.grads_.back()) add(g.grad);
  for (size_t k = 0; k < made.results_.size(); ++k)
    if (const TrackedBlock* const m = own_memory(made.results_[k].tensor))
      made.escaping_[places[m->buffer]].results.push_back(k);
  for (size_t part = 0; part < made.grads_.size(); ++part)
    for (StepReplay::Grad& g : made.grads_[part]) {
      const TrackedBlock* const m = own_memory(g.grad);
      if (!m) continue;
      StepBuffer& b = buffers_[m->buffer];
      if (b.kind == StepBuffer::Kind::escaping)
        made.escaping_[places[m->buffer]].grads.push_back(&g);
      else b.kept = true;
    }
  for (StepReplay::EscapingBuffer& o : made.escaping_) {
    for (size_t k : o.results) made.results_[k].is_grad = !o.grads.empty();
    o.count_owners(made.results_);
  }
}

/// Uploads numbers in a GPU's memory that nothing else writes.
void StepRecorder::upload_constants(StepReplay& made) {
  std::map<int, int> writes;
  for (const StepCall& c : calls_)
    for (const BufferUse& u : c.uses) writes[u.buffer] += u.out;
  std::map<int, std::byte*> places;
  for (StepCall& c : calls_) {
    if (c.verb != Verb::upload || c.uses[0].buffer >= 0) continue;
    const BufferUse& to = c.uses[1];
    StepBuffer& b = buffers_[to.buffer];
    if (b.kind != StepBuffer::Kind::inner || b.kept || writes[to.buffer] > 1) continue;
    const Tensor memory = empty({int64_t(b.bytes)}, Dtype::u8, *b.device);
    made.kept_.push_back(Ref<Storage>::share(memory.impl()->storage));
    to.set(places[to.buffer] = static_cast<std::byte*>(memory.data()));
    b.kind = StepBuffer::Kind::constant;
    c.done = run_verb(*c.device, c.verb, c.argument, call_verb_or_program);
  }
  for (const StepCall& c : calls_)
    for (const BufferUse& u : c.uses)
      if (const auto at = places.find(u.buffer); at != places.end()) u.set(at->second);
}

/// For each buffer whose address may change between replays, the list of its uses; otherwise null.
std::vector<std::vector<BufferUse>*> StepRecorder::find_movable(StepReplay& made) {
  std::vector<std::vector<BufferUse>*> movable(buffers_.size());
  for (StepReplay::Input& in : made.inputs_) {
    const TrackedBlock& m = memory_.at(uintptr_t(in.tensor.data()));
    buffers_[m.buffer].kind = StepBuffer::Kind::input;
    movable[m.buffer] = &in.memory.uses;
  }
  for (StepReplay::EscapingBuffer& o : made.escaping_) movable[o.buffer] = &o.uses;
  for (StepReplay::Guard& g : made.guards_)
    if (g.moves) movable[memory_.at(uintptr_t(g.memory.at)).buffer] = &g.memory.uses;
  return movable;
}

/// Assigns memory to the calls.
void StepRecorder::plan(StepReplay& made) {
  set_lifetimes(calls_, buffers_);
  for (size_t part = 0; part < made.grads_.size(); ++part)
    for (const StepReplay::Grad& g : made.grads_[part])
      if (const TrackedBlock* const m = own_memory(g.grad); m && !m->constant) {
        int& last = buffers_[m->buffer].last;
        last = std::max(last, int(made.ends_[part]) - 1);
      }
  made.first_change_ = made.ends_[0];
  for (size_t i = calls_.size(); i-- > 0;) {
    if (calls_[i].exchange) made.first_change_ = std::min(made.first_change_, i);
    for (const BufferUse& u : calls_[i].uses)
      if (u.out && u.buffer >= 0 && buffers_[u.buffer].kind == StepBuffer::Kind::outside)
        made.first_change_ = std::min(made.first_change_, i);
  }
  const std::vector<std::vector<BufferUse>*> movable = find_movable(made);
  upload_constants(made);
  share_in_place(calls_, buffers_);
  made.bytes_ = inner_bytes(buffers_);
  std::map<const Device*, Tensor> arenas;
  for (const Device* d : {&cpu_device(), gpu_}) {
    if (!d) continue;
    const size_t bytes = plan_memory(buffers_, calls_.size(), *d);
    const Tensor& arena = arenas[d] = empty({int64_t(bytes)}, Dtype::u8, *d);
    made.planned_ += bytes;
    made.kept_.push_back(Ref<Storage>::share(arena.impl()->storage));
  }
  for (StepCall& c : calls_) {
    for (const BufferUse& u : c.uses) {
      if (u.buffer < 0) continue;
      const StepBuffer& b = buffers_[u.buffer];
      if (b.kind == StepBuffer::Kind::inner)
        u.set(static_cast<std::byte*>(arenas.at(b.device).data()) + b.offset);
      else if (auto* const list = movable[u.buffer]) list->push_back(u);
    }
  }
  store_calls(made);
  for (const StepBuffer& b : buffers_)
    made.buffers_ += b.kind == StepBuffer::Kind::inner && b.first <= b.last;
  for (auto& part : made.grads_)
    for (StepReplay::Grad& g : part) {
      const TrackedBlock* const m = own_memory(g.grad);
      if (!m || m->constant) continue;
      const StepBuffer& b = buffers_[m->buffer];
      if (b.kind == StepBuffer::Kind::inner)
        g.grad = placed(g.grad, arenas.at(b.device).impl()->storage, int64_t(b.offset));
    }
}

/// Stores the calls of a replay, and which parts run only on the GPU.
void StepRecorder::store_calls(StepReplay& made) {
  std::vector<size_t> places = {0};  // of the calls, without those that already ran
  for (const StepCall& c : calls_) places.push_back(places.back() + !c.done);
  made.gpu_ = gpu_;
  made.first_change_ = places[made.first_change_];
  size_t i = 0;
  for (size_t& end : made.ends_) {
    bool only_gpu = true;
    for (; i < end; ++i) {
      const StepCall& c = calls_[i];
      only_gpu &=
          c.done || (c.device == gpu_ && c.verb != Verb::upload && c.verb != Verb::download);
    }
    made.graph_parts_.push_back(only_gpu);
    end = places[end];
  }
  std::erase_if(calls_, [](const StepCall& c) { return c.done; });
  made.calls_ = std::move(calls_);
}

/// Ends the recording; returns by how many places it has advanced the generator.
uint64_t StepRecorder::end_recording() {
  pause();
  remove_interceptor(*this);
  if (read_element_) refuse_number(kind_);
  const uint64_t counter = default_generator().counter();
  check_generator(counter);
  return counter - begun_;
}

std::unique_ptr<StepReplay> StepRecorder::finish(const TensorList& results, TensorList stepped) {
  const uint64_t draws = end_recording();
  std::unique_ptr<StepReplay> made = std::move(replay_);
  check_results(*made, results);
  check_flags("from before the step");
  made->stepped_ = std::move(stepped);
  made->draws_ = draws;
  make_guards(*made);
  if (!why_.empty()) return nullptr;
  find_escaping(*made);
  made->fused_ = fuse_calls(calls_, made->ends_, buffers_, made->arguments_, nullptr);
  plan(*made);
  for (std::vector<std::byte>& n : numbers_) made->arguments_.push_back(std::move(n));
  return made;
}

}  // namespace mt
