// function.cpp -- functions with user-defined gradients, and gradient checkpointing
#include "engine/autograd/function.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/ops/generator.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
namespace {

void check_gradient(const CustomFunction& c, size_t i, const Tensor& g) {
  const Tensor& x = c.inputs[i];
  if (g.shape() != x.shape())
    fail("{}: backward returned a gradient {} for argument {}, which is {}", c.name, g.shape(),
         i + 1, x.shape());
  if (!is_float(g.dtype()))
    fail("{}: backward returned a gradient of {} for argument {}; it must be a float dtype", c.name,
         g.dtype(), i + 1);
}

void function_backward(Node& node, const Tensor&, Tensor* dx) {
  const std::shared_ptr<CustomFunction> c = node.extra->custom;
  const SaveAndRestore running(thread_state.function, &node);
  TensorList gradients = std::move(thread_state.backward->function_grads[&node]);
  thread_state.backward->function_grads.erase(&node);
  gradients.resize(c->results.size());
  for (size_t k = 0; k < gradients.size(); ++k) {
    const CustomFunction::Result& r = c->results[k];
    if (!gradients[k].defined() && r.device && c->zeros)
      gradients[k] = zeros(r.size, r.dtype, *r.device);
  }
  const TensorList found = c->backward(gradients);
  if (found.size() < c->inputs.size())
    fail("{}: backward returned {} gradients for {} inputs; return an undefined tensor for none",
         c->name, found.size(), c->inputs.size());
  for (size_t i = 0; i < c->inputs.size(); ++i) {
    if (!node.wants(int(i)) || !found[i].defined()) continue;
    check_gradient(*c, i, found[i]);
    dx[i] = to(found[i], c->inputs[i].dtype());
  }
}
const NodeType kFunction{"mt.Function", function_backward};

/// Stores the gradient for the inner node, and schedules that node with a dummy gradient.
void result_backward(Node& node, const Tensor& g, Tensor* dx) {
  Node& inner = *node.edge[0].node;
  if (!inner.extra->custom)
    fail(
        "backward: the graph behind the result of a function was freed by an earlier backward; pass "
        "{{retain_graph=true}} to the first");
  TensorList& gradients = thread_state.backward->function_grads[&inner];
  // Only the first result sends it: a sum of two would be an operation on numbers that no verb has written, which a
  // StepRecorder refuses.
  if (gradients.empty()) dx[0] = scalar(0, Dtype::f32);
  gradients.resize(inner.extra->custom->results.size());
  gradients[node.kept<size_t>()] = g;
}
const NodeType kResult{"result of mt.Function", result_backward};

/// Makes y result k of the function whose inner node computed `inner`.
void record_result(const std::shared_ptr<CustomFunction>& c, const Tensor& inner, size_t k,
                   const Tensor& y) {
  Node& node = record(kResult, y, {&inner});
  node.keep(k);
  c->results[k].node = &node;
  // The inner node must not own the result's node, which owns it: its pointer is reset at the end.
  const std::weak_ptr<CustomFunction> held = c;
  node.ensure_extra().custom =
      std::shared_ptr<CustomFunction>(nullptr, [held, k, &node](CustomFunction*) {
        const auto alive = held.lock();
        if (alive && alive->results[k].node == &node) alive->results[k].node = nullptr;
      });
}

/// A saved tensor, connected to the graph again as the argument or the result that it is.
Tensor connected(Node& node, const std::shared_ptr<CustomFunction>& c,
                 const CustomFunction::Saved& s) {
  if (s.input >= 0 && node.input(s.input)) {
    Edge& edge = node.input(s.input);
    return edge.leaf ? Tensor(edge.leaf) : reattach(s.tensor, edge.node);
  }
  if (s.result < 0 || !c->results[s.result].device) return s.tensor;
  if (Node* result = c->results[s.result].node) return reattach(s.tensor, Ref<Node>::share(result));
  // The result has no owner any more, but its second-order gradient still leads here.
  Tensor y = s.tensor.detach();
  record_result(c, reattach(scalar(0, Dtype::f32), Ref<Node>::share(&node)), s.result, y);
  return y;
}

}  // namespace

TensorList record_function(std::string name, const TensorList& inputs, const TensorList& outputs,
                           const std::vector<bool>& non_differentiable, const TensorList& save,
                           CustomFunction::Backward backward, bool zeros) {
  if (std::ranges::none_of(inputs, [](const Tensor& x) { return wants_grad(x); })) return outputs;
  auto c = std::make_shared<CustomFunction>();
  c->name = std::move(name);
  c->backward = std::move(backward);
  c->zeros = zeros;
  for (const Tensor& x : inputs) c->inputs.push_back(x.defined() ? shape_of(x) : x);
  for (const Tensor& t : save) {
    CustomFunction::Saved s;
    if (t.defined()) s = {t.detach(), t.impl()->storage->version};
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].impl() == t.impl()) s.input = int(i);
    for (size_t k = 0; k < outputs.size(); ++k)
      if (outputs[k].impl() == t.impl()) s.result = int(k);
    c->saved.push_back(std::move(s));
  }
  Tensor inner = scalar(0, Dtype::f32);
  record(kFunction, inner, inputs).ensure_extra().custom = c;
  TensorList results;
  for (size_t k = 0; k < outputs.size(); ++k) {
    // A result that shares its storage with an input or another result is copied: the other's graph would not see
    // changes in place.
    const auto shares = [&](const Tensor& x) {
      return x.defined() && x.impl()->storage == outputs[k].given()->storage;
    };
    const bool shared = std::ranges::any_of(inputs, shares) ||
                        std::any_of(outputs.begin(), outputs.begin() + ptrdiff_t(k), shares);
    Tensor y = outputs[k].detach();
    if (shared) y = clone(y);
    const bool has_gradient =
        is_float(y.dtype()) && !(k < non_differentiable.size() && non_differentiable[k]);
    c->results.push_back({y.shape(), y.dtype(), has_gradient ? &y.device() : nullptr, nullptr});
    if (c->results[k].device) record_result(c, inner, k, y);
    results.push_back(std::move(y));
  }
  return results;
}

bool wants_gradient(size_t input) { return thread_state.function->wants(int(input)); }
void defer_gradient(size_t input, std::function<Tensor()> compute) {
  const Edge& edge = thread_state.function->input(int(input));
  thread_state.backward->deferred.emplace_back(edge.leaf, std::move(compute));
}

TensorList saved_tensors() {
  if (!thread_state.function) fail("saved_tensors: it can be called inside backward only");
  Node& node = *thread_state.function;
  const std::shared_ptr<CustomFunction> c = node.extra->custom;
  TensorList list;
  for (const CustomFunction::Saved& s : c->saved) {
    const uint32_t now = s.tensor.defined() ? s.tensor.impl()->storage->version : 0;
    if (now != s.version)
      fail(
          "{}: a saved tensor {} was changed in place since (version {}, expected {}); clone() it "
          "first",
          c->name, s.tensor.shape(), now, s.version);
    list.push_back(grad_enabled() ? connected(node, c, s) : s.tensor);
  }
  return list;
}

TensorList recorded_gradients(const std::function<TensorList(const TensorList&)>& f,
                              const TensorList& inputs, const TensorList& gradients) {
  // Clones have separate nodes, so that an input is not reached through another one computed from it.
  TensorList copies, wanted;
  for (const Tensor& x : inputs) {
    copies.push_back(wants_grad(x) ? clone(x) : x);
    if (wants_grad(x)) wanted.push_back(copies.back());
  }
  if (wanted.empty()) return TensorList(inputs.size());
  TensorList results = f(copies), reached, with;
  for (size_t k = 0; k < results.size(); ++k)
    if (results[k].requires_grad()) reached.push_back(results[k]), with.push_back(gradients[k]);
  const TensorList found =
      grad(reached, wanted, with, {.create_graph = true, .allow_unused = true});
  TensorList list;
  size_t next = 0;
  for (const Tensor& x : inputs) list.push_back(wants_grad(x) ? found[next++] : Tensor());
  return list;
}

// ---- tensors that nodes do not save --------------------------------------------------------------

void restore_saved(Node& node, int slot) {
  const std::shared_ptr<Unsaved> unsaved = node.extra->unsaved;  // the node may release it
  if (unsaved && node.extra->place[slot] >= 0) unsaved->restore(node, slot);
}

std::vector<uint32_t> versions_of(const TensorList& list) {
  std::vector<uint32_t> versions;
  for (const Tensor& t : list) versions.push_back(t.impl()->storage->version);
  return versions;
}

ReleaseScope::ReleaseScope(std::shared_ptr<ReleasedTensors> released)
    : released_(std::move(released)),
      before_(std::exchange(thread_state.release,
                            in_checkpoint() && !thread_state.checkpoint->again ? nullptr : this)) {
  versions_ = versions_of(released_->tensors);
  released_->versions = versions_of(released_->sources);
}
ReleaseScope::~ReleaseScope() {
  thread_state.release = before_;
  released_->tensors.clear();
}
bool ReleaseScope::has_written() const { return versions_of(released_->tensors) != versions_; }

bool ReleaseScope::find(const Tensor& t, ReleasedTensors::Part& part) const {
  const TensorList& all = released_->tensors;
  for (size_t i = 0; i < all.size(); ++i) {
    const Storage& storage = *all[i].impl()->storage;
    if (t.impl()->storage == &storage && t.dtype() == all[i].dtype())
      return part = {i, geometry_of(t)}, true;
  }
  for (const Cast& c : casts_)
    if (t.impl()->storage == c.result.impl()->storage && t.dtype() == c.part.cast)
      return part = c.part, part.view_of_cast = geometry_of(t), true;
  return false;
}

void ReleaseScope::note_cast(const Tensor& from, const Tensor& to) {
  ReleasedTensors::Part part;
  if (from.impl() == to.impl() || !find(from, part) || part.cast != Dtype::none) return;
  part.cast = to.dtype();
  casts_.push_back({to.detach(), std::move(part)});
}

bool ReleaseScope::leave_out(Node& node, int slot, const Tensor& t, int from) {
  ReleasedTensors::Part part;
  if (!find(t, part)) return false;
  NodeExtra& extra = node.ensure_extra();
  extra.unsaved = released_;
  extra.place[slot] = int(released_->parts.size());
  node.source[slot] = int8_t(from);
  released_->parts.push_back(std::move(part));
  return true;
}

void ReleasedTensors::restore(Node& node, int slot) {
  const NoGrad off;
  const Part& part = parts[node.extra->place[slot]];
  if (sources[part.tensor].impl()->storage->version != versions[part.tensor])
    fail("backward: a parameter of dist.shard was changed in place since the forward of its layer");
  if (tensors.empty()) tensors = recompute(), recomputed_versions = versions_of(tensors);
  const auto view = [](const Tensor& t, const TensorGeometry& g) {
    return view_of(t, g.size, g.stride, g.offset);
  };
  const Tensor& whole = tensors[part.tensor];
  Tensor t = view(whole, part.view);
  if (part.cast != Dtype::none) t = view(to(t, part.cast), part.view_of_cast);
  const bool changed = whole.impl()->storage->version != recomputed_versions[part.tensor];
  node.version[slot] = t.impl()->storage->version - uint32_t(changed);
  node.saved[slot] = Ref<TensorImpl>::adopt(t.release());
}

// ---- gradient checkpointing ---------------------------------------------------------------------

namespace {

/// A digest that depends on every bit of `n` bytes and its position: in eight lanes the sum of the words and the sum of
/// these sums (Fletcher 1982), which runs at the speed of memory.
uint64_t digest_of(const char* bytes, int64_t n, uint64_t seed) {
  using Lanes = uint64_t __attribute__((vector_size(64)));
  Lanes sum{}, sums{};
  for (; n > 0; bytes += sizeof(Lanes), n -= int64_t(sizeof(Lanes))) {
    Lanes word{};
    if (n >= int64_t(sizeof word)) std::memcpy(&word, bytes, sizeof word);
    else std::memcpy(&word, bytes, n);
    word ^= word >> 32;  // numbers have zeros in the low bits
    sum += word;
    sums += sum;
  }
  for (int lane = 0; lane < 8; ++lane) seed = mix_bits(mix_bits(seed ^ sum[lane]) ^ sums[lane]);
  return seed;
}

/// The digest of a tensor's shape, type and bits. Elements that an expanded dimension repeats count once.
uint64_t digest_of(const Tensor& t) {
  constexpr int64_t kPiece = 1 << 18;  // bytes; the sums do not depend on the order of threads
  const SaveAndRestore no_debugging(thread_state.debugging, false);
  Shape size = t.shape();
  std::vector<int64_t> head{int64_t(t.dtype())};
  for (int d = 0; d < size.size(); ++d) {
    head.push_back(size[d]);
    if (t.stride(d) == 0 && size[d] > 1) size[d] = 1;
  }
  const Tensor x = contiguous(to(view_of(t.detach(), size, t.strides(), t.offset()), cpu_device()));
  const char* bytes = x.data_as<const char>();
  const int64_t n = x.numel() * item_size(x.dtype());
  std::atomic<uint64_t> sum{digest_of(reinterpret_cast<const char*>(head.data()),
                                      int64_t(head.size() * sizeof(int64_t)), 0)};
  parallel((n + kPiece - 1) / kPiece, n > 4 * kPiece, [&](int64_t i) {
    sum += digest_of(bytes + i * kPiece, std::min(kPiece, n - i * kPiece), uint64_t(i + 1));
  });
  return sum;
}

}  // namespace

bool checkpoint_save(Node& node, int slot, const Tensor& t, int from) {
  const std::shared_ptr<Checkpoint>& checkpoint = thread_state.checkpoint->checkpoint;
  if (!thread_state.checkpoint->again) {
    NodeExtra& extra = node.ensure_extra();
    extra.unsaved = checkpoint;
    extra.place[slot] = int(checkpoint->digests.size());
    node.source[slot] = int8_t(from);
    checkpoint->digests.push_back(digest_of(t));
    return true;
  }
  const size_t place = checkpoint->values.size();
  if (place < checkpoint->digests.size() && digest_of(t) != checkpoint->digests[place] &&
      checkpoint->different.empty())
    checkpoint->different = t.dim() == 0  // it is a number
                                ? fmt::format("'{}'", node.type->name)
                                : fmt::format("'{}' {}", node.type->name, t.shape());
  const bool left_out =
      thread_state.release && thread_state.release->leave_out(node, slot, t, from);
  checkpoint->values.push_back({t.detach(), t.impl()->storage->version, &node, slot});
  if (Checkpoint::Value& v = checkpoint->values.back(); left_out)
    v.tensor = {}, v.unsaved = node.extra->unsaved, v.place = node.extra->place[slot];
  return left_out;  // otherwise the node saves it, for a backward pass inside the function
}

void checkpoint_keep(const Node& node, int slot, const Tensor& copy) {
  if (!in_checkpoint() || !thread_state.checkpoint->again) return;
  std::vector<Checkpoint::Value>& values = thread_state.checkpoint->checkpoint->values;
  for (auto v = values.rbegin(); v != values.rend() && v->node == &node; ++v)
    if (v->slot == slot) *v = {copy, copy.impl()->storage->version, &node, slot};
}

void Checkpoint::restore(Node& node, int slot) {
  NodeExtra& extra = *node.extra;
  if (size_t(extra.place[slot]) >= values.size()) run_again();
  std::shared_ptr<Unsaved> unsaved;
  for (int i = 0; i < kMaxSaved; ++i) {
    if (extra.place[i] < 0) continue;
    Value v = std::move(values[extra.place[i]]);
    if (v.unsaved) unsaved = std::move(v.unsaved);
    else node.saved[i] = Ref<TensorImpl>::adopt(v.tensor.release());
    node.version[i] = v.version;
    extra.place[i] = v.place;
  }
  extra.unsaved = std::move(unsaved);
  restore_saved(node, slot);
}

void Checkpoint::run_again() {
  const auto second = std::make_shared<Checkpoint>();  // after an error `values` is unchanged
  second->digests = digests;
  const GradMode on(true);
  const CheckpointScope scope(second, true);
  bool is_first = false;  // the first run has not ended: backward is called inside the function
  for (const CheckpointScope* s = scope.before; s; s = s->before)
    is_first |= s->checkpoint.get() == this && !s->again;
  again();
  if (is_first ? second->values.size() < digests.size() : second->values.size() != digests.size())
    fail(
        "recompute: the second run of the function saved {} tensors for backward, the first {}; it "
        "must do the same both times",
        second->values.size(), digests.size());
  if (!second->different.empty())
    fail(
        "recompute: the second run of the function computed {} from other numbers than the first; "
        "a tensor that it uses was changed in between: clone() it first",
        second->different);
  values = std::move(second->values);
}

}  // namespace mt
