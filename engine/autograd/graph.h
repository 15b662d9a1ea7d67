// graph.h -- the graph of gradients: nodes, recording, and the backward pass
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

/// The kind of a node: its name for messages, and the gradient that stands beside the forward
/// formula. `backward(node, g, dx)` sets dx[i] for each input i with `node.wants(i)`.
struct NodeType {
  const char* name;
  void (*backward)(Node& node, const Tensor& g, Tensor* dx);
  int op = -1;  // for elementwise operations: which
  /// Of views: takes a region of the result, whose shape is `seen`, to that of the input, both as if
  /// contiguous, and tells the input's shape; false where no strides show it there. Without
  /// `backward` the gradient is sent on as such a region: see view_gradients.h.
  bool (*through)(Node&, const Shape& seen, TensorGeometry&, Shape& input) = nullptr;
};

/// Where a gradient goes: to the node that computed an input, or to a leaf. One of the two, or
/// neither.
struct Edge {
  Ref<Node> node;
  Ref<TensorImpl> leaf;
  explicit operator bool() const { return node || leaf; }
};

constexpr int kMaxSaved = 4;

struct GradientGroup;
/// A function that sees a gradient, and may return another of its shape in its place. Without
/// `call` it was removed.
struct Hook {
  std::function<Tensor(const Tensor&)> call;
  std::function<void()> on_shared;  // of a computed tensor: its node gets one more owner
  std::shared_ptr<GradientGroup> group = nullptr;  // of a leaf: seen with those of other leaves
  TensorImpl* leaf = nullptr;                      // that owns the hook of a group
  bool removed() const { return !call && !group; }
};
/// Leaves whose gradients a function sees together when `backward` has computed all of them. Undefined ones were
/// not computed; it may put others in their places.
struct GradientGroup {
  std::vector<std::weak_ptr<Hook>> members;
  std::function<void(TensorList&)> call;
};
struct CustomFunction;  // function.h
struct Checkpoint;      // function.h

/// What few nodes have.
struct NodeExtra {
  std::vector<std::shared_ptr<Hook>> hooks;
  Ref<TensorImpl> retained;                // a leaf that collects the gradient, for retain_grad
  std::shared_ptr<CustomFunction> custom;  // of a function with its own gradient
  std::shared_ptr<Checkpoint> checkpoint;  // computes what was not saved
  std::shared_ptr<const std::vector<TensorGeometry>> parts;  // of a sum of parts: where they lie
  int place[kMaxSaved] = {-1, -1, -1, -1};
  std::string line;  // where it was recorded, while debugging
};

/// One recorded operation. It holds storage and views, never the tensors it computed: those hold
/// it.
struct Node {
  std::atomic<int> refs{1};
  int inputs = 0;
  bool consumed = false;
  bool queued = false;                     // in a running backward pass: a gradient has come
  int8_t source[kMaxSaved];                // of what is saved: which input it is; kOutput; kOther
  uint32_t kept_type = 0, kept_bytes = 0;  // of what `keep` holds; its bytes where it is elsewhere
  union {
    uint64_t sequence = 0;  // the order of creation, in which no result comes before its inputs
    Node* next;             // the list of nodes to be freed
  };
  const NodeType* type = nullptr;
  std::unique_ptr<NodeExtra> extra;
  Edge edge[3];
  std::unique_ptr<Edge[]> more;  // all edges, where there are more than three
  Ref<TensorImpl> saved[kMaxSaved];
  uint32_t version[kMaxSaved] = {};
  static constexpr size_t kKept = 4 * sizeof(double);
  union {
    unsigned char kept_here[kKept];
    void* kept_there;
  };
  Tensor pending;  // the gradient so far, while a backward pass runs

  static constexpr int8_t kOutput = -1, kOther = -2;
  static void destroy(Node*);

  Edge& input(int i) { return more ? more[i] : edge[i]; }
  bool wants(int i) { return bool(input(i)); }
  NodeExtra& ensure_extra();
  /// Remembers a tensor, if it is defined, for the way back, and its version. `source`: the input's
  /// number, kOutput or kOther.
  Node& save(int slot, const Tensor&, int source);
  /// The same where input `wanted` has a gradient.
  Node& save_for(int wanted, int slot, const Tensor& x, int from) {
    return wants(wanted) ? save(slot, x, from) : *this;
  }
  /// The remembered tensor, or an undefined one. Throws when it was changed in place since. While
  /// gradients are themselves recorded it is connected to the graph again.
  Tensor get(int slot);

  /// Keeps what the way back needs beside tensors, one value of a plain type: dimensions, sizes,
  /// parameters. Small ones lie in the node. `kept` of another type than was kept is an error.
  template <class T> Node& keep(const T& value) {
    *keep_list<T>(1) = value;
    return *this;
  }
  template <class T> const T& kept() const { return *kept_list<T>(); }
  /// The same for n values, which the caller fills in.
  template <class T> T* keep_list(size_t n) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(double));
    kept_type = type_number<T>();
    return static_cast<T*>(n * sizeof(T) <= kKept ? kept_here : keep_there(n * sizeof(T)));
  }
  template <class T> const T* kept_list() const {
    if (kept_type != type_number<T>()) keeps_another();
    return static_cast<const T*>(sizeof(T) > kKept || kept_bytes ? kept_there : kept_here);
  }

 private:
  [[noreturn]] void keeps_another() const;
  void* keep_there(size_t bytes);
  /// FNV-1a (Fowler, Noll, Vo) of the type's name.
  template <class T> static constexpr uint32_t type_number() {
    uint32_t n = 2166136261u;
    for (const char* c = __PRETTY_FUNCTION__; *c; ++c) n = (n ^ uint8_t(*c)) * 16777619u;
    return n;
  }
};

/// Whether operations are recorded, on this thread.
inline bool grad_enabled() { return thread_state.grad_enabled; }
/// Returns what was before. Each thread has its own: a new one records.
inline bool set_grad_enabled(bool on) { return std::exchange(thread_state.grad_enabled, on); }
/// While it lives nothing is recorded on this thread (torch.no_grad): `mt::NoGrad no_grad;`
struct NoGrad : SaveAndRestore<bool> {
  explicit NoGrad(bool enabled = false) : SaveAndRestore(thread_state.grad_enabled, enabled) {}
};

/// Whether an operation on these inputs, which may be undefined, is to be recorded.
template <class... Inputs> bool wants_grad(const Inputs&... x) {
  return grad_enabled() && (... || (x.defined() && x.requires_grad()));
}

/// Makes `out` the result of a new node over `inputs`, which may be undefined; the caller saves into
/// it what the gradient needs.
Node& record(const NodeType& type, const Tensor& out, std::initializer_list<const Tensor*> inputs);
Node& record(const NodeType& type, const Tensor& out, const TensorList& inputs);

/// Leads the edge to what computed x, or to x where it is a leaf that requires a gradient.
void connect(Edge& edge, const Tensor& x);

/// A computed tensor that was kept without its past, as the result of its node again.
Tensor reattach(const Tensor& x, Ref<Node> node);

/// Walks the graph backwards from `root` and adds to `.grad` of its leaves: all of them, or none if
/// it fails. `gradient` has root's shape; without it root must hold one element. The graph is used up
/// unless `retain_graph`; with `create_graph` gradients can be differentiated. Throws Error where a
/// saved tensor was changed in place. Passes of several threads at the same time share neither graphs nor
/// leaves: `w.detach().requires_grad_()` is another leaf in the same memory.
void backward(const Tensor& root, const Tensor& gradient = {}, bool retain_graph = false,
              bool create_graph = false);

struct GradOptions {
  bool retain_graph = false, create_graph = false, allow_unused = false;
};
/// The gradients of the sum of `outputs` (each times its gradient, where one is given) by `inputs`,
/// leaves or not; no `.grad` changes. An input that took no part is an error, or undefined with
/// allow_unused.
TensorList grad(const TensorList& outputs, const TensorList& inputs,
                const TensorList& gradients = {}, const GradOptions& = {});

/// Tells the hooks of a computed tensor that it, or its node, gets one more owner.
void notify_shared(const Node&);
/// Calls the function with the gradient of x whenever that has been computed; what it returns, of the same
/// shape and dtype, takes its place unless undefined. `hook->call = nullptr` removes it. It must not hold x.
std::shared_ptr<Hook> register_hook(const Tensor& x, std::function<Tensor(const Tensor&)>);
/// Calls the function once in a backward pass, with the gradients of all these leaves.
void register_group_hook(const TensorList& leaves, std::function<void(TensorList&)>);

/// A running backward pass. The gradients of a function's results (function.h) wait here for the function's
/// turn, by its node.
struct Walk {
  std::unordered_map<const Node*, TensorList> function_grads;
};

// ---- debugging: mt.set_debug ----

/// ", recorded at" and the line, or nothing.
std::string recorded_at(const Node&);
/// On this thread: operations remember where they were recorded, and the first NaN that one makes is an Error.
void set_debug(bool);
/// Throws when x holds a NaN: "tanh produced NaN at [3, 1], ..".
void check_nan(const Tensor& x, const std::string& what, const std::string& where = "");
bool holds_nan(const Tensor& x);

}  // namespace mt
