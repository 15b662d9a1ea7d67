// inplace.cpp -- changes in place, and how they are recorded in the autograd graph
//
// A view has a base, the whole tensor that it was taken from. A recorded write into a view makes a
// new node of the *base*, over the base's old node and the value: the gradient of the region goes
// to the value, the rest to the old node. The base counts such writes; a view whose count is behind
// (the target of the write, and any other view of the same base) gets a new node when it is next
// used: "the elements of the base at these sizes, strides and offset". So all views of a base have
// its latest history, in whatever order they were taken, and no node owns a tensor.

#include "engine/autograd/function.h"
#include "engine/autograd/view_gradients.h"
#include "engine/ops/index_checks.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

const NodeType kCopy{"copy_", [](Node& node, const Tensor& g, Tensor* dx) {
                       if (node.wants(0)) dx[0] = g;
                     }};

// ---- the region of a view in its base -----------------------------------------------------------

/// A write into a view: the base, and the view relative to the start of the base.
struct ViewWrite {
  TensorGeometry base, view;
  bool contiguous;  // the base
};

Tensor place_in(const Tensor& whole, const TensorGeometry& place) {
  return view_of(whole, place.size, place.stride, place.offset);
}

/// Memory for all elements of a base, viewed with the base's sizes and strides.
Tensor laid_out_as(const TensorGeometry& base, Dtype dtype, const Device& device, double filled) {
  int64_t extent = checked_count("copy_", base.size) > 0;
  for (int d = 0; d < base.size.size() && extent; ++d)
    extent += (base.size[d] - 1) * base.stride[d];
  return view_of(full({extent}, filled, dtype, device), base.size, base.stride, 0);
}

const NodeType kView = view_type("view");

/// The gradient of a write into a view of the base: the region goes to the value, the rest to the
/// old base.
void write_backward(Node& node, const Tensor& g, Tensor* dx) {
  const auto& [base, place, contiguous] = node.kept<ViewWrite>();
  if (grad_enabled()) {
    if (node.wants(0)) {
      const Tensor kept = laid_out_as(base, Dtype::b8, g.device(), 1);
      fill_(place_in(kept, place), 0);
      dx[0] = where(kept, g, 0.0);
    }
    if (!node.wants(1)) return;
    const Tensor numbers = laid_out_as(base, Dtype::i64, g.device(), 0);  // row-major indices
    copy_(numbers, reshape(arange(g.numel(), g.device()), g.shape()));
    const Tensor at = reshape(clone(place_in(numbers, place)), {-1});
    dx[1] = reshape(gather(reshape(g, {-1}), 0, at), place.size);
    return;
  }
  // Many writes into one tensor reuse the same memory if it has no other owner.
  const bool can_reuse = contiguous && g.is_contiguous() && g.offset() == 0 && g.unique() &&
                         g.impl()->storage->refs == 1;
  const Tensor whole = can_reuse ? g : laid_out_as(base, g.dtype(), g.device(), 0);
  if (!can_reuse) copy_elements(whole, g);
  const Tensor part = place_in(whole, place);
  if (node.wants(1)) dx[1] = clone(part);
  if (!node.wants(0)) return;
  fill_(part, 0);
  dx[0] = mt::contiguous(whole);
}
const NodeType kWrite{"copy_ into a view", write_backward};

}  // namespace

// ---- history ------------------------------------------------------------------------------------

/// Moves a tensor's history into a separate tensor, so that a new node can follow it.
Tensor history(const Tensor& x) {
  Tensor old = x.detach();
  old.impl()->requires_grad = x.requires_grad();
  old.impl()->node = std::exchange(x.impl()->node, nullptr);
  x.impl()->requires_grad = false;
  ++x.impl()->recorded;
  return old;
}

static bool retains(const Tensor& x) {
  const Node* node = x.impl()->node;
  return node && node->extra && node->extra->retained;
}

/// After retain_grad on the old tensor, the new node retains the gradient: `.grad` is that of the
/// latest values. As in PyTorch, hooks stay with the values for which they were registered.
void keep_retaining(const Tensor& old, const Tensor& x) {
  if (retains(old) && x.impl()->node)
    x.impl()->node->ensure_extra().retained = std::move(old.impl()->node->extra->retained);
}

/// Rejects a recorded write into a view that was made under no_grad.
[[noreturn]] static void fail_unrecorded_view(const char* operation) {
  fail(
      "{}: this view was made without recording, and is changed while gradients are recorded; "
      "move both inside mt.no_grad, or both outside",
      operation);
}

/// The checks of a recorded write, before anything is changed.
void check_recordable(const char* operation, const Tensor& target) {
  const TensorImpl &t = *target.impl(), &whole = t.base ? *t.base : t;
  if (t.made_in_no_grad || whole.made_in_no_grad) fail_unrecorded_view(operation);
  if (t.base && may_overlap_itself(geometry_of(Tensor(Ref<TensorImpl>::share(t.base)))))
    fail("{}: this is a view of an expanded tensor; clone() that tensor first", operation);
}

void Tensor::regenerate_node() const {
  const Tensor base(Ref<TensorImpl>::share(impl_->base));
  if (base.impl()->storage != impl_->storage) {  // its data was replaced, so this is not its view
    Ref<TensorImpl>::adopt(std::exchange(impl_->base, nullptr));
    return;
  }
  impl_->recorded = base.impl()->recorded;
  impl_->requires_grad = false;
  Tensor old;
  if (retains(*this)) old = reattach(*this, Ref<Node>::share(impl_->node));
  if (impl_->node) Ref<Node>::adopt(std::exchange(impl_->node, nullptr));
  if (!base.requires_grad()) return;
  record_strided(kView, *this, base);
  if (old.defined()) keep_retaining(old, *this);
}

void check_writable(const char* operation, const Tensor& target) {
  check_alive(target.device());
  if (grad_enabled()) {
    if (target.requires_grad() && target.is_leaf())
      fail(
          "{}: this leaf requires a gradient, a change in place would lose it; use "
          "mt.no_grad(function) around it",
          operation);
    const TensorImpl* base = target.impl()->base;
    if (target.impl()->aliases_graph || (base && base->aliases_graph))
      fail_unrecorded_view(operation);
    if (base && base->requires_grad && !base->node)
      fail(
          "{}: this is a view of a leaf that requires a gradient, a change in place would lose it; "
          "use mt.no_grad(function) around it",
          operation);
  }
  for (int d = 0; d < target.dim() && target.numel() > 0; ++d)
    if (target.stride(d) == 0 && target.size(d) > 1)
      fail(
          "{}: the tensor is expanded in dimension {}: its {} elements share memory; clone() it "
          "first",
          operation, d + 1, target.size(d));
  if (!target.is_contiguous() && has_internal_overlap(geometry_of(target)))
    fail("{}: elements of this view share memory (its windows overlap); clone() it first",
         operation);
}

const Tensor& write_(const char* operation, const Tensor& target, const Tensor& given) {
  check_writable(operation, target);
  // A number on the CPU is passed by value, anything else is moved to the device first.
  const bool stays = &given.device() == &target.device() ||
                     (given.dim() == 0 && is_cpu(given.device()) && !wants_grad(given));
  const Tensor source = stays ? given : to(given, target.device());
  if (source.dim() > target.dim() ||
      broadcast(operation, target.shape(), source.shape()) != target.shape())
    fail("{}: the source {} does not fit into {}", operation, source.shape(), target.shape());
  Tensor value = expand(source, target.shape());
  if (value.impl() == target.impl()) return target;  // a copy onto itself
  TensorImpl* base = target.impl()->base;
  const bool wants =
      grad_enabled() && is_float(target.dtype()) &&
      (value.requires_grad() || target.requires_grad() || (base && base->requires_grad));
  if (wants) check_recordable(operation, target);
  if (value.impl()->storage == target.impl()->storage) value = clone(value);
  copy_elements(target, value);
  bump(target);
  if (!wants) return target;
  if (value.requires_grad()) value = to(value, target.dtype());
  if (base) {
    const Tensor whole(Ref<TensorImpl>::share(base));
    const Tensor old = history(whole);
    TensorGeometry in_base = geometry_of(target);
    in_base.offset -= whole.offset();
    record(kWrite, whole, {&old, &value})
        .keep(ViewWrite{geometry_of(whole), in_base, whole.is_contiguous()});
    keep_retaining(old, whole);
    if (retains(target)) target.sync_with_base();
  } else {
    const Tensor old = history(target);
    record(kCopy, target, {&value});
    keep_retaining(old, target);
  }
  return target;
}

void keep_saved(const Tensor& result, const Tensor& target) {
  Node* node = result.impl()->node;
  if (!node) return;
  for (int slot = 0; slot < kMaxSaved; ++slot) {
    const TensorImpl* held = node->saved[slot].get();
    if (!held || !held->storage || held->storage != target.impl()->storage) continue;
    const Tensor copy = clone(Tensor(node->saved[slot]));
    node->saved[slot] = Ref<TensorImpl>::share(copy.impl());
    node->version[slot] = copy.impl()->storage->version;
    checkpoint_keep(*node, slot, copy);
  }
}

const Tensor& copy_(const Tensor& target, const Tensor& source) {
  return write_("copy_", target, source);
}

const Tensor& fill_(const Tensor& target, double value) {
  check_value("fill_", value, target.dtype());
  return write_("fill_", target, scalar(value, target.dtype()));
}

const Tensor& fill_(const Tensor& target, const Tensor& value) {
  return write_("fill_", target, filling("fill_", target, value));
}

void assign(const Tensor& x, const Tensor& region, const Tensor& source) {
  check_writable("assignment", x);
  if (region.impl() != x.impl()) {  // also if it was made without recording
    TensorImpl &r = *region.impl(), &base = x.impl()->base ? *x.impl()->base : *x.impl();
    if (!r.base) {
      r.base = Ref<TensorImpl>::share(&base).release();
      r.recorded = base.recorded;
    }
    r.made_in_no_grad = x.impl()->made_in_no_grad, r.aliases_graph = x.impl()->aliases_graph;
  }
  write_("assignment", region, source);
}

}  // namespace mt
