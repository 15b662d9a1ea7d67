// graph.cpp -- the autograd graph: nodes, recording, hooks, debugging
#include "engine/autograd/graph.h"

#include <cmath>
#include <mutex>
#include <new>
#include <unordered_map>

#include "engine/autograd/function.h"
#include "engine/ops/ops.h"

namespace mt {

namespace {

std::atomic<uint64_t> next_sequence{1};

Ref<Node> new_node(const NodeType& type, size_t inputs) {
  Node* node = new (pool_alloc(sizeof(Node))) Node;
  node->type = &type;
  node->inputs = int(inputs);
  if (inputs > std::size(node->edge)) node->more = std::make_unique<Edge[]>(inputs);
  return Ref<Node>::adopt(node);
}

/// Numbers a node whose edges exist and makes `out` its result. Connecting an input may regenerate
/// a view's node; nodes get their number only here, so that every node that an edge leads to has a
/// smaller number.
Node& attach_node(Ref<Node> made, const Tensor& out) {
  Node& node = *made;
  node.sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  TensorImpl& o = *out.impl();
  if (o.node) Ref<Node>::adopt(o.node);  // releases it
  o.node = made.release();
  o.requires_grad = true;
  if (thread_state.debugging && host.where) [[unlikely]]
    node.ensure_extra().line = host.where();
  return node;
}

std::string changed_at(const Storage*);

}  // namespace

void Node::destroy(Node* node) {
  // Freeing one node may free the next: a list instead of recursion, because a graph can be a chain
  // of millions.
  ThreadState& t = thread_state;
  node->next = std::exchange(t.unused, node);
  if (t.freeing) return;
  t.freeing = true;
  while (Node* first = t.unused) {
    t.unused = first->next;
    if (first->kept_bytes) pool_free(first->kept_on_heap, first->kept_bytes);
    first->~Node();
    pool_free(first, sizeof(Node));
  }
  t.freeing = false;
}

NodeExtra& Node::ensure_extra() {
  if (!extra) extra = std::make_unique<NodeExtra>();
  return *extra;
}

Node& Node::save(int slot, const Tensor& t, int from) {
  if (!t.defined()) return *this;
  if (from != kOther && in_checkpoint() && checkpoint_save(*this, slot, t, from)) return *this;
  if (ReleaseScope* const region = thread_state.release;
      region && region->leave_out(*this, slot, t, from))
    return *this;
  Tensor held = t.detach();  // a plain view: it has no node, and keeps its storage
  saved[slot] = Ref<TensorImpl>::adopt(held.release());
  version[slot] = t.impl()->storage->version;
  source[slot] = int8_t(from);
  return *this;
}

void Node::fail_kept_type() const { fail("{}: its node keeps data of another type", type->name); }

void* Node::keep_on_heap(size_t bytes) {
  kept_on_heap = pool_alloc(bytes);
  kept_bytes = uint32_t(bytes);
  return kept_on_heap;
}

Tensor Node::get(int slot) {
  if (extra && extra->unsaved) restore_saved(*this, slot);
  Tensor t(saved[slot]);
  if (!t.defined()) return t;
  const uint32_t now = t.impl()->storage->version;
  if (now != version[slot])
    fail(
        "backward: {} needs a tensor {} that was changed in place since (version {}, expected {}); "
        "use the form without '_' or clone() first{}{}",
        type->name, t.shape(), now, version[slot], recorded_at(*this),
        changed_at(t.impl()->storage));
  if (!grad_enabled() || source[slot] == kOther) return t;
  Edge* edge = source[slot] >= 0 ? &input(source[slot]) : nullptr;
  if (edge && edge->leaf) {
    if (edge->leaf->storage != t.impl()->storage)
      fail("backward: a leaf of {} was replaced after the forward pass", type->name);
    return Tensor(edge->leaf);
  }
  Node* behind = edge ? edge->node.get() : this;
  return behind ? reattach(t, Ref<Node>::share(behind)) : t;
}

void connect(Edge& edge, const Tensor& input) {
  if (!input.defined() || !input.requires_grad()) return;
  TensorImpl* t = input.impl();
  if (t->node) edge.node = Ref<Node>::share(t->node);
  else edge.leaf = Ref<TensorImpl>::share(t);
  notify_shared(*t);
}

Tensor reattach(const Tensor& x, Ref<Node> node) {
  Tensor t = x.detach();
  t.impl()->node = node.release();
  t.impl()->requires_grad = true;
  return t;
}

Node& record(const NodeType& type, const Tensor& out, std::initializer_list<const Tensor*> inputs) {
  Ref<Node> node = new_node(type, inputs.size());
  int i = 0;
  for (const Tensor* t : inputs) connect(node->edge[i++], *t);
  return attach_node(std::move(node), out);
}

Node& record(const NodeType& type, const Tensor& out, const TensorList& inputs) {
  Ref<Node> node = new_node(type, inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) connect(node->input(int(i)), inputs[i]);
  return attach_node(std::move(node), out);
}

void notify_hooks(const TensorImpl& t) {
  for (const auto& hook : t.node ? t.node->extra->hooks : *t.hooks)
    if (hook->on_shared) hook->on_shared();
}

void add_hook(const Tensor& x, std::shared_ptr<Hook> hook) {
  TensorImpl& t = *x.impl();
  if (!t.node && !t.hooks) t.hooks = new std::vector<std::shared_ptr<Hook>>;
  (t.node ? t.node->ensure_extra().hooks : *t.hooks).push_back(std::move(hook));
}

std::shared_ptr<Hook> register_hook(const Tensor& x, std::function<Tensor(const Tensor&)> call) {
  if (!x.requires_grad()) fail("register_hook: this tensor does not require a gradient");
  auto hook = std::make_shared<Hook>(Hook{std::move(call), {}});
  add_hook(x, hook);
  return hook;
}

// ---- debugging ----------------------------------------------------------------------------------

namespace {

std::unordered_map<const Storage*, std::string> changes;  // the line of the last change of each
std::mutex changes_guard;

std::string changed_at(const Storage* s) {
  const std::lock_guard lock(changes_guard);
  const auto at = changes.find(s);
  return at == changes.end() ? "" : ", changed at " + at->second;
}

}  // namespace

std::string recorded_at(const Node& node) {
  return node.extra && !node.extra->line.empty() ? ", recorded at " + node.extra->line : "";
}

void set_debug(bool on) {
  thread_state.debugging = on, thread_state.detects_infinities = false;
  const std::lock_guard lock(changes_guard);
  changes.clear();
}

void set_detect_anomaly(bool on) {
  set_debug(on);
  thread_state.detects_infinities = on;
}

void note_change(const Storage* s) {
  if (!host.where) return;
  std::string place = host.where();
  const std::lock_guard lock(changes_guard);
  changes[s] = std::move(place);
}

bool holds_nan(const Tensor& x) {
  if (!is_float(x.dtype()) || x.numel() == 0) return false;
  const SaveAndRestore off(thread_state.debugging, false);
  NoGrad no_grad;
  return std::isnan(amax(x).item());
}

bool is_anomalous(const Tensor& x) {
  const bool nan = holds_nan(x);
  if (nan || !thread_state.detects_infinities) return nan;
  if (!is_float(x.dtype()) || x.numel() == 0) return false;
  const SaveAndRestore off(thread_state.debugging, false);
  NoGrad no_grad;
  return std::isinf(amax(x).item()) || std::isinf(amin(x).item());
}

void check_anomaly(const Tensor& x, const std::string& what, const std::string& where) {
  if (!is_anomalous(x)) return;
  const SaveAndRestore off(thread_state.debugging, false);
  NoGrad no_grad;
  const bool nan = holds_nan(x);
  int64_t i = argmax(to(reshape(nan ? isnan(x) : isinf(x), {-1}), Dtype::u8)).at_integer(0);
  std::string index;
  for (int d = x.dim() - 1; d >= 0; --d) {
    index = fmt::format("{}{}{}", i % x.size(d) + message_base(), index.empty() ? "" : ", ", index);
    i /= x.size(d);
  }
  fail("{} produced {} at [{}]{}", what, nan ? "NaN" : "an infinity", index, where);
}

}  // namespace mt
