// autograd.cpp -- the graph of gradients: nodes, recording, and the walk backwards
#include "engine/autograd.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <unordered_map>
#include <unordered_set>

#include "engine/custom.h"
#include "engine/ops.h"
#include "engine/profile.h"
#include "kernels/cpu/parallel.h"

namespace mt {

constinit thread_local bool recording = true;
constinit thread_local Gathered* gathered = nullptr;
bool debugging = false;
std::string (*where_now)() = nullptr;

namespace {

std::atomic<uint64_t> next_sequence{1};

void connect(Edge& edge, const Tensor& input) {
  TensorImpl* t = input.impl();
  if (!input.requires_grad()) return;
  if (!t->node) {
    edge.leaf = Ref<TensorImpl>::share(t);
    return;
  }
  edge.node = Ref<Node>::share(t->node);
  if (t->node->extra) [[unlikely]] announce(*t->node);
}

Ref<Node> new_node(const NodeType& type, size_t inputs) {
  Node* node = new (take_block(sizeof(Node))) Node;
  node->type = &type;
  node->inputs = int(inputs);
  if (inputs > std::size(node->edge)) node->more = std::make_unique<Edge[]>(inputs);
  return Ref<Node>::adopt(node);
}

/// Numbers a node whose edges exist and makes `out` its result. Connecting an input may renew a view,
/// which makes a node too: nodes get their number here and nowhere else, so that every node that an
/// edge leads to has a smaller one.
Node& conclude(Ref<Node> made, const Tensor& out) {
  Node& node = *made;
  node.sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  TensorImpl& o = *out.impl();
  if (o.node) Ref<Node>::adopt(o.node);
  o.node = made.release();
  o.requires_grad = true;
  if (debugging && where_now) [[unlikely]] node.facts().line = where_now();
  return node;
}

// Nodes that nobody holds any more. Freeing one may free the next: a list instead of recursion,
// because a graph can be a chain of millions.
thread_local Node* doomed = nullptr;
thread_local bool freeing = false;

void free_node(Node* node) {
  node->~Node();
  give_block(node, sizeof(Node));
}

/// The sum of two gradients, in place where nobody else sees the first.
Tensor accumulate(Tensor sum, const Tensor& more) {
  if (!sum.defined()) return more;
  if (!grad_enabled() && sum.unique() && sum.impl()->storage->refs == 1 && sum.impl()->contiguous &&
      sum.dtype() == more.dtype()) {
    add_(sum, more);
    return sum;
  }
  return add(sum, more);
}

bool earlier(const Node* a, const Node* b) { return a->sequence < b->sequence; }

// The memory of the last walk's lists, for the next.
thread_local std::vector<Node*> spare_ready;
thread_local std::vector<Ref<TensorImpl>> spare_leaves;

/// The gradient after the hooks have seen it.
Tensor hooked(const std::vector<std::shared_ptr<Hook>>& hooks, Tensor g) {
  const std::vector<std::shared_ptr<Hook>> now = hooks;  // a hook may remove itself
  for (const auto& hook : now) {
    if (!hook->call) continue;
    const Tensor other = hook->call(g);
    if (!other.defined()) continue;
    if (!(other.shape() == g.shape()) || other.dtype() != g.dtype())
      fail("hook: it returned a gradient {} {}, the one it was given is {} {}",
           to_string(other.shape()), dtype_name(other.dtype()), to_string(g.shape()),
           dtype_name(g.dtype()));
    g = other;
  }
  return g;
}

[[noreturn]] void used_up(const char* who, const char* node) {
  fail(
      "{}: the graph behind '{}' was used up by an earlier backward; pass {{retain_graph=true}} to "
      "the first",
      who, node);
}

std::string changed_at(const Storage*);

std::string recorded_at(const Node& node) {
  return node.extra && !node.extra->line.empty() ? ", recorded at " + node.extra->line : "";
}

/// What `grad` is asked for: only nodes on the way to these are visited.
struct Targets {
  std::unordered_map<const Node*, Tensor> nodes;        // and their gradients, once known
  std::unordered_map<const TensorImpl*, Tensor> leaves;
  std::unordered_set<const Node*> needed;
  const char* used_up = nullptr;  // the name of a node on the way whose past is gone

  void add(const Tensor& x) {
    if (x.impl()->node) nodes[x.impl()->node];
    else leaves[x.impl()];
  }
  Tensor& of(const Tensor& x) {
    return x.impl()->node ? nodes[x.impl()->node] : leaves[x.impl()];
  }
  bool leads(Edge& edge) const {
    return edge.node ? needed.count(edge.node.get()) > 0 : leaves.count(edge.leaf.get()) > 0;
  }
  /// Finds the nodes between the roots and the targets: inputs are older than what is made of them.
  void find(const std::vector<Tensor>& roots) {
    std::vector<Node*> all;
    std::unordered_set<Node*> seen;
    auto meet = [&](Node* n) {
      if (n && seen.insert(n).second) all.push_back(n);
    };
    for (const Tensor& root : roots) meet(root.impl()->node);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i]->consumed) used_up = all[i]->type->name;
      for (int k = 0; k < all[i]->inputs; ++k) meet(all[i]->input(k).node.get());
    }
    std::sort(all.begin(), all.end(), [](Node* a, Node* b) { return a->sequence < b->sequence; });
    for (Node* n : all)
      if (nodes.count(n) || passes(*n)) needed.insert(n);
  }
  /// Whether some input of the node leads to a target.
  bool passes(Node& n) const {
    for (int k = 0; k < n.inputs; ++k)
      if (n.wants(k) && leads(n.input(k))) return true;
    return false;
  }
};

/// One walk. Leaves collect in `pending` and are committed at the end; a failure leaves no trace.
class Walk {
 public:
  Walk(bool retain, bool create, Targets* targets = nullptr)
      : retain_(retain),
        mode_(create),
        targets_(targets),
        before_(std::exchange(gathered, &gathered_)),
        outer_(std::exchange(current, this)) {
    if (outer_) outer_->set_aside();
    ready_.swap(spare_ready);
    leaves_.swap(spare_leaves);
  }
  ~Walk() {
    gathered = before_;
    while (!ready_.empty()) next()->pending.reset();
    for (auto& leaf : leaves_) drop_pending(*leaf);
    leaves_.clear();
    ready_.swap(spare_ready);
    leaves_.swap(spare_leaves);
    current = outer_;
    if (outer_) outer_->take_back();
  }

  /// A hook that walks to the tensor that it hangs on would never end.
  static void check_depth(const char* who) {
    int depth = 0;
    for (const Walk* w = current; w; w = w->outer_) ++depth;
    if (depth > 20) fail("{}: more than 20 walks inside one another; does a hook call itself?", who);
  }

  void send(Edge& edge, Tensor g) {
    if (targets_ && !targets_->leads(edge)) return;
    if (edge.node) {
      Node& node = *edge.node;
      const bool first = !node.pending.defined();
      node.pending = accumulate(std::move(node.pending), g);
      if (first) {
        ready_.push_back(Ref<Node>(edge.node).release());
        std::push_heap(ready_.begin(), ready_.end(), earlier);
      }
    } else {
      TensorImpl& leaf = *edge.leaf;
      if (!(g.shape() == Shape(leaf.size, leaf.ndim)) || g.dtype() != leaf.dtype)
        fail("backward: the gradient is {} {}, its leaf by now {} {}; it was replaced since",
             to_string(g.shape()), dtype_name(g.dtype()),
             to_string(Shape(leaf.size, leaf.ndim)), dtype_name(leaf.dtype));
      if (!leaf.pending) leaves_.push_back(edge.leaf);
      Tensor sum =
          accumulate(Tensor(Ref<TensorImpl>::adopt(std::exchange(leaf.pending, nullptr))), g);
      leaf.pending = sum.release();
    }
  }

  void run() {
    while (!ready_.empty()) {
      if (mt_interrupted) fail("interrupted!");
      visit(*next());
    }
  }

  /// Shows leaves' gradients to their hooks.
  void call_leaf_hooks() {
    for (size_t i = 0; i < leaves_.size(); ++i) {
      TensorImpl& leaf = *leaves_[i];
      if (!leaf.hooks) continue;
      Tensor g = hooked(*leaf.hooks, Tensor(Ref<TensorImpl>::share(leaf.pending)));
      Ref<TensorImpl>::adopt(std::exchange(leaf.pending, g.release()));
    }
  }

  /// Hands the leaves' gradients to the targets instead of `.grad`.
  void deliver() {
    for (auto& leaf : leaves_)
      targets_->leaves[leaf.get()] =
          Tensor(Ref<TensorImpl>::adopt(std::exchange(leaf->pending, nullptr)));
    leaves_.clear();
  }

  /// Adds what was collected to `.grad`. A gradient that nobody else holds is taken as it is, others
  /// are copied; a `.grad` that is there changes in place, as in PyTorch. What may fail comes first.
  void commit() {
    for (auto& leaf : leaves_) {
      Tensor g(Ref<TensorImpl>::adopt(std::exchange(leaf->pending, nullptr)));
      const bool mine = g.unique() && g.impl()->storage->refs == 1 && g.is_contiguous();
      const bool joins = leaf->grad != nullptr;
      if (joins && grad_enabled()) g = add(Tensor(Ref<TensorImpl>::share(leaf->grad)), g);
      else if (joins) g = to(g, leaf->grad->dtype);
      else if (!mine && !grad_enabled()) g = clone(g);
      leaf->pending = g.release();
    }
    for (auto& leaf : leaves_) {
      Tensor g(Ref<TensorImpl>::adopt(std::exchange(leaf->pending, nullptr)));
      if (leaf->grad && !grad_enabled()) {
        add_(Tensor(Ref<TensorImpl>::share(leaf->grad)), g);
      } else {
        Ref<TensorImpl>::adopt(leaf->grad);
        g.impl()->quiet = g.impl()->hidden = false;
        leaf->grad = g.release();
      }
    }
    leaves_.clear();
  }

 private:
  /// A hook or a function's backward may walk a graph of its own, through the same nodes and leaves:
  /// what has come to them in this walk waits meanwhile.
  void set_aside() {
    for (Node* node : ready_) aside_.push_back(std::exchange(node->pending, {}));
    for (auto& leaf : leaves_)
      aside_.push_back(Tensor(Ref<TensorImpl>::adopt(std::exchange(leaf->pending, nullptr))));
  }
  void take_back() {
    size_t i = 0;
    for (Node* node : ready_) node->pending = std::move(aside_[i++]);
    for (auto& leaf : leaves_) leaf->pending = aside_[i++].release();
    aside_.clear();
  }

  static void drop_pending(TensorImpl& leaf) {
    Ref<TensorImpl>::adopt(std::exchange(leaf.pending, nullptr));
  }

  /// The latest of the nodes that have a gradient: all that used its result have been visited.
  Ref<Node> next() {
    std::pop_heap(ready_.begin(), ready_.end(), earlier);
    Ref<Node> node = Ref<Node>::adopt(ready_.back());
    ready_.pop_back();
    return node;
  }

  void visit(Node& node) {
    Tensor g = std::move(node.pending);
    node.pending.reset();
    if (node.extra) meet(node, g);
    if (targets_ && node_is_target(node, g)) return;
    if (node.consumed) used_up("backward", node.type->name);
    Tensor few[3];
    std::vector<Tensor> many(node.more ? node.inputs : 0);
    Tensor* dx = node.more ? many.data() : few;
    take_gradient(node, g, dx);
    if (debugging && !holds_nan(g)) [[unlikely]]
      for (int i = 0; i < node.inputs; ++i)
        if (dx[i].defined())
          check_nan(dx[i], std::string(node.type->name) + " backward", recorded_at(node));
    for (int i = 0; i < node.inputs; ++i)
      if (node.wants(i) && dx[i].defined()) send(node.input(i), std::move(dx[i]));
    if (!retain_) consume(node);
  }

  static void take_gradient(Node& node, const Tensor& g, Tensor* dx) {
    const profile::Scope scope(profile::Kind::backward, uint64_t(node.type),
                               [&] { return std::string(node.type->name) + " backward"; });
    node.type->backward(node, g, dx);
  }

  /// Hooks see the gradient, retain_grad keeps it.
  void meet(Node& node, Tensor& g) {
    if (!node.extra->hooks.empty()) g = hooked(node.extra->hooks, std::move(g));
    if (node.extra->retained && !targets_) {
      Edge edge;
      edge.leaf = node.extra->retained;
      send(edge, g);
    }
  }

  /// Takes the gradient of a target; true where nothing behind it is asked for.
  bool node_is_target(Node& node, const Tensor& g) {
    const auto at = targets_->nodes.find(&node);
    if (at == targets_->nodes.end()) return false;
    at->second = g;
    return !targets_->passes(node);
  }

  static void consume(Node& node) {
    node.consumed = true;
    for (auto& s : node.saved) s.reset();
    for (int i = 0; i < node.inputs; ++i) node.input(i) = {};
    if (!node.extra) return;
    node.extra->hooks.clear();
    node.extra->custom.reset();
    node.extra->stretch.reset();
  }

  bool retain_;
  NoGrad mode_;
  Targets* targets_;
  Gathered gathered_, *before_;
  static thread_local Walk* current;
  Walk* outer_;
  std::vector<Tensor> aside_;
  std::vector<Node*> ready_;  // a heap, each counted
  std::vector<Ref<TensorImpl>> leaves_;
};
thread_local Walk* Walk::current = nullptr;

}  // namespace

void Node::destroy(Node* node) {
  node->next = std::exchange(doomed, node);
  if (freeing) return;
  freeing = true;
  while (doomed) {
    Node* first = doomed;
    doomed = first->next;
    free_node(first);
  }
  freeing = false;
}

void Node::save(int slot, const Tensor& t, int from) {
  if (from != kOther && in_stretch()) return stretch_save(*this, slot, t, from);
  Tensor held = t.detach();  // a plain view: no node behind it, and its storage stays what it is
  saved[slot] = Ref<TensorImpl>::adopt(held.release());
  version[slot] = t.impl()->storage->version;
  source[slot] = int8_t(from);
}

void Node::save_shape(int slot, const Tensor& t) {
  saved[slot] = Ref<TensorImpl>::adopt(shape_of(t).release());
  source[slot] = kOther;
}

Tensor Node::get(int slot) {
  if (extra && extra->stretch) stretch_restore(*this, slot);
  Tensor t(saved[slot]);
  const uint32_t now = t.impl()->storage->version;
  if (now != version[slot])
    fail(
        "backward: {} needs a tensor {} that was changed in place since (version {}, expected {}); "
        "use the form without '_' or clone() first{}{}",
        type->name, to_string(t.shape()), now, version[slot], recorded_at(*this),
        changed_at(t.impl()->storage));
  if (!grad_enabled() || source[slot] == kOther) return t;
  Edge* edge = source[slot] >= 0 ? &input(source[slot]) : nullptr;
  if (edge && edge->leaf) {
    if (edge->leaf->storage != t.impl()->storage)
      fail("backward: a leaf of {} was replaced since", type->name);
    return Tensor(edge->leaf);
  }
  Node* behind = edge ? edge->node.get() : this;
  return behind ? rejoin(t, Ref<Node>::share(behind)) : t;
}

Tensor rejoin(const Tensor& x, Ref<Node> node) {
  Tensor t = x.detach();
  t.impl()->node = node.release();
  t.impl()->requires_grad = true;
  return t;
}

Node& record(const NodeType& type, const Tensor& out, std::initializer_list<const Tensor*> inputs) {
  Ref<Node> node = new_node(type, inputs.size());
  int i = 0;
  for (const Tensor* t : inputs) connect(node->edge[i++], *t);
  return conclude(std::move(node), out);
}

Node& record(const NodeType& type, const Tensor& out, const std::vector<Tensor>& inputs) {
  Ref<Node> node = new_node(type, inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) connect(node->input(int(i)), inputs[i]);
  return conclude(std::move(node), out);
}

namespace {

/// The gradient with which a walk starts at `root`.
Tensor first_gradient(const char* name, const Tensor& root, const Tensor& gradient) {
  if (!root.requires_grad())
    fail(
        "{}: this tensor does not depend on any that requires a gradient; see "
        "x:requires_grad_() and no_grad",
        name);
  if (!gradient.defined() && root.numel() != 1)
    fail(
        "{}: the tensor is {}, only one element has a gradient by itself; use :sum() or pass "
        "the gradient",
        name, to_string(root.shape()));
  if (gradient.defined() && !(gradient.shape() == root.shape()))
    fail("{}: the gradient is {}, the tensor {}", name, to_string(gradient.shape()),
         to_string(root.shape()));
  Tensor one =
      gradient.defined() ? to(gradient, root.dtype()) : scalar(1, root.dtype(), root.device());
  return one.shape() == root.shape() ? one : reshape(one, root.shape());
}

void start(Walk& walk, const Tensor& root, Tensor g) {
  Edge edge;
  connect(edge, root);
  walk.send(edge, std::move(g));
}

}  // namespace

void backward(const Tensor& root, const Tensor& gradient, bool retain_graph, bool create_graph) {
  Walk::check_depth("backward");
  Tensor g = first_gradient("backward", root, gradient);
  Walk walk(retain_graph || create_graph, create_graph);
  start(walk, root, std::move(g));
  walk.run();
  walk.call_leaf_hooks();
  walk.commit();
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients, const GradOptions& o) {
  Walk::check_depth("grad");
  if (outputs.empty()) fail("grad: no outputs are given");
  if (!gradients.empty() && gradients.size() != outputs.size())
    fail("grad: {} outputs, but {} grad_outputs", outputs.size(), gradients.size());
  std::vector<Tensor> first;
  for (size_t i = 0; i < outputs.size(); ++i)
    first.push_back(first_gradient("grad", outputs[i], gradients.empty() ? Tensor() : gradients[i]));
  Targets targets;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad())
      fail("grad: input {} does not require a gradient; see x:requires_grad_()", i + 1);
    targets.add(inputs[i]);
  }
  targets.find(outputs);
  {
    Walk walk(o.retain_graph || o.create_graph, o.create_graph, &targets);
    for (size_t i = 0; i < outputs.size(); ++i) start(walk, outputs[i], std::move(first[i]));
    walk.run();
    walk.call_leaf_hooks();
    walk.deliver();
  }
  std::vector<Tensor> found;
  for (size_t i = 0; i < inputs.size(); ++i) {
    found.push_back(targets.of(inputs[i]));
    if (found.back().defined()) continue;
    if (targets.used_up) used_up("grad", targets.used_up);
    if (!o.allow_unused)
      fail(
          "grad: input {} took no part in the outputs; pass {{allow_unused=true}} to get false for "
          "it",
          i + 1);
  }
  return found;
}

void announce(const Node& node) {
  for (const auto& hook : node.extra->hooks)
    if (hook->joined) hook->joined();
}

std::shared_ptr<Hook> register_hook(const Tensor& x, std::function<Tensor(const Tensor&)> call) {
  if (!x.requires_grad()) fail("register_hook: this tensor does not require a gradient");
  auto hook = std::make_shared<Hook>(Hook{std::move(call), {}});
  if (x.impl()->node) {
    x.impl()->node->facts().hooks.push_back(hook);
  } else {
    if (!x.impl()->hooks) x.impl()->hooks = new std::vector<std::shared_ptr<Hook>>;
    x.impl()->hooks->push_back(hook);
  }
  return hook;
}

// ---- debugging ----------------------------------------------------------------------------------

namespace {

std::unordered_map<const Storage*, std::string> changes;  // where each was last changed

std::string changed_at(const Storage* s) {
  const auto at = changes.find(s);
  return at == changes.end() ? "" : ", changed at " + at->second;
}

}  // namespace

void set_debug(bool on) {
  debugging = on;
  changes.clear();
}

void note_change(const Storage* s) {
  if (where_now) changes[s] = where_now();
}

bool holds_nan(const Tensor& x) {
  if (!is_float(x.dtype()) || x.numel() == 0) return false;
  const Debugging off(false);
  NoGrad quiet;
  return std::isnan(amax(x).item());
}

void check_nan(const Tensor& x, const std::string& what, const std::string& where) {
  if (!holds_nan(x)) return;
  const Debugging off(false);
  NoGrad quiet;
  int64_t i = argmax(to(reshape(isnan(x), {-1}), Dtype::u8)).at_integer(0);
  std::string place;
  for (int d = x.dim() - 1; d >= 0; --d) {
    place = fmt::format("{}{}{}", i % x.size(d) + index_base, place.empty() ? "" : ", ", place);
    i /= x.size(d);
  }
  fail("{} produced NaN at [{}]{}", what, place, where);
}

}  // namespace mt
