// tensor.cpp -- a tensor: a view of storage, and its position in the graph of gradients
#include "engine/core/tensor.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "engine/autograd/cycles.h"
#include "engine/core/device.h"
#include "engine/core/step_listener.h"
#include "engine/ops/ops.h"
#include "kernels/view.h"

namespace mt {
static Tensor make(const Shape& size, Dtype dtype) {
  TensorImpl* t = TensorImpl::create();
  t->dtype = dtype;
  t->ndim = uint8_t(size.size());
  int64_t n = 1;
  bool empty = false;
  for (int d = size.size() - 1; d >= 0; --d) {
    t->size[d] = size[d];
    t->stride[d] = n;
    n *= size[d] > 0 ? size[d] : 1;
    empty |= size[d] == 0;
  }
  t->numel = empty ? 0 : n;
  return Tensor(Ref<TensorImpl>::adopt(t));
}

static bool row_major(const TensorImpl& t) {
  int64_t expected = 1;
  for (int d = t.ndim - 1; d >= 0; --d) {
    if (t.size[d] != 1 && t.stride[d] != expected) return t.numel == 0;
    expected *= t.size[d];
  }
  return true;
}

TensorImpl* TensorImpl::create() { return new (pool_alloc(sizeof(TensorImpl))) TensorImpl; }

void TensorImpl::destroy(TensorImpl* t) {
  while (t) {  // a gradient may have a gradient, and so on: a loop, no recursion
    if (t->suspected) [[unlikely]]
      unsuspect(t);
    Ref<Storage>::adopt(t->storage);
    Ref<TensorImpl>::adopt(t->pending);
    Ref<TensorImpl>::adopt(t->base);
    if (t->node) Ref<Node>::adopt(t->node);
    delete t->hooks;
    TensorImpl* grad = t->grad;
    pool_free(t, sizeof(TensorImpl));
    t = grad && grad->refs.fetch_sub(1, std::memory_order_acq_rel) == 1 ? grad : nullptr;
  }
}

Tensor::Tensor(double number) {
  const bool whole = number == std::floor(number) && number >= -0x1p63 && number < 0x1p63 &&
                     !(number == 0 && std::signbit(number));
  *this = scalar(number, whole ? Dtype::i64 : Dtype::f64);
  impl_->number = true;
}

Tensor empty(const Shape& size, Dtype dtype, const Device& device) {
  const int64_t n = checked_count("empty", size);
  Tensor t = make(size, dtype);
  t.impl()->storage = allocate(device, n * item_size(dtype)).release();
  return t;
}

/// The same storage with other sizes and strides, as a tensor without a graph.
static Tensor alias_of(const Tensor& x, const Shape& size, const Shape& stride, int64_t offset) {
  Tensor t = make(size, x.dtype());
  TensorImpl& v = *t.impl();
  for (int d = 0; d < stride.size(); ++d) v.stride[d] = stride[d];
  v.offset = offset;
  v.contiguous = row_major(v);
  v.storage = Ref<Storage>::share(x.impl()->storage).release();
  return t;
}

Tensor view_of(const Tensor& x, const Shape& size, const Shape& stride, int64_t offset) {
  Tensor t = alias_of(x, size, stride, offset);
  TensorImpl& v = *t.impl();
  if (grad_enabled()) {
    TensorImpl* base = x.impl()->base ? x.impl()->base : x.impl();
    v.recorded = base->recorded;
    v.base = Ref<TensorImpl>::share(base).release();
  } else {
    v.made_in_no_grad = true;
    v.aliases_graph = x.impl()->aliases_graph || x.requires_grad();
  }
  return t;
}

Tensor shape_of(const Tensor& x) { return make(x.shape(), x.dtype()); }

void mark_constant(const Tensor& x) {
  if (step_recorder) [[unlikely]]
    step_recorder->on_constant(x.impl()->storage);
}

Tensor scalar(double value, Dtype dtype, const Device& device) {
  Tensor t = empty({}, dtype, cpu_device());
  with_dtype(dtype, [&](auto zero) {
    *t.argument_as<decltype(zero)>() = math::convert<decltype(zero)>(value);
  });
  mark_constant(t);
  if (is_cpu(device)) return t;
  const Tensor out = empty({}, dtype, device);
  copy_elements(out, t);  // the number is passed by value
  return out;
}

const Tensor& Tensor::requires_grad_(bool wanted) const {
  if (wanted && !is_float(dtype()))
    fail("requires_grad_: only float tensors have gradients, this one is {}", dtype());
  if (!is_leaf() && wanted != requires_grad())
    fail("requires_grad_: this tensor was computed from others; use x:detach() to leave the graph");
  if (step_recorder && wanted != impl_->requires_grad) [[unlikely]]
    step_recorder->on_requires_grad_change(*this);
  impl_->requires_grad = wanted;
  // A leaf drops its base: base -> node -> this leaf -> base would be a reference cycle.
  if (wanted && !impl_->node) Ref<TensorImpl>::adopt(std::exchange(impl_->base, nullptr));
  return *this;
}

/// The tensor that holds x's gradient: x itself, or the leaf of its node for retain_grad.
static TensorImpl& grad_holder(const TensorImpl& x) {
  Node* node = x.node;
  return node && node->extra && node->extra->retained ? *node->extra->retained
                                                      : const_cast<TensorImpl&>(x);
}

Tensor Tensor::grad() const { return Tensor(Ref<TensorImpl>::share(grad_holder(*given()).grad)); }

void Tensor::set_grad(const Tensor& g) const {
  TensorImpl& k = grad_holder(*given());
  Ref<TensorImpl>::adopt(std::exchange(k.grad, nullptr));
  if (!g.defined()) return;
  k.grad = Ref<TensorImpl>::share(g.impl()).release();
  if (k.grad->node || k.grad->grad || k.grad->base) suspect(&k);
  notify_shared(*k.grad);
}

void Tensor::retain_grad() const {
  if (!requires_grad()) fail("retain_grad: this tensor does not require a gradient");
  if (is_leaf() || impl_->node->ensure_extra().retained) return;
  Tensor leaf = shape_of(*this);
  leaf.impl()->requires_grad = true;
  impl_->node->ensure_extra().retained = Ref<TensorImpl>::adopt(leaf.release());
}

Tensor Tensor::detach() const { return alias_of(*this, shape(), strides(), offset()); }

/// Element i, counted in row-major order, as a T.
template <class T> static T element(const Tensor& x, int64_t i) {
  check_interrupt();  // no decisions from incomplete results
  if (i < 0 || x.numel() <= i)
    fail("at: position {} is outside 0..{}, the tensor is {}", i, x.numel() - 1, x.shape());
  const int64_t offset = offset_of(i, x.dim(), x.impl()->size, x.impl()->stride);
  return with_dtype(x.dtype(), [&]<class E>(E) {
    if (is_cpu(x.device()))
      return T((x.impl()->number ? x.argument_as<E>() : x.data_as<E>())[offset]);
    E value;
    check_may_wait(x.device());
    x.device().download(&value, x.data_as<E>() + offset, sizeof value);
    check_device(x.device());
    return T(value);
  });
}

double Tensor::at(int64_t i) const { return element<double>(*this, i); }
int64_t Tensor::at_integer(int64_t i) const { return element<int64_t>(*this, i); }

void replace_data(const Tensor& x, const Tensor& y) {
  TensorImpl &a = *x.impl(), &b = *y.impl();
  if (!x.is_leaf())
    fail("set_data: this tensor was computed from others; only leaves can be replaced");
  if (x.shape() != y.shape())
    fail("set_data: the tensor is {}, the new data {}", x.shape(), y.shape());
  x.set_grad({});
  Ref<TensorImpl>::adopt(std::exchange(a.base, nullptr));
  ++a.recorded;  // its views stay with the old data: see regenerate_node
  Ref<Storage> old = Ref<Storage>::adopt(a.storage);
  a.storage = Ref<Storage>::share(b.storage).release();
  a.dtype = b.dtype, a.ndim = b.ndim, a.contiguous = b.contiguous, a.offset = b.offset,
  a.numel = b.numel;
  for (int d = 0; d < b.ndim; ++d) a.size[d] = b.size[d], a.stride[d] = b.stride[d];
}

void Tensor::undefined() {
  fail(
      "an undefined tensor: made without a value, moved from, or a gradient before backward(); ask "
      "x.defined()");
}

void Tensor::fail_dtype(Dtype wanted) const {
  fail("data_as: the tensor is {}, the elements are asked for as {}", dtype(), wanted);
}

double Tensor::item() const {
  if (numel() != 1)
    fail("item: a tensor of one element is needed, this one is {}; use x:tolist() or an index",
         shape());
  return at(0);
}

Tensor Tensor::sum() const { return mt::sum(*this); }
Tensor Tensor::t() const { return mt::t(*this); }

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  mt::backward(*this, gradient, retain_graph, create_graph);
}

}  // namespace mt
