// replay.cpp -- recording and repeating a step: the arguments of verbs, memory, what must not have changed
#include "engine/compile/replay.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "engine/autograd/graph.h"
#include "engine/autograd/inplace.h"
#include "engine/core/device.h"
#include "engine/core/error.h"
#include "engine/core/host.h"
#include "engine/ops/generator.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/interrupt.h"

namespace mt {
namespace {

// ---- where the pointers of arguments are: f(pointer, whether it is written to) ------------------------

template <class T, class F> bool one(T*& pointer, bool out, const F& f) {
  if (!pointer) return true;
  void* p = const_cast<void*>(static_cast<const void*>(pointer));
  const bool known = f(p, out);
  pointer = static_cast<T*>(p);
  return known;
}
template <class F> bool pointers(Map& m, const F& f) {
  bool known = true;
  for (int k = 1; k <= m.inputs; ++k) known &= one(m.data[k], false, f);
  return one(m.data[0], true, f) && known;
}
template <class F> bool pointers(Copy& c, const F& f) {
  return one(c.in, false, f) && one(c.out, true, f);
}
template <class F> bool pointers(Reduce& r, const F& f) {
  return one(r.in, false, f) && one(r.out, true, f) && one(r.out2, true, f);
}
template <class F> bool pointers(Scan& s, const F& f) {
  return one(s.in, false, f) && one(s.out, true, f) && one(s.index, true, f);
}
template <class F> bool pointers(Sort& s, const F& f) {
  return one(s.in, false, f) && one(s.out, true, f) && one(s.index, true, f) &&
         one(s.scratch, true, f);
}
template <class F> bool pointers(Softmax& s, const F& f) {
  return one(s.in, false, f) && one(s.grad, false, f) && one(s.out, true, f);
}
template <class F> bool pointers(Normalize& c, const F& f) {
  const bool reads = c.grad || c.given;  // the statistics
  return one(c.x, false, f) && one(c.weight, false, f) && one(c.bias, false, f) &&
         one(c.grad, false, f) && one(c.mean, !reads, f) && one(c.variance, !reads, f) &&
         one(c.rate, !c.grad, f) && one(c.out, true, f) && one(c.weight_grad, true, f) &&
         one(c.bias_grad, true, f);
}
template <class F> bool pointers(Cell& c, const F& f) {
  const bool there = one(c.gates, !c.backward, f) && one(c.state, false, f) &&
                     one(c.h_before, false, f) && one(c.c_before, false, f) &&
                     one(c.h, !c.backward, f) && one(c.c, !c.backward, f);
  return there && one(c.h_grad, false, f) && one(c.c_grad, false, f) &&
         one(c.gates_grad, true, f) && one(c.h_before_grad, true, f) &&
         one(c.c_before_grad, true, f);
}
template <class F> bool pointers(Matmul& m, const F& f) {
  return one(m.a, false, f) && one(m.b, false, f) && (!m.accumulate || one(m.c, false, f)) &&
         one(m.c, true, f);
}
template <class F> bool pointers(Conv& c, const F& f) {
  void** const all[] = {&c.y, &c.x, &c.w};
  const int to = int(c.part);
  bool known = one(c.bias, false, f);
  for (int k = 0; k < 3; ++k)
    if (k != to) known &= one(*all[k], false, f);
  return one(*all[to], true, f) && known;
}
template <class F> bool pointers(MaxPool& p, const F& f) {
  return one(p.x, false, f) && one(p.values, true, f) && one(p.index, true, f);
}
template <class F> bool pointers(Gather& g, const F& f) {
  return one(g.in, false, f) && one(g.index, false, f) && one(g.out, true, f);
}
template <class F> bool pointers(RavelIndex& r, const F& f) {
  return one(r.index, false, f) && one(r.out, true, f);
}
template <class F> bool pointers(Mask& m, const F& f) {
  return one(m.set, false, f) && one(m.before, true, f);
}
template <class F> bool pointers(Compress& c, const F& f) {
  return one(c.mask.set, false, f) && one(c.mask.before, false, f) &&
         one(c.unpack ? c.packed : c.whole, false, f) &&
         one(c.unpack ? c.whole : c.packed, true, f);
}
template <class F> bool pointers(Search& s, const F& f) {
  return one(s.sorted, false, f) && one(s.value, false, f) && one(s.out, true, f);
}
template <class F> bool pointers(Random& r, const F& f) { return one(r.out, true, f); }
template <class F> bool pointers(Run& r, const F& f) {
  const Program& p = *r.program;
  bool known = true;
  for (int k = p.outputs; k < p.outputs + p.inputs; ++k) known &= one(r.data[k], false, f);
  for (int k = 0; k < p.outputs; ++k) known &= one(r.data[k], true, f);
  return known && (!p.by_rows || one(r.scratch, true, f));
}
struct Any {
  bool operator()(void*&, bool) const { return true; }
};
template <class A> constexpr bool kRecords = requires(A& a) { pointers(a, Any()); };

// ---- the table of verbs while somebody records --------------------------------------------------------

Device verbs;  // what it holds otherwise
int recorders = 0;
std::mutex guard;  // of the two; other threads' calls pass through

template <class T> struct Recorded;
template <class R, class A> struct Recorded<R (*Device::*)(const A&)> {
  template <R (*Device::*verb)(const A&)> static bool run(const void* argument) {
    const A& a = *static_cast<const A*>(argument);
    if constexpr (std::is_same_v<R, bool>) return (cpu_device().*verb)(a);
    else return (cpu_device().*verb)(a), true;
  }
  template <R (*Device::*verb)(const A&)> static R call(const A& a) {
    StepRecorder* const r = StepRecorder::current();
    if (r) r->add(run<verb>, a);
    if constexpr (std::is_same_v<R, bool>) {
      const bool there = (verbs.*verb)(a);
      if (r && !there) fail("a position is not there; call the step itself to see which");
      return there;
    } else {
      return (verbs.*verb)(a);
    }
  }
};
void record_verbs() {
  Device& table =
      const_cast<Device&>(cpu_device());  // its maker keeps it in memory that is not constant
  const std::lock_guard lock(guard);
  // The profiler may have put the recorder's verbs back after the last recording.
  if (recorders++ > 0 || table.map == Recorded<decltype(&Device::map)>::call<&Device::map>) return;
  verbs = table;
#define MT_RECORD(result, verb, Argument) \
  table.verb = Recorded<decltype(&Device::verb)>::call<&Device::verb>;
  MT_VERBS(MT_RECORD)
  MT_CPU_VERBS(MT_RECORD)
#undef MT_RECORD
}
void leave_verbs() {
  const std::lock_guard lock(guard);
  Device& table = const_cast<Device&>(cpu_device());
  if (--recorders == 0 && table.map == Recorded<decltype(&Device::map)>::call<&Device::map>)
    table = verbs;
}

bool on_stack(const void* p) {
  static thread_local const char* const top = [] {
    pthread_attr_t a;
    void* low = nullptr;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &a) != 0) return static_cast<const char*>(nullptr);
    pthread_attr_getstack(&a, &low, &size);
    pthread_attr_destroy(&a);
    return static_cast<const char*>(low) + size;
  }();
  return p >= __builtin_frame_address(0) && p < top;
}

}  // namespace

// ---- recording ------------------------------------------------------------------------------------------

StepRecorder::StepRecorder(const std::vector<Tensor>& inputs) {
  if (step_recorder) fail("a step is being recorded already");
  replay_.reset(new StepReplay);
  replay_->inputs_ = inputs;
  replay_->begun_ = default_generator().counter();
  for (const Tensor& x : inputs) see(x);
  record_verbs();
  resume();
}
StepRecorder::~StepRecorder() { stop(); }

void StepRecorder::stop() {
  if (active_) pause();
  if (replay_) leave_verbs();
  replay_.reset();
}
void StepRecorder::pause() {
  for (const auto& [at, m] : memory_)
    if (!m.outside) paused_.push_back(Ref<Storage>::share(m.storage));
  step_recorder = nullptr, active_ = false;
  replay_->pool_.leave();
  replay_->ends_.push_back(replay_->calls_.size());
  first_change_ = std::min(first_change_, replay_->calls_.size());  // what is done in a pause
  keep_grads();
}
/// What an optimizer will find, or the caller.
void StepRecorder::keep_grads() {
  std::vector<StepReplay::Grad>& grads = replay_->grads_.emplace_back();
  for (const auto& [impl, leaf] : leaves_)
    if (leaf.tensor.requires_grad() && impl->grad != leaf.grad.impl())
      grads.push_back({leaf.tensor, leaf.tensor.grad()});
}
void StepRecorder::resume() {
  step_recorder = this, active_ = true;
  replay_->pool_.enter();
  paused_.clear();
}

void StepRecorder::refuse(std::string why) {
  if (why_.empty()) why_ = std::move(why);
}

void StepRecorder::allocated(Storage* s) {
  memory_[uintptr_t(s->data)] = {s->bytes, s, false, false};
}
void StepRecorder::freed(Storage* s) { memory_.erase(uintptr_t(s->data)); }
void StepRecorder::made_constant(Storage* s) {
  const auto at = memory_.find(uintptr_t(s->data));
  if (at == memory_.end() || at->second.outside) return;
  const auto* const bytes = static_cast<const std::byte*>(s->data);
  at->second.constant = numbers_.emplace_back(bytes, bytes + s->bytes).data();
}
void StepRecorder::computes_beside() {
  const char* const name = host.function();
  refuse(std::string(name ? name : "an operation") + " computes beside the verbs of the device");
}
void StepRecorder::reads_element() {
  fail(
      "a compiled step cannot ask for the elements of a tensor; return the tensor and ask outside");
}

void StepRecorder::see(const Tensor& x) {
  Storage* const s = x.impl()->storage;
  if (!s || x.impl()->number) return;
  if (!is_cpu(x.device())) return refuse("a tensor lies on " + std::string(x.device().name));
  const auto [at, is_new] =
      memory_.try_emplace(uintptr_t(s->data), Memory{s->bytes, s, true, true});
  if (!at->second.outside) return;
  if (is_new) outside_.try_emplace(s, x.detach(), s->version);
  if (!x.is_leaf() || leaves_.count(x.impl())) return;
  const Tensor g = x.requires_grad() ? x.grad() : Tensor();
  leaves_.emplace(x.impl(), Leaf{x, g});
  if (g.defined()) {
    Storage* const of = g.impl()->storage;
    if (memory_.try_emplace(uintptr_t(of->data), Memory{of->bytes, of, true, true}).second)
      outside_.try_emplace(of, g.detach(), of->version);
  }
}

StepRecorder::Memory* StepRecorder::memory_at(const void* p) {
  auto at = memory_.upper_bound(uintptr_t(p));
  if (at == memory_.begin()) return nullptr;
  --at;
  return uintptr_t(p) <= at->first + at->second.bytes ? &at->second : nullptr;
}

/// Whether a verb's pointer is memory that will be the same at a replay. A number on the stack is copied.
bool StepRecorder::check(void*& pointer, bool out) {
  if (on_stack(pointer)) {
    if (out) return false;
    const auto* const bytes = static_cast<const std::byte*>(pointer);
    pointer = numbers_.emplace_back(bytes, bytes + 8).data();
    return true;
  }
  Memory* const m = memory_at(pointer);
  if (m && m->constant && !out) {
    pointer = m->constant + (uintptr_t(pointer) - uintptr_t(m->storage->data));
    return true;
  }
  if (!m || (!out && !m->written)) return false;
  if (m->constant) {  // changed in place, from where it lies
    m->constant = nullptr;
    return false;
  }
  touched_[m->storage] |= out;
  if (out && m->outside) first_change_ = std::min(first_change_, replay_->calls_.size());
  m->written = true;
  return true;
}

template <class A> void StepRecorder::add(bool (*run)(const void*), const A& given) {
  if (!why_.empty()) return;
  const char* const name = host.function();
  const std::string by = name ? name : "an operation";
  if constexpr (!kRecords<A>) {
    return refuse(by + " cannot be recorded");
  } else {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&given);
    std::vector<std::byte>& kept = replay_->arguments_.emplace_back(bytes, bytes + sizeof given);
    A& a = *reinterpret_cast<A*>(kept.data());
    if (!pointers(a, [this](void*& p, bool out) { return check(p, out); }))
      return refuse(by + " reads numbers that no verb of the device has written in the step");
    StepReplay::Call call{run, kept.data(), nullptr, 0};
    if constexpr (std::is_same_v<A, Run>) {
      if (a.numbers) {
        const auto* const from = reinterpret_cast<const std::byte*>(a.numbers);
        const size_t size = sizeof(double) * size_t(a.program->numbers);
        a.numbers =
            reinterpret_cast<const double*>(numbers_.emplace_back(from, from + size).data());
      }
    } else if constexpr (std::is_same_v<A, Random>) {
      const Generator& g = default_generator();
      if (g.kind() != Generator::Kind::philox || a.seed != g.initial_seed())
        return refuse(by + " draws from a generator of its own");
      call.random = &a, call.place = a.offset - replay_->begun_;
    }
    replay_->calls_.push_back(call);
  }
}

std::unique_ptr<StepReplay> StepRecorder::finish(const std::vector<Tensor>& results) {
  pause();
  leave_verbs();
  std::unique_ptr<StepReplay> made = std::move(replay_);
  made->pool_.close();
  for (size_t k = 0; k < results.size(); ++k) {
    const Memory* const m = memory_at(results[k].data());
    if (const Node* n = results[k].impl()->node; n && !n->consumed)
      refuse(fmt::format(
          "result {} leads back to a graph; call backward inside, or compile it in no_grad",
          k + 1));
    if (!m || !m->written) refuse(fmt::format("result {} was not computed in the step", k + 1));
    made->results_.push_back(results[k].detach());
  }
  for (size_t k = 0; k < made->inputs_.size(); ++k)  // the caller's own would not be changed
    if (const auto at = touched_.find(made->inputs_[k].impl()->storage);
        at != touched_.end() && at->second)
      refuse(fmt::format("argument {} is changed in place", k + 1));
  if (!why_.empty()) return nullptr;
  made->draws_ = default_generator().counter() - made->begun_;
  for (const auto& [impl, leaf] : leaves_) {
    if (!outside_.count(impl->storage)) continue;
    const Tensor &x = leaf.tensor, now = x.requires_grad() ? x.grad() : Tensor();
    StepReplay::Guard g{x, impl->storage, x.requires_grad(), StepReplay::Before::any, nullptr};
    const Storage* const first = leaf.grad.defined() ? leaf.grad.impl()->storage : nullptr;
    if (first && touched_.count(leaf.grad.impl()->storage))
      g.before = StepReplay::Before::same, g.grad = first;
    if (!first && now.defined()) g.before = StepReplay::Before::none;
    made->guards_.push_back(std::move(g));
  }
  made->threads_ = cpu_threads();
  made->first_change_ = first_change_;
  for (const auto& [storage, seen] : outside_) {
    if (const auto at = touched_.find(storage); at != touched_.end() && at->second)
      made->changes_.push_back({seen.first, storage->version - seen.second});
    made->kept_.push_back(Ref<Storage>::share(storage));
  }
  for (const auto& [at, m] : memory_)
    if (!m.outside) made->kept_.push_back(Ref<Storage>::share(m.storage));
  for (std::vector<std::byte>& n : numbers_) made->arguments_.push_back(std::move(n));
  return made;
}

// ---- replaying --------------------------------------------------------------------------------------------

StepReplay::~StepReplay() = default;

bool StepReplay::takes(size_t input, const Tensor& x) const {
  const Tensor& mine = inputs_[input];
  return x.dtype() == mine.dtype() && x.shape() == mine.shape() && &x.device() == &mine.device() &&
         x.requires_grad() == mine.requires_grad();
}

bool StepReplay::fits() const {
  if (cpu_threads() != threads_) return false;
  for (const Guard& g : guards_) {
    const TensorImpl& x = *g.tensor.impl();
    if (x.storage != g.storage || x.requires_grad != g.wanted) return false;
    if (g.before == Before::none && x.grad) return false;
    if (g.before == Before::same && (!x.grad || x.grad->storage != g.grad)) return false;
  }
  return true;
}

void StepReplay::set_grads(size_t part) const {
  for (const Grad& g : grads_[part])
    if (g.leaf.impl()->grad != g.grad.impl()) g.leaf.set_grad(g.grad);
}

void StepReplay::start(const std::vector<Tensor>& inputs) {
  const NoGrad off;
  for (size_t k = 0; k < inputs.size(); ++k) copy_(inputs_[k], inputs[k]);
  begun_ = default_generator().counter();
}

bool StepReplay::run(size_t part) {
  const uint64_t seed = default_generator().initial_seed();
  for (size_t i = part == 0 ? 0 : ends_[part - 1]; i < ends_[part]; ++i) {
    check_interrupt();
    const Call& c = calls_[i];
    if (c.random) c.random->seed = seed, c.random->offset = begun_ + c.place;
    if (c.run(c.argument)) continue;
    if (i < first_change_) return false;
    fail("compile: a position is not there; what the step did before stays done");
  }
  set_grads(part);
  return true;
}

std::vector<Tensor> StepReplay::finish() {
  const NoGrad off;
  default_generator().set_counter(begun_ + draws_);
  for (const Change& c : changes_) c.tensor.impl()->storage->version += c.version;
  std::vector<Tensor> copies;
  for (const Tensor& r : results_) copies.push_back(clone(r));
  return copies;
}

bool StepReplay::writes(const Tensor& x) const {
  for (const Change& c : changes_)
    if (c.tensor.impl()->storage == x.impl()->storage) return true;
  return false;
}

void StepReplay::hold_grads() {
  held_.clear();
  for (const Guard& g : guards_) held_.push_back(g.wanted ? g.tensor.grad() : Tensor());
}
void StepReplay::restore_grads() {
  for (size_t k = 0; k < guards_.size(); ++k)
    if (guards_[k].wanted && guards_[k].tensor.impl()->grad != held_[k].impl())
      guards_[k].tensor.set_grad(held_[k]);
  held_.clear();
}

std::vector<Tensor> StepReplay::changes() const {
  std::vector<Tensor> list;
  for (const Change& c : changes_) list.push_back(c.tensor);
  return list;
}

}  // namespace mt
