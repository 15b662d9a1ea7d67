// tensor.h -- a tensor: a view of storage, and its position in the graph of gradients
#pragma once
#include <memory>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/memory.h"
#include "engine/core/shape.h"
#include "engine/core/step_listener.h"

namespace mt {

struct Node;
struct Hook;
class Tensor;

/// The object that a Tensor points to. Sizes, strides and the offset count elements.
struct TensorImpl {
  std::atomic<int> refs{1};
  Dtype dtype = Dtype::f32;
  uint8_t ndim = 0;
  bool contiguous = true;        // row-major without gaps
  bool requires_grad = false;    // a leaf with requires_grad_(), or computed from one
  bool number = false;           // made from a plain number: adopts the other operand's dtype
  bool made_in_no_grad = false;  // a view created under no_grad
  bool aliases_graph =
      false;  // the same of a tensor in the graph: recorded writes to it are refused (inplace.cpp)
  bool suspected = false;  // its gradient may lead back to it: see cycles.h
  uint32_t recorded = 0;  // recorded changes in place; of a view: its base's when its node was made
  int64_t offset = 0;
  int64_t numel = 1;
  Storage* storage = nullptr;     // counted; null for a shape without data
  Node* node = nullptr;           // counted: the operation that computed it; null for a leaf
  TensorImpl* base = nullptr;     // counted: of a view the whole tensor, never a view; or null
  TensorImpl* grad = nullptr;     // counted
  TensorImpl* pending = nullptr;  // counted: the gradient of a running backward
  std::vector<std::shared_ptr<Hook>>* hooks = nullptr;  // owned: called with a leaf's gradient
  int64_t size[kMaxDims], stride[kMaxDims];

  static TensorImpl* create();
  static void destroy(TensorImpl*);
};

/// A handle; copies share the tensor, as in PyTorch, so that `const` protects only the handle.
/// Handles may be used by several threads, a tensor while it is not changed. The default one is
/// undefined: it means "no tensor" where that is allowed; elsewhere it is an Error.
class Tensor {
 public:
  Tensor() = default;
  /// 0-d; takes the dtype and device of the other operand: `x * 2`.
  Tensor(double number);  // NOLINT: formulas write T(0.5)
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  /// Whether there is a tensor; for `grad()`, whether there is a gradient.
  bool defined() const { return bool(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  /// The same; throws an Error if this is undefined.
  TensorImpl* given() const {
    if (!impl_) [[unlikely]]
      undefined();
    return impl_.get();
  }
  TensorImpl* release() { return impl_.release(); }
  bool unique() const { return impl_.unique(); }
  void reset() { impl_.reset(); }

  /// The number of dimensions; 0 for a scalar.
  int dim() const { return given()->ndim; }
  /// The size of dimension d, from -dim() (-1 is the last) to dim() - 1, which is not checked.
  int64_t size(int d) const {
    const TensorImpl& t = *given();
    return t.size[d < 0 ? d + t.ndim : d];
  }
  /// The distance in memory, in elements, between neighbours along d.
  int64_t stride(int d) const {
    const TensorImpl& t = *given();
    return t.stride[d < 0 ? d + t.ndim : d];
  }
  Shape shape() const {
    const TensorImpl& t = *given();
    return Shape(t.size, t.ndim);
  }
  Shape strides() const {
    const TensorImpl& t = *given();
    return Shape(t.stride, t.ndim);
  }
  /// The number of elements.
  int64_t numel() const { return given()->numel; }
  /// The offset of the first element in its storage, in elements.
  int64_t offset() const { return given()->offset; }
  Dtype dtype() const { return given()->dtype; }
  const Device& device() const { return *given()->storage->device; }
  /// Whether the elements are in row-major order without gaps.
  bool is_contiguous() const { return given()->contiguous; }
  /// The first element, in the memory of device(); element (i, j) is stride(0) i + stride(1) j further. 64-byte
  /// aligned if the offset is 0. Valid while a handle exists. Gradients do not take writes to it into account.
  void* data() const {
    const TensorImpl& t = *given();
    return static_cast<char*>(t.storage->data) + t.offset * item_size(t.dtype);
  }
  /// The same as T, the C++ type of dtype(): float for f32. Throws if it is that of another dtype; bytes are not
  /// checked. A compiled step that calls it runs eagerly, since a replay could not repeat changes that are not made
  /// by a device's verbs.
  template <class T> T* data_as() const {
    mark_untraceable();
    constexpr Dtype wanted = dtype_of<T>;
    if (wanted != Dtype::none && wanted != Dtype::u8 && wanted != dtype()) fail_dtype(wanted);
    return argument_as<T>();
  }
  /// The same for the argument of a verb, if only the verb accesses the elements.
  template <class T> T* argument_as() const { return static_cast<T*>(data()); }

  bool requires_grad() const {
    sync_with_base();
    return impl_->requires_grad;
  }
  /// Whether no recorded operation computed it: parameters are leaves.
  bool is_leaf() const {
    sync_with_base();
    return !impl_->node;
  }
  /// Regenerates a view's node if its base's history changed since that was made.
  void sync_with_base() const {
    if (given()->base && impl_->recorded != impl_->base->recorded) regenerate_node();
  }
  /// Enables gradients; only leaves of float type can require them.
  const Tensor& requires_grad_(bool wanted = true) const;
  /// The gradient that backward passes have accumulated, of this shape and dtype; undefined before the first.
  Tensor grad() const;
  /// Replaces it; an undefined tensor drops it, as an optimizer's zero_grad() does.
  void set_grad(const Tensor&) const;
  /// Keeps the gradient of a computed tensor in `grad()`, as for leaves.
  void retain_grad() const;
  /// Adds to `grad()` of the leaves from which this was computed: see mt::backward. `gradient` has this
  /// shape; if it is undefined the tensor must have one element. The graph is freed unless `retain_graph`.
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const;

  /// The same data, outside the graph.
  Tensor detach() const;
  /// The number in a tensor of one element; throws an Error for others. Waits for a GPU.
  double item() const;
  /// The element at a 0-based position, counted in row-major order; throws an Error for others.
  double at(int64_t i) const;
  /// The same for integer dtypes, exact beyond 2^53.
  int64_t at_integer(int64_t i) const;

  Tensor sum() const;  // the most common ends of a chain; all other operations are in ops.h
  Tensor t() const;

 private:
  [[noreturn, gnu::cold]] static void undefined();
  void regenerate_node() const;  // inplace.cpp
  [[noreturn]] void fail_dtype(Dtype wanted) const;
  Ref<TensorImpl> impl_;
};
using TensorList = std::vector<Tensor>;

/// An uninitialised contiguous tensor.
Tensor empty(const Shape&, Dtype, const Device& = cpu_device());
/// With the dtype and device of another tensor.
inline Tensor empty(const Shape& shape, const Tensor& like) {
  return empty(shape, like.dtype(), like.device());
}
/// A view: the same storage with other sizes and strides. It has no node; while gradients are
/// recorded it has a base, whose recorded changes it follows.
Tensor view_of(const Tensor&, const Shape& size, const Shape& stride, int64_t offset);
/// A tensor of this shape without data, for gradients that need only that.
Tensor shape_of(const Tensor&);
/// A 0-d tensor.
Tensor scalar(double value, Dtype, const Device& = cpu_device());
/// Replaces the data of x by that of y, in place: storage, shape and dtype. x keeps its gradient
/// and its identity.
void replace_data(const Tensor& x, const Tensor& y);
/// Stores the line at which a storage was changed, while debugging.
void note_change(const Storage*);
/// Counts a change in place.
inline void bump(const Tensor& t) {
  ++t.impl()->storage->version;
  if (thread_state.debugging) [[unlikely]]
    note_change(t.impl()->storage);
}

}  // namespace mt
