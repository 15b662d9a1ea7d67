// backward.cpp -- the backward pass through the autograd graph
//
// A node is visited after all nodes that used its result, when its gradient is complete. Gradients
// of views are parts (view_gradients.h). They are added up in one buffer of the tensor's size that
// the pass owns; if the tensor is itself a view, a few small parts are passed on to its base
// instead, so that a chain of views does not allocate a buffer either. While gradients are recorded
// (create_graph) all parts wait for the node's turn, and one operation adds them up.
#include <algorithm>
#include <unordered_set>

#include "engine/autograd/cycles.h"
#include "engine/autograd/function.h"
#include "engine/autograd/leaf_groups.h"
#include "engine/autograd/view_gradients.h"
#include "engine/core/profile_scope.h"
#include "engine/ops/ops.h"

namespace mt {

namespace {

/// Whether x is the only owner of its elements, which are contiguous.
bool is_owned(const Tensor& x) {
  return x.unique() && x.impl()->storage->refs == 1 && x.is_contiguous();
}

/// Adds a gradient to the sum so far, in place if the sum has no other owner.
void accumulate(Tensor& sum, Tensor more) {
  if (!sum.defined()) sum = std::move(more);
  else if (!grad_enabled() && is_owned(sum) && sum.dtype() == more.dtype()) sum += more;
  else sum = add(sum, more);
}

/// The sum so far, for tensors of this shape, plus the part.
Tensor with_part(Tensor sum, const Shape& shape, const ViewGradient& part) {
  if (!sum.defined()) sum = zeros(shape, part.gradient);
  else if (!is_owned(sum)) sum = clone(sum);
  add_view_gradient(sum, part);
  return sum;
}

/// Parts that wait for a node or a leaf, in a list or added up in one buffer.
struct Parts {
  Shape shape;  // of the tensor
  std::vector<ViewGradient> list;
  int64_t elements = 0;  // in the list
  PartSum sum;
  void add(ViewGradient part) {
    if (sum.defined()) return sum.add(part);
    elements += part.gradient.numel();
    list.push_back(std::move(part));
  }
  void add_up() {
    if (!sum.defined()) sum = PartSum(shape, list[0].gradient);
    for (const ViewGradient& part : list) sum.add(part);
    list.clear();
  }
  /// Whether the parts have at most an eighth of the tensor's elements.
  bool few() const { return elements <= product(shape) / 8; }
};

/// A node that has a gradient. Its number is stored here so that comparisons do not access the nodes.
struct Ready {
  uint64_t sequence;
  Node* node;
  bool operator<(const Ready& other) const { return sequence < other.sequence; }
};

constinit thread_local bool ending = false;  // the thread ends; a destructor may still run a pass

/// The memory of the last pass's lists, which the next pass reuses.
struct PassBuffers {
  std::vector<Ready> ready;
  std::vector<Ref<TensorImpl>> leaves;
  ~PassBuffers() { ending = true; }
};
thread_local PassBuffers pass_buffers;

/// The gradient after the hooks have run.
Tensor run_hooks(const std::vector<std::shared_ptr<Hook>>& hooks, Tensor g) {
  const std::vector<std::shared_ptr<Hook>> snapshot = hooks;  // a hook may remove itself
  for (const auto& hook : snapshot) {
    if (!hook->call) continue;
    const Tensor other = hook->call(g);
    if (!other.defined()) continue;
    if (other.shape() != g.shape() || other.dtype() != g.dtype())
      fail("hook: the returned gradient is {} {}, the one passed in is {} {}", other.shape(),
           other.dtype(), g.shape(), g.dtype());
    g = other;
  }
  return g;
}

[[noreturn]] void fail_graph_freed(const char* operation, const char* node) {
  fail(
      "{}: the graph behind '{}' was freed by an earlier backward; pass {{retain_graph=true}} to "
      "the first, or detach what one step hands to the next, h = h:detach()",
      operation, node);
}

/// The targets of `grad`: only nodes on the way to these are visited.
struct Targets {
  std::unordered_map<const void*, Tensor> found;  // their gradients, once computed, by node or leaf
  std::unordered_set<const Node*> needed;
  const char* freed_node = nullptr;  // the name of a node on the way whose graph was freed

  /// The gradient of x, which becomes a target.
  Tensor& of(const Tensor& x) { return x.impl()->node ? found[x.impl()->node] : found[x.impl()]; }
  bool leads(Edge& edge) const {
    return edge.node ? needed.count(edge.node.get()) > 0 : found.count(edge.leaf.get()) > 0;
  }
  /// Finds the nodes between the roots and the targets: inputs are older than results.
  void find(const TensorList& roots) {
    std::vector<Node*> all;
    std::unordered_set<Node*> seen;
    auto reach = [&](Node* n) {
      if (n && seen.insert(n).second) all.push_back(n);
    };
    for (const Tensor& root : roots) reach(root.impl()->node);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i]->consumed) freed_node = all[i]->type->name;
      for (int k = 0; k < all[i]->inputs; ++k) reach(all[i]->input(k).node.get());
    }
    std::ranges::sort(all, [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
    for (Node* n : all)
      if (found.count(n) || passes(*n)) needed.insert(n);
  }
  /// Whether some input of the node leads to a target.
  bool passes(Node& n) const {
    for (int k = 0; k < n.inputs; ++k)
      if (n.input(k) && leads(n.input(k))) return true;
    return false;
  }
  /// The inputs of the node, among the first 16, that do not lead to a target.
  uint16_t pruned(Node& n) const {
    unsigned mask = 0;
    for (int k = 0; k < std::min(n.inputs, 16); ++k)
      if (n.input(k) && !leads(n.input(k))) mask |= 1u << k;
    return uint16_t(mask);
  }
};

/// One backward pass. Leaves accumulate in `pending` and are committed at the end, or not at all.
class BackwardPass : public BackwardState {
 public:
  BackwardPass(bool retain, bool create, Targets* targets = nullptr)
      : retain_(retain),
        mode_(create),
        targets_(targets),
        outer_(static_cast<BackwardPass*>(std::exchange(thread_state.backward, this))) {
    if (outer_) outer_->save_pending();
    swap_spare();
  }
  ~BackwardPass() {
    while (!ready_.empty()) next()->pending.reset();
    for (auto& leaf : leaves_) take(*leaf);
    leaves_.clear();
    swap_spare();
    thread_state.backward = outer_;
    if (outer_) outer_->restore_pending();
  }

  /// Guards against a hook that starts a pass to its own tensor, which would never end.
  static void check_depth(const char* name) {
    int depth = 0;
    for (auto* w = static_cast<BackwardPass*>(thread_state.backward); w; w = w->outer_) ++depth;
    if (depth > 20) fail("{}: more than 20 nested backward passes; does a hook call itself?", name);
  }

  void send(Edge& edge, Tensor g) {
    if (targets_ && !targets_->leads(edge)) return;
    const bool first = enqueue(edge);
    if (first && edge.node && pass_on_early(*edge.node, g)) return;
    if (edge.node) return accumulate(edge.node->pending, std::move(g));
    check_leaf(*edge.leaf, g.shape(), g.dtype());
    Tensor sum = take(*edge.leaf);
    accumulate(sum, std::move(g));
    put(*edge.leaf, std::move(sum));
  }

  /// Sends the gradient of a view of the edge's tensor, which has this shape.
  void send(Edge& given, Shape shape, ViewGradient part) {
    Edge* edge = &given;
    for (;; edge = &edge->node->input(0)) {  // through views of all elements
      if (targets_ && !targets_->leads(*edge)) return;
      if (part.at.size == shape && part.at.stride == contiguous_strides(shape))
        return send(*edge, std::move(part.gradient));
      if (edge->leaf) check_leaf(*edge->leaf, shape, part.gradient.dtype());
      enqueue(*edge);
      if (!edge->node || !reshapes(*edge->node, shape, part.at)) break;
    }
    const bool dense = edge->node ? edge->node->pending.defined() : edge->leaf->pending != nullptr;
    const bool passes = edge->node && edge->node->type->through && !dense;
    const bool simple = dense || (!passes && product(shape) < PartSum::kLarge);
    if (simple && !grad_enabled() && !has_parts(key(*edge)))
      return put(*edge, with_part(take(*edge), shape, part));
    if (!parts_) parts_ = std::make_unique<Waiting>();
    Parts& parts = (*parts_)[key(*edge)];
    parts.shape = shape;
    parts.add(std::move(part));
    if (!grad_enabled() && !(passes && parts.few())) parts.add_up();
  }

  /// Begins the passes of the groups of leaves that the root leads to.
  void begin_groups(const Tensor& root) { groups_ = LeafGroups::of(root); }

  void run() {
    if (groups_) report_leaves();
    while (!ready_.empty()) {
      check_interrupt();
      visit(*next());
      if (groups_) [[unlikely]]
        report_leaves();
    }
    for (auto& [leaf, compute] : std::exchange(deferred, {})) {
      Edge edge;
      edge.leaf = leaf;
      send(edge, compute());
    }
  }

  /// Calls the hooks of the leaves that are in no group; leaves out those frozen since the forward pass.
  void call_leaf_hooks() {
    const auto in_group = [&](const auto& leaf) {
      return groups_ && groups_->contains(leaf.get());
    };
    std::erase_if(leaves_, [&](auto& leaf) {
      return !leaf->requires_grad && !in_group(leaf) && (take(*leaf), true);
    });
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (!in_group(leaves_[i])) finish_leaf(*leaves_[i]);
  }

  void end_groups() {
    if (!groups_) return;
    groups_->end(gradient_of, [this](const Ref<TensorImpl>& leaf, Tensor g, bool whole) {
      if (!leaf->pending) leaves_.push_back(leaf);
      put(*leaf, std::move(g));
      if (whole) replaced_.insert(leaf.get());
    });
  }

  /// Moves the leaves' gradients to the targets instead of `.grad`.
  void collect_targets() {
    for (auto& leaf : leaves_) targets_->found[leaf.get()] = take(*leaf);
    leaves_.clear();
  }

  /// Adds the accumulated gradients to `.grad`. A gradient without another owner is moved, others are
  /// copied; an existing `.grad` changes in place, as in PyTorch. Steps that may fail are done first.
  void accumulate_grads() {
    for (auto& leaf : leaves_) {
      Tensor g = take(*leaf);
      const bool joins = leaf->grad != nullptr && !replaced_.count(leaf.get());
      if (joins && grad_enabled()) g = add(Tensor(Ref<TensorImpl>::share(leaf->grad)), g);
      else if (joins) g = to(g, leaf->grad->dtype);
      else if (!is_owned(g)) g = clone(g);
      leaf->pending = g.release();
    }
    check_interrupt();
    const InterruptGuard guard;
    for (auto& leaf : leaves_) {
      Tensor g = take(*leaf);
      if (leaf->grad && !grad_enabled() && !replaced_.count(leaf.get())) {
        Tensor(Ref<TensorImpl>::share(leaf->grad)) += g;
      } else {
        Ref<TensorImpl>::adopt(leaf->grad);
        g.impl()->made_in_no_grad = g.impl()->aliases_graph = false;
        leaf->grad = g.release();
        if (leaf->grad->node) suspect(leaf.get());
      }
    }
    leaves_.clear();
    if (groups_) groups_->committed();
  }

 private:
  void swap_spare() {
    if (!ending) ready_.swap(pass_buffers.ready), leaves_.swap(pass_buffers.leaves);
  }

  // ---- the gradients so far of a node or a leaf
  static const void* key(Edge& edge) {
    return edge.node ? static_cast<const void*>(edge.node.get()) : edge.leaf.get();
  }
  static Tensor take(TensorImpl& leaf) {
    return Tensor(Ref<TensorImpl>::adopt(std::exchange(leaf.pending, nullptr)));
  }
  static void put(TensorImpl& leaf, Tensor sum) {
    Ref<TensorImpl>::adopt(std::exchange(leaf.pending, sum.release()));
  }
  static Tensor gradient_of(const TensorImpl& leaf) {
    return Tensor(leaf.pending ? Ref<TensorImpl>::share(leaf.pending) : Ref<TensorImpl>());
  }
  /// Adds up the parts that wait for the leaf, and calls its hooks.
  void finish_leaf(TensorImpl& leaf) {
    if (parts_) put(leaf, add_parts(&leaf, take(leaf)));
    if (leaf.hooks && leaf.pending) put(leaf, run_hooks(*leaf.hooks, gradient_of(leaf)));
  }
  /// Tells the groups which gradients are complete.
  void report_leaves() {
    const uint64_t latest = ready_.empty() ? 0 : ready_.front().sequence;
    groups_->report(latest, [this](TensorImpl& leaf, bool first) {
      if (first) finish_leaf(leaf);
      return gradient_of(leaf);
    });
  }
  static Tensor take(Edge& edge) {
    return edge.node ? std::exchange(edge.node->pending, {}) : take(*edge.leaf);
  }
  static void put(Edge& edge, Tensor sum) {
    if (edge.node) edge.node->pending = std::move(sum);
    else put(*edge.leaf, std::move(sum));
  }
  bool has_parts(const void* key) const { return parts_ && parts_->count(key) > 0; }
  /// Adds a node or a leaf to the lists at its first gradient; returns whether this is the first.
  bool enqueue(Edge& edge) {
    if (edge.leaf) {
      if (edge.leaf->pending || has_parts(edge.leaf.get())) return false;
      leaves_.push_back(edge.leaf);
      return true;
    }
    if (std::exchange(edge.node->queued, true)) return false;
    ready_.push_back({edge.node->sequence, Ref<Node>(edge.node).release()});
    std::push_heap(ready_.begin(), ready_.end());
    return true;
  }
  static void check_leaf(const TensorImpl& leaf, const Shape& shape, Dtype dtype) {
    const bool same =
        shape.size() == leaf.ndim && std::equal(shape.begin(), shape.end(), leaf.size);
    if (!same || dtype != leaf.dtype)
      fail("backward: the gradient is {} {}, its leaf is {} {}; its data was replaced", shape,
           dtype, Shape(leaf.size, leaf.ndim), leaf.dtype);
  }
  /// The sum plus the parts that wait at the key.
  Tensor add_parts(const void* key, Tensor sum) {
    if (!has_parts(key)) return sum;
    Parts waiting = std::move((*parts_)[key]);
    parts_->erase(key);
    if (grad_enabled()) return sum_view_gradients(waiting.shape, sum, waiting.list);
    waiting.add_up();
    Tensor all = waiting.sum.take();
    if (sum.defined()) accumulate(all, std::move(sum));
    return all;
  }

  /// A hook or a function's backward may run another pass through the same nodes and leaves; then
  /// `outer_` stores its gradients in `saved_pending_`.
  void save_pending() {
    for (const Ready& ready : ready_) {
      saved_pending_.push_back(std::exchange(ready.node->pending, {}));
      ready.node->queued = false;
    }
    for (auto& leaf : leaves_) saved_pending_.push_back(take(*leaf));
  }
  void restore_pending() {
    size_t i = 0;
    for (const Ready& ready : ready_) {
      ready.node->pending = std::move(saved_pending_[i++]);
      ready.node->queued = true;
    }
    for (auto& leaf : leaves_) leaf->pending = saved_pending_[i++].release();
    saved_pending_.clear();
  }

  /// The latest node that has a gradient: all nodes that used its result have been visited.
  Ref<Node> next() {
    std::pop_heap(ready_.begin(), ready_.end());
    Ref<Node> node = Ref<Node>::adopt(ready_.back().node);
    ready_.pop_back();
    node->queued = false;
    return node;
  }

  void visit(Node& node) {
    if (parts_ && has_parts(&node) && pass_on(node)) return;
    Tensor g = std::move(node.pending);
    if (parts_) g = add_parts(&node, std::move(g));
    if (g.defined()) {  // otherwise all parts were passed on
      if (node.extra) call_hooks(node, g);
      if (targets_ && node_is_target(node, g)) return;
      if (node.consumed) fail_graph_freed("backward", node.type->name);
      if (node.type->backward) visit_operation(node, g);
      else send_through(node, g);
    }
    if (!retain_) consume(node);
  }

  void visit_operation(Node& node, const Tensor& g) {
    Tensor few[3];
    TensorList many(node.more ? node.inputs : 0);
    Tensor* dx = node.more ? many.data() : few;
    take_gradient(node, g, dx);
    if (thread_state.debugging && !is_anomalous(g)) [[unlikely]]
      for (int i = 0; i < node.inputs; ++i)
        if (dx[i].defined())
          check_anomaly(dx[i], std::string(node.type->name) + " backward", recorded_at(node));
    for (int i = 0; i < node.inputs; ++i)
      if (node.wants(i) && dx[i].defined()) send(node.input(i), std::move(dx[i]));
  }

  static profile::Scope timed_scope(const Node& node) {
    return {profile::Kind::backward, uint64_t(node.type),
            [&] { return std::string(node.type->name) + " backward"; }};
  }

  /// Sends a view's gradient as a part of its input's; false if it is more than `most` of that.
  bool send_through(Node& node, const Tensor& g, double most = 1) {
    ViewGradient part{contiguous_geometry(g.shape()), g};
    Shape input;
    node.type->through(node, g.shape(), part.at, input);
    if (most < 1 && double(g.numel()) > most * double(product(input))) return false;
    const profile::Scope scope = timed_scope(node);
    send(node.input(0), input, std::move(part));
    return true;
  }

  /// Whether gradients may pass through a view before its turn, because its gradient is not needed.
  bool can_pass(const Node& node) const {
    const bool seen = (node.extra && (!node.extra->hooks.empty() || node.extra->retained)) ||
                      (targets_ && targets_->found.count(&node) > 0);
    return node.type->through && !node.consumed && !node.pending.defined() && !seen;
  }

  /// Passes the first gradient of a view on at once, while it is in the cache: the results of
  /// unbind are older than all nodes that use them, so all their gradients would wait together.
  /// Further ones are accumulated until the node's turn.
  bool pass_on_early(Node& node, const Tensor& g) {
    return !grad_enabled() && !node.type->backward && can_pass(node) && send_through(node, g, 0.5);
  }

  /// Whether the node is a view of the same elements in the same order; then sets the input's shape.
  bool reshapes(Node& node, Shape& shape, const TensorGeometry& at) const {
    if (grad_enabled() || !can_pass(node)) return false;
    TensorGeometry mapped = at;
    Shape input;
    if (!node.type->through(node, shape, mapped, input) || product(input) != product(shape) ||
        mapped.offset != at.offset || mapped.stride != at.stride)
      return false;
    shape = input;
    return true;
  }

  /// Passes the parts that wait for a view on to its input; false if they are not few, if the
  /// view's own gradient is used, or if no strides describe these regions in the input.
  bool pass_on(Node& node) {
    const Parts& waiting = (*parts_)[&node];
    if (!can_pass(node) || waiting.sum.defined() || !waiting.few()) return false;
    std::vector<ViewGradient> list = waiting.list;
    Shape input;
    for (ViewGradient& part : list)
      if (!node.type->through(node, waiting.shape, part.at, input)) return false;
    parts_->erase(&node);
    for (ViewGradient& part : list) send(node.input(0), input, std::move(part));
    if (!retain_) consume(node);
    return true;
  }

  void take_gradient(Node& node, const Tensor& g, Tensor* dx) const {
    const SaveAndRestore pruned(node.pruned, targets_ ? targets_->pruned(node) : uint16_t(0));
    const profile::Scope scope = timed_scope(node);
    node.type->backward(node, g, dx);
  }

  /// Calls the hooks with the gradient, and stores it for retain_grad.
  void call_hooks(Node& node, Tensor& g) {
    if (!node.extra->hooks.empty()) g = run_hooks(node.extra->hooks, std::move(g));
    if (node.extra->retained && !targets_) {
      Edge edge;
      edge.leaf = node.extra->retained;
      send(edge, g);
    }
  }

  /// Stores the gradient of a target; returns true if no other target precedes it in the graph.
  bool node_is_target(Node& node, const Tensor& g) {
    const auto at = targets_->found.find(&node);
    if (at == targets_->found.end()) return false;
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
    node.extra->unsaved.reset();
    node.extra->parts.reset();
  }

  bool retain_;
  GradMode mode_;
  Targets* targets_;
  BackwardPass* outer_;
  TensorList saved_pending_;
  using Waiting = std::unordered_map<const void*, Parts>;  // by node or leaf
  std::unique_ptr<Waiting> parts_;
  std::vector<Ready> ready_;  // a heap; each entry owns a reference
  std::vector<Ref<TensorImpl>> leaves_;
  std::unique_ptr<LeafGroups> groups_;
  std::unordered_set<const TensorImpl*> replaced_;  // leaves whose gradient includes `.grad`
};

/// The gradient at `root` with which a pass starts.
Tensor first_gradient(const char* name, const Tensor& root, const Tensor& gradient) {
  if (!root.requires_grad())
    fail(
        "{}: this tensor does not depend on any that requires a gradient; see "
        "x:requires_grad_() and no_grad",
        name);
  if (!gradient.defined() && root.numel() != 1)
    fail(
        "{}: the tensor is {}; without a gradient it must have one element; use :sum() or pass "
        "the gradient",
        name, root.shape());
  if (gradient.defined() && gradient.shape() != root.shape())
    fail("{}: the gradient is {}, the tensor {}", name, gradient.shape(), root.shape());
  Tensor one =
      gradient.defined() ? to(gradient, root.dtype()) : scalar(1, root.dtype(), root.device());
  return one.shape() == root.shape() ? one : reshape(one, root.shape());
}

void start(BackwardPass& pass, const Tensor& root, Tensor g) {
  Edge edge;
  connect(edge, root);
  pass.send(edge, std::move(g));
}

}  // namespace

void backward(const Tensor& root, const Tensor& gradient, bool retain_graph, bool create_graph) {
  BackwardPass::check_depth("backward");
  Tensor g = first_gradient("backward", root, gradient);
  if (thread_state.zero_gradients) g = zeros(g.shape(), g.dtype(), g.device());
  BackwardPass pass(retain_graph || create_graph, create_graph);
  pass.begin_groups(root);
  start(pass, root, std::move(g));
  pass.run();
  pass.call_leaf_hooks();
  pass.end_groups();
  pass.accumulate_grads();
}

TensorList grad(const TensorList& outputs, const TensorList& inputs, const TensorList& gradients,
                const GradOptions& o) {
  BackwardPass::check_depth("grad");
  if (outputs.empty()) fail("grad: no outputs are given");
  if (!gradients.empty() && gradients.size() != outputs.size())
    fail("grad: {} outputs, but {} grad_outputs", outputs.size(), gradients.size());
  TensorList first;
  for (size_t i = 0; i < outputs.size(); ++i)
    first.push_back(
        first_gradient("grad", outputs[i], gradients.empty() ? Tensor() : gradients[i]));
  Targets targets;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad())
      fail("grad: input {} does not require a gradient; see x:requires_grad_()", i + 1);
    targets.of(inputs[i]);
  }
  targets.find(outputs);
  {
    BackwardPass pass(o.retain_graph || o.create_graph, o.create_graph, &targets);
    for (size_t i = 0; i < outputs.size(); ++i) start(pass, outputs[i], std::move(first[i]));
    pass.run();
    pass.call_leaf_hooks();
    pass.collect_targets();
  }
  TensorList found;
  for (size_t i = 0; i < inputs.size(); ++i) {
    found.push_back(targets.of(inputs[i]));
    if (found.back().defined()) continue;
    if (targets.freed_node) fail_graph_freed("grad", targets.freed_node);
    if (!o.allow_unused)
      fail(
          "grad: no output depends on input {}; pass {{allow_unused=true}} to get false for "
          "it",
          i + 1);
  }
  return found;
}

}  // namespace mt
