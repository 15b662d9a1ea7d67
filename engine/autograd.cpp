// autograd.cpp -- the graph of gradients: nodes, recording, and the walk backwards
#include "engine/autograd.h"

#include <algorithm>
#include <new>

#include "engine/ops.h"
#include "kernels/cpu/parallel.h"

namespace mt {

constinit thread_local bool recording = true;

namespace {

std::atomic<uint64_t> next_sequence{1};

Node& new_node(const NodeType& type, const Tensor& out, size_t inputs) {
  Node* node = new (take_block(sizeof(Node))) Node;
  node->type = &type;
  node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  node->inputs = int(inputs);
  TensorImpl& o = *out.impl();
  if (o.node) Ref<Node>::adopt(o.node);
  o.node = node;
  o.requires_grad = true;
  return *node;
}

void connect(Edge& edge, const Tensor& input) {
  TensorImpl* t = input.impl();
  if (!input.requires_grad()) return;
  if (t->node) edge.node = Ref<Node>::share(t->node);
  else edge.leaf = Ref<TensorImpl>::share(t);
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

/// One walk. Leaves collect in `pending` and are committed at the end; a failure leaves no trace.
class Walk {
 public:
  Walk(bool retain, bool create) : retain_(retain), mode_(create) {
    ready_.swap(spare_ready);
    leaves_.swap(spare_leaves);
  }
  ~Walk() {
    while (!ready_.empty()) next()->pending.reset();
    for (auto& leaf : leaves_) drop_pending(*leaf);
    leaves_.clear();
    ready_.swap(spare_ready);
    leaves_.swap(spare_leaves);
  }

  void send(Edge& edge, Tensor g) {
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
        g.impl()->quiet = false;
        leaf->grad = g.release();
      }
    }
    leaves_.clear();
  }

 private:
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
    if (node.consumed)
      fail(
          "backward: the graph behind '{}' was used up by an earlier backward; pass "
          "{{retain_graph=true}} to the first",
          node.type->name);
    Tensor few[3];
    std::vector<Tensor> many(node.more ? node.inputs : 0);
    Tensor* dx = node.more ? many.data() : few;
    node.type->backward(node, g, dx);
    for (int i = 0; i < node.inputs; ++i)
      if (node.wants(i) && dx[i].defined()) send(node.input(i), std::move(dx[i]));
    if (!retain_) consume(node);
  }

  static void consume(Node& node) {
    node.consumed = true;
    for (auto& s : node.saved) s.reset();
    for (int i = 0; i < node.inputs; ++i) node.input(i) = {};
  }

  bool retain_;
  NoGrad mode_;
  std::vector<Node*> ready_;  // a heap, each counted
  std::vector<Ref<TensorImpl>> leaves_;
};

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
  Tensor t(saved[slot]);
  const uint32_t now = t.impl()->storage->version;
  if (now != version[slot])
    fail(
        "backward: {} needs a tensor {} that was changed in place since (version {}, expected {}); "
        "use the form "
        "without '_' or clone() first",
        type->name, to_string(t.shape()), now, version[slot]);
  if (!grad_enabled() || source[slot] == kOther) return t;
  Edge* edge = source[slot] >= 0 ? &input(source[slot]) : nullptr;
  if (edge && edge->leaf) {
    if (edge->leaf->storage != t.impl()->storage)
      fail("backward: a leaf of {} was replaced since", type->name);
    return Tensor(edge->leaf);
  }
  Node* behind = edge ? edge->node.get() : this;
  if (!behind) return t;
  t = t.detach();
  t.impl()->node = Ref<Node>::share(behind).release();
  t.impl()->requires_grad = true;
  return t;
}

Node& record(const NodeType& type, const Tensor& out, std::initializer_list<const Tensor*> inputs) {
  Node& node = new_node(type, out, inputs.size());
  int i = 0;
  for (const Tensor* t : inputs) connect(node.edge[i++], *t);
  return node;
}

Node& record(const NodeType& type, const Tensor& out, const std::vector<Tensor>& inputs) {
  Node& node = new_node(type, out, inputs.size());
  if (inputs.size() > 3) node.more = std::make_unique<Edge[]>(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) connect(node.input(int(i)), inputs[i]);
  return node;
}

void backward(const Tensor& root, const Tensor& gradient, bool retain_graph, bool create_graph) {
  if (!root.requires_grad())
    fail(
        "backward: this tensor does not depend on any that requires a gradient; see "
        "x:requires_grad_() and no_grad");
  if (!gradient.defined() && root.numel() != 1)
    fail(
        "backward: the tensor is {}, only one element has a gradient by itself; use :sum() or pass "
        "the gradient",
        to_string(root.shape()));
  if (gradient.defined() && !(gradient.shape() == root.shape()))
    fail("backward: the gradient is {}, the tensor {}", to_string(gradient.shape()),
         to_string(root.shape()));
  Walk walk(retain_graph || create_graph, create_graph);
  Edge edge;
  connect(edge, root);
  Tensor one =
      gradient.defined() ? to(gradient, root.dtype()) : scalar(1, root.dtype(), root.device());
  walk.send(edge, one.shape() == root.shape() ? std::move(one) : reshape(one, root.shape()));
  edge = {};
  walk.run();
  walk.commit();
}

}  // namespace mt
