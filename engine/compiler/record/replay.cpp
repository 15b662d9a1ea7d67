// replay.cpp -- repeating a recorded step: memory that callers see, checks that its conditions still hold
#include "engine/compiler/record/replay.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/autograd/graph.h"
#include "engine/compiler/cuda/program_cuda.h"
#include "engine/core/async_errors.h"
#include "engine/core/device.h"
#include "engine/ops/generator.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {

Tensor placed(const Tensor& like, Storage* storage, int64_t bytes) {
  Tensor t = shape_of(like);
  TensorImpl &to = *t.impl(), &from = *like.impl();
  std::copy_n(from.stride, from.ndim, to.stride);
  to.contiguous = from.contiguous;
  to.offset = from.offset + bytes / item_size(from.dtype);
  to.storage = Ref<Storage>::share(storage).release();
  return t;
}

bool same_layout(const Tensor& x, const Tensor& like) {
  const TensorImpl &a = *x.impl(), &b = *like.impl();
  const size_t bytes = sizeof a.size[0] * size_t(b.ndim);
  return a.dtype == b.dtype && a.ndim == b.ndim && std::memcmp(a.size, b.size, bytes) == 0 &&
         a.contiguous == b.contiguous &&
         (a.contiguous || std::memcmp(a.stride, b.stride, bytes) == 0);
}

/// Copies of tensors, without a graph; copies of tensors that share a storage share one too.
static TensorList copies_of(const TensorList& list) {
  const NoGrad off;
  std::map<Storage*, int> seen;
  for (const Tensor& x : list) ++seen[x.impl()->storage];
  std::map<Storage*, Tensor> storages;
  TensorList copies;
  for (const Tensor& x : list) {
    Storage* const s = x.impl()->storage;
    if (seen[s] > 1 && !storages[s].defined()) storages[s] = clone(storage_of(x.detach()));
    copies.push_back(seen[s] > 1 ? placed(x, storages[s].impl()->storage) : clone(x.detach()));
  }
  return copies;
}

TensorList on_arguments(TensorList results, const TensorList& inputs, const TensorList& arguments) {
  for (Tensor& x : results)
    for (size_t k = 0; k < inputs.size(); ++k)
      if (x.impl()->storage == inputs[k].impl()->storage && !x.impl()->node)
        x = placed(x, arguments[k].impl()->storage,
                   arguments[k].offset() * item_size(arguments[k].dtype()));
  return results;
}

// ---- memory that is visible after the step ----------------------------------------------------------------

void StepReplay::EscapingBuffer::count_owners(const std::vector<Result>& list) {
  owners.clear();
  const auto add = [this](TensorImpl* x, TensorImpl* leaf) {
    for (GradOwner& o : owners)
      if (o.grad == x) return void(++o.handles);
    owners.push_back({x, leaf, 1});
  };
  for (const Grad* g : grads) add(g->grad.impl(), g->leaf.impl());
  for (size_t k : results) add(list[k].tensor.impl(), nullptr);
}

/// Whether anything but the leaves owns the memory.
bool StepReplay::EscapingBuffer::is_held() const {
  for (const GradOwner& o : owners)
    if (o.grad->refs != o.handles + (o.leaf && o.leaf->grad == o.grad)) return true;
  return owners[0].grad->storage->refs != int(owners.size());
}

void StepReplay::renew(EscapingBuffer& o) {
  const Tensor fresh = empty({int64_t(o.bytes)}, Dtype::u8, *o.device);
  Storage* const s = fresh.impl()->storage;
  for (const EscapingBuffer::GradOwner& own : o.owners) {
    Tensor now;
    const auto replace = [&](Tensor& x) {
      if (x.impl() != own.grad) return;
      if (!now.defined()) now = placed(x, s);
      x = now;
    };
    for (Grad* g : o.grads) replace(g->grad);
    for (size_t k : o.results) replace(results_[k].tensor);
  }
  for (const BufferUse& u : o.uses) u.set(static_cast<std::byte*>(s->data));
  o.count_owners(results_);
  drop_graphs();
}

// ---- replaying ----------------------------------------------------------------------------------------------

bool StepReplay::takes(const TensorList& inputs) const {
  return std::ranges::equal(inputs, inputs_, [](const Tensor& x, const Input& in) {
    return same_layout(x, in.tensor) && x.requires_grad() == in.tensor.requires_grad() &&
           &x.device() == &in.tensor.device();
  });
}

bool StepReplay::has_hooks(const TensorImpl& x) {
  return x.hooks && std::ranges::any_of(*x.hooks, [](const auto& h) { return bool(h->call); });
}
bool StepReplay::Guard::groups_fit() const {
  size_t now = 0;
  for (const auto& hook : *tensor.impl()->hooks) {
    if (!hook->group) continue;
    if (!hook->group->is_repeatable()) return false;
    ++now;
  }
  return now == groups;
}

bool StepReplay::fits() const {
  if (cpu_threads() != threads_) return false;
  bool moved = false;
  for (const Guard& g : guards_) {
    const TensorImpl& x = *g.tensor.impl();
    if (!g.takes_layout() || x.requires_grad != g.wanted) return false;
    if (g.wanted && x.hooks && (has_hooks(x) || !g.groups_fit())) return false;
    if (g.precondition == GradPrecondition::none && x.grad) return false;
    if (g.precondition == GradPrecondition::present && !x.grad) return false;
    if (g.precondition != GradPrecondition::same) continue;
    if (!g.takes(x.grad)) return false;
    moved |= x.grad->storage != g.grad;
  }
  return !moved || !shares_gradients();
}

bool StepReplay::shares_gradients() const {
  std::vector<const Storage*> gradients;
  for (const Guard& g : guards_)
    if (g.precondition == GradPrecondition::same)
      gradients.push_back(g.tensor.impl()->grad->storage);
  std::ranges::sort(gradients);
  return std::ranges::adjacent_find(gradients) != gradients.end();
}

bool StepReplay::Guard::takes_layout() const {
  return tensor.impl()->storage == storage() && tensor.offset() == like.offset() &&
         same_layout(tensor, like);
}

bool StepReplay::Guard::takes(const TensorImpl* x) const {
  if (!x || x->offset != offset || x->contiguous != contiguous) return false;
  return (x->storage == grad && x->storage->data == memory.at) ||
         (moves && contiguous && x->storage->bytes == bytes);
}

void StepReplay::set_grads(size_t part) const {
  for (const Grad& g : grads_[part])
    if (g.leaf.impl()->grad != g.grad.impl()) g.leaf.set_grad(g.grad);
}

void StepReplay::start(const TensorList& inputs) {
  const NoGrad off;
  given_ = inputs;
  choose_graphs();
  for (size_t k = 0; k < inputs.size(); ++k) {
    Input& in = inputs_[k];
    const bool copied = uses_graphs_ && inputs[k].data() != in.memory.at;
    if (copied) copy_(in.tensor, inputs[k]);
    if (in.memory.move_to(copied ? in.tensor.data() : inputs[k].data())) drop_graphs();
  }
  for (Guard& g : guards_) {
    if (g.precondition != GradPrecondition::same) continue;
    Storage* const s = g.tensor.impl()->grad->storage;
    if (!g.memory.move_to(s->data)) continue;
    g.grad = s;
    drop_graphs();
  }
  for (Result& r : results_)
    if (r.guard >= 0) r.grad = guards_[r.guard].tensor.grad();
  for (EscapingBuffer& o : escaping_) {
    if ((!o.results.empty() && !uses_graphs_) || o.is_held()) renew(o);
    if (!o.numbers.empty()) std::memcpy(o.owners[0].grad->storage->data, o.numbers.data(), o.bytes);
  }
  begun_ = default_generator().counter();
}

bool StepCall::run(uint64_t random_begin) const {
  if (exchange) return run_exchange(exchange->exchange), true;
  if (random)
    random->seed = default_generator().initial_seed(), random->offset = random_begin + place;
  const bool there = run_verb(*device, verb, argument, call_verb_or_program);
  if (bound) defer_replayed_check(*device, *bound);
  return there;
}

bool StepReplay::run(size_t part) {
  const bool launched = run_graph(part);
  for (size_t i = part == 0 ? 0 : ends_[part - 1]; i < ends_[part] && !launched; ++i) {
    check_interrupt();
    if (calls_[i].run(begun_)) continue;
    if (i < first_change_) return false;
    fail("compile: an index is out of range; changes that the step made before this call remain");
  }
  set_grads(part);
  return true;
}

TensorList StepReplay::finish() {
  const NoGrad off;
  default_generator().set_counter(begun_ + draws_);
  for (const Change& c : changes_) c.now().impl()->storage->version += c.version;
  TensorList list = results();
  given_.clear();
  return list;
}

/// The tensors that the step computed, or with graphs copies of them; other results view the same memory as in the
/// step.
TensorList StepReplay::results() {
  TensorList list, own;
  for (const Result& r : results_)
    if (r.own && !r.is_grad) own.push_back(r.tensor);
  if (uses_graphs_) own = copies_of(own);
  size_t next = 0;
  for (Result& r : results_) {
    if (r.is_grad) list.push_back(r.tensor);
    else if (r.own) list.push_back(own[next++]);
    else if (r.input >= 0)
      list.push_back(on_arguments({r.tensor}, {inputs_[r.input].tensor}, {given_[r.input]})[0]);
    else if (r.grad.defined())
      list.push_back(placed(r.tensor, std::exchange(r.grad, {}).impl()->storage));
    else list.push_back(r.tensor.detach());
  }
  return list;
}

bool StepReplay::writes(const TensorList& list) const {
  return std::ranges::any_of(list, [&](const Tensor& x) {
    const auto is_in = [&](const Tensor& y) { return y.impl()->storage == x.impl()->storage; };
    return std::ranges::any_of(changes_, is_in, &Change::now) ||
           std::ranges::any_of(stepped_, is_in);
  });
}

void StepReplay::hold(const TensorList& changed) {
  held_.clear(), held_versions_.clear();
  for (const Guard& g : guards_) held_versions_[g.storage()] = g.storage()->version;
  for (const Tensor& x : changed) held_versions_[x.impl()->storage] = x.impl()->storage->version;
  for (const Guard& g : guards_) held_.push_back(g.tensor.grad());
  for (EscapingBuffer& o : escaping_)
    if (o.is_held()) renew(o);
}
void StepReplay::restore() {
  for (const auto& [storage, version] : held_versions_) storage->version = version;
  for (size_t k = 0; k < guards_.size(); ++k)
    if (guards_[k].tensor.impl()->grad != held_[k].impl()) guards_[k].tensor.set_grad(held_[k]);
  held_.clear();
}

TensorList StepReplay::leaves() const {
  TensorList list;
  for (const Guard& g : guards_) list.push_back(g.tensor);
  return list;
}

TensorList StepReplay::changes() const {
  TensorList list;
  for (const Change& c : changes_) list.push_back(c.now().detach());
  return list;
}

// ---- parts as CUDA graphs: one launch instead of one per call -------------------------------------------

namespace {

constexpr int kReplaysBeforeCapture =
    2;                          // a program that is replayed less often is not worth a capture
constexpr int kMaxDropped = 4;  // then pointers or numbers change too often for graphs
constexpr size_t kMinGraphCalls = 4;  // fewer calls are launched directly

}  // namespace

size_t StepReplay::graphs() const {
  return std::ranges::count_if(graphs_, [](const auto& g) { return !!g; });
}

/// Decides whether this replay uses graphs. Their pointers and numbers are fixed, so arguments and results are copied.
void StepReplay::choose_graphs() {
  const bool may = gpu_ && !gpu_of(*gpu_).synchronous && dropped_ < kMaxDropped;
  uses_graphs_ = may && replays_++ >= kReplaysBeforeCapture;
  graphs_.resize(ends_.size());
}
void StepReplay::drop_graphs() {
  dropped_ += graphs() > 0;
  for (auto& g : graphs_) g.reset();
}

/// Captures the part. Null if that is not possible.
std::unique_ptr<Graph> StepReplay::capture(size_t part) const {
  synchronize(*gpu_);  // reports late errors
  try {
    auto made = std::make_unique<Graph>(*gpu_);
    for (size_t i = part == 0 ? 0 : ends_[part - 1]; i < ends_[part]; ++i) calls_[i].run(begun_);
    made->finish(true);
    return made;
  } catch (const Error&) { return nullptr; }
}

bool StepReplay::run_graph(size_t part) {
  const size_t first = part == 0 ? 0 : ends_[part - 1];
  if (!uses_graphs_ || !graph_parts_[part] || ends_[part] - first < kMinGraphCalls) return false;
  std::unique_ptr<Graph>& graph = graphs_[part];
  if (!graph && !(graph = capture(part))) {
    dropped_ = kMaxDropped;
    return false;
  }
  graph->replay();
  return true;
}

}  // namespace mt
