// graph.h -- the autograd graph: nodes, recording, and the backward pass
#pragma once
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

struct TensorGeometry;  // view_gradients.h

/// The kind of a node: its name for messages, and the gradient, which is defined next to the
/// forward code. `backward(node, g, dx)` sets dx[i] for each input i with `node.wants(i)`.
struct NodeType {
  const char* name;
  void (*backward)(Node& node, const Tensor& g, Tensor* dx);
  int op = -1;  // for elementwise operations: their id
  /// For views: maps a region of the result, whose shape is `seen`, to a region of the input, both
  /// as if contiguous, and sets the input's shape; false if no strides describe it there. Without
  /// `backward` the gradient is sent on as such a region: see view_gradients.h.
  bool (*through)(Node&, const Shape& seen, TensorGeometry&, Shape& input) = nullptr;
};

/// The target of a gradient: the node that computed an input, or a leaf. At most one of the two is
/// set.
struct Edge {
  Ref<Node> node;
  Ref<TensorImpl> leaf;
  explicit operator bool() const { return node || leaf; }
};

constexpr int kMaxSaved = 4;

struct GradientGroup;
/// A function that is called with a gradient, and may return a replacement of the same shape.
/// A hook without `call` and `group` has been removed.
struct Hook {
  std::function<Tensor(const Tensor&)> call;
  std::function<void()> on_shared;  // called when the tensor, or its node, gets another owner
  std::shared_ptr<GradientGroup> group = nullptr;  // of a leaf: called with those of other leaves
  TensorImpl* leaf = nullptr;                      // the owner of the hook, for a group
  bool removed() const { return !call && !group; }
};
/// What a group does in one backward pass; destroyed without `end` if the pass fails.
struct GroupPass {
  virtual ~GroupPass() = default;
  /// The gradient of a member is complete; undefined if none was computed.
  virtual void ready(size_t member, const Tensor& gradient) = 0;
  /// All are complete; replaces those that are to be added to `.grad`, or, if it returns true, to replace it.
  virtual bool end(TensorList& gradients) = 0;
  /// `.grad` of the leaves has been changed.
  virtual void committed() = 0;
};
/// Leaves whose gradients are combined while `backward` goes on, as by averages over processes.
struct GradientGroup {
  std::vector<std::weak_ptr<Hook>> members;
  uint64_t number = 0;  // groups of a pass are called in the order of creation
  virtual ~GradientGroup();
  struct Start {
    std::vector<bool> reached;  // the members for which the pass computes gradients
    int64_t order;              // a hash of the order in which these will be complete
    bool undisturbed;           // no function of the user and no other group runs meanwhile
  };
  /// Called before a pass computes gradients; null: nothing to do.
  virtual std::unique_ptr<GroupPass> begin(Start) = 0;
  /// Whether `end` of such a pass does not depend on `.grad`.
  virtual bool is_repeatable() const = 0;
};
struct CustomFunction;  // function.h
struct Unsaved;         // function.h

/// The fields that only a few nodes need.
struct NodeExtra {
  std::vector<std::shared_ptr<Hook>> hooks;
  Ref<TensorImpl> retained;                // a leaf that collects the gradient, for retain_grad
  std::shared_ptr<CustomFunction> custom;  // of a function with its own gradient
  std::shared_ptr<Unsaved> unsaved;        // makes the tensors that were not saved
  std::shared_ptr<const std::vector<TensorGeometry>> parts;  // of a sum of parts: their regions
  int place[kMaxSaved] = {-1, -1, -1, -1};                   // of tensors among those of `unsaved`
  std::string line;  // the line of the operation, while debugging
};

/// One recorded operation. It owns storage and views, never the tensors that it computed: those own
/// it.
struct Node {
  std::atomic<int> refs{1};
  int inputs = 0;
  bool consumed = false;
  bool queued = false;       // in a running backward pass: it has a gradient
  int8_t source[kMaxSaved];  // the input that a saved tensor is; kOutput; kOther
  uint16_t pruned = 0;       // bits of inputs 0..15 by which the running pass reaches no target
  uint32_t kept_type = 0, kept_bytes = 0;  // of the data of `keep`; its bytes if it is on the heap
  union {
    uint64_t sequence = 0;  // the order of creation, in which inputs precede results
    Node* next;             // the next node in the list to be freed
  };
  const NodeType* type = nullptr;
  std::unique_ptr<NodeExtra> extra;
  Edge edge[3];
  std::unique_ptr<Edge[]> more;  // all edges, if there are more than three
  Ref<TensorImpl> saved[kMaxSaved];
  uint32_t version[kMaxSaved] = {};
  static constexpr size_t kKept = 4 * sizeof(double);
  union {
    unsigned char kept_inline[kKept];
    void* kept_on_heap;
  };
  Tensor pending;  // the gradient so far, while a backward pass runs

  static constexpr int8_t kOutput = -1, kOther = -2;
  static void destroy(Node*);

  Edge& input(int i) { return more ? more[i] : edge[i]; }
  bool wants(int i) { return bool(input(i)) && !(i < 16 && pruned >> i & 1); }
  NodeExtra& ensure_extra();
  /// Saves a tensor, if it is defined, and its version for backward. `source`: the index of the
  /// input, kOutput or kOther.
  Node& save(int slot, const Tensor&, int source);
  /// Calls `save` if input `wanted` requires a gradient.
  Node& save_for(int wanted, int slot, const Tensor& x, int from) {
    return wants(wanted) ? save(slot, x, from) : *this;
  }
  /// The saved tensor, or an undefined one. Throws if it was changed in place after it was saved.
  /// While gradients are themselves recorded it is connected to the graph again.
  Tensor get(int slot);

  /// Keeps data for backward that is not a tensor, one value of a plain type: dimensions, sizes,
  /// parameters. Small values are stored in the node. `kept` must have the type of `keep`.
  template <class T> Node& keep(const T& value) {
    *keep_list<T>(1) = value;
    return *this;
  }
  template <class T> const T& kept() const { return *kept_list<T>(); }
  /// Allocates n such values, which the caller fills in.
  template <class T> T* keep_list(size_t n) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(double));
    kept_type = type_number<T>();
    return static_cast<T*>(n * sizeof(T) <= kKept ? kept_inline : keep_on_heap(n * sizeof(T)));
  }
  template <class T> const T* kept_list() const {
    if (kept_type != type_number<T>()) fail_kept_type();
    return static_cast<const T*>(sizeof(T) > kKept || kept_bytes ? kept_on_heap : kept_inline);
  }

 private:
  [[noreturn]] void fail_kept_type() const;
  void* keep_on_heap(size_t bytes);
  /// FNV-1a (Fowler, Noll, Vo) of the type's name.
  template <class T> static constexpr uint32_t type_number() {
    uint32_t n = 2166136261u;
    for (const char* c = __PRETTY_FUNCTION__; *c; ++c) n = (n ^ uint8_t(*c)) * 16777619u;
    return n;
  }
};

/// Whether operations are recorded on this thread.
inline bool grad_enabled() { return thread_state.grad_enabled; }
/// Returns the previous value. Each thread has its own value; a new thread records.
inline bool set_grad_enabled(bool on) { return std::exchange(thread_state.grad_enabled, on); }
/// Whether operations of this thread are recorded during its lifetime (torch.set_grad_enabled).
struct GradMode : SaveAndRestore<bool> {
  explicit GradMode(bool enabled) : SaveAndRestore(thread_state.grad_enabled, enabled) {}
};
/// During its lifetime nothing is recorded on this thread (torch.no_grad): `mt::NoGrad no_grad;`
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};

/// Whether an operation on these inputs, which may be undefined, must be recorded.
template <class... Inputs> bool wants_grad(const Inputs&... x) {
  return grad_enabled() && (... || (x.defined() && x.requires_grad()));
}

/// Makes `out` the result of a new node over `inputs`, which may be undefined; the caller then
/// saves what the gradient needs.
Node& record(const NodeType& type, const Tensor& out, std::initializer_list<const Tensor*> inputs);
Node& record(const NodeType& type, const Tensor& out, const TensorList& inputs);

/// Connects the edge to the node that computed x, or to x if it is a leaf that requires a gradient.
void connect(Edge& edge, const Tensor& x);

/// Reconnects a computed tensor, which was saved without its graph, as the result of its node.
Tensor reattach(const Tensor& x, Ref<Node> node);

/// Runs backward from `root` and adds to `.grad` of its leaves: all of them, or none if it fails.
/// `gradient` has root's shape; if it is undefined root must have one element. The graph is freed
/// unless `retain_graph`; with `create_graph` gradients can be differentiated. Throws an Error if a
/// saved tensor was changed in place. Passes of several threads at the same time must not share
/// graphs or leaves: `w.detach().requires_grad_()` is another leaf in the same memory.
void backward(const Tensor& root, const Tensor& gradient = {}, bool retain_graph = false,
              bool create_graph = false);

struct GradOptions {
  bool retain_graph = false, create_graph = false, allow_unused = false;
};
/// The gradients of the sum of `outputs` (each times its gradient, if that is given) by `inputs`,
/// leaves or not; no `.grad` changes. An input that the outputs do not depend on is an error, or
/// undefined with allow_unused.
TensorList grad(const TensorList& outputs, const TensorList& inputs,
                const TensorList& gradients = {}, const GradOptions& = {});

void notify_hooks(const TensorImpl&);
/// Notifies the hooks of a tensor that it, or its node, gets another owner.
inline void notify_shared(const TensorImpl& t) {
  if (t.node ? t.node->extra != nullptr : t.hooks != nullptr) [[unlikely]]
    notify_hooks(t);
}
/// Calls the function with the gradient of x whenever that has been computed; the result, of the same
/// shape and dtype, replaces it unless undefined. `hook->call = nullptr` removes it. It must not own x.
std::shared_ptr<Hook> register_hook(const Tensor& x, std::function<Tensor(const Tensor&)>);
void add_hook(const Tensor& x, std::shared_ptr<Hook>);
/// Makes the leaves the members of the group, which each backward pass that reaches one of them calls.
void register_group(const TensorList& leaves, const std::shared_ptr<GradientGroup>&);

/// The state of a running backward pass. The gradients of a function's results (function.h) are
/// stored here, by its node, until the function's turn.
struct BackwardState {
  std::unordered_map<const Node*, TensorList> function_grads;
  std::vector<std::pair<Ref<TensorImpl>, std::function<Tensor()>>> deferred;  // gradients of leaves
};

// ---- debugging: mt.set_debug and mt.set_detect_anomaly ----

/// ", recorded at" and the line, or an empty string.
std::string recorded_at(const Node&);
/// Makes operations of this thread store their line, and the first result with a NaN an Error.
void set_debug(bool);
/// The same, and so is the first infinite result.
void set_detect_anomaly(bool);
/// While debugging: whether x has a NaN, or with set_detect_anomaly an infinity.
bool is_anomalous(const Tensor& x);
/// Throws an Error if it does: "tanh produced NaN at [3, 1], ..".
void check_anomaly(const Tensor& x, const std::string& what, const std::string& where = "");
bool holds_nan(const Tensor& x);

}  // namespace mt
