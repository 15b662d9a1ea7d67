// create.cpp -- making tensors, copying and converting them
#include <cmath>
#include <cstring>

#include "engine/autograd.h"
#include "engine/ops.h"

namespace mt {

void copy_elements(const Tensor& out, const Tensor& in) {
  Copy c;
  c.to = out.dtype(), c.from = in.dtype();
  c.ndim = out.dim();
  const size_t bytes = sizeof(int64_t) * size_t(c.ndim);
  std::memcpy(c.size, out.impl()->size, bytes);
  std::memcpy(c.out_stride, out.impl()->stride, bytes);
  std::memcpy(c.in_stride, in.impl()->stride, bytes);
  c.out = out.data(), c.in = in.data();
  out.device().copy(c);
}

namespace {

const NodeType kCopy{"clone", [](Node&, const Tensor& g, Tensor* dx) { dx[0] = g; }};
const NodeType kConvert{
    "to", [](Node& node, const Tensor& g, Tensor* dx) { dx[0] = to(g, node.saved[0]->dtype); }};

/// Takes a tensor's history away, as a tensor of its own, so that a new node can follow it.
Tensor history(const Tensor& x) {
  Tensor old = x.detach();
  old.impl()->requires_grad = x.requires_grad();
  old.impl()->node = std::exchange(x.impl()->node, nullptr);
  return old;
}

}  // namespace

Tensor full(const Shape& shape, double value, Dtype dtype, const Device& device) {
  check_value("full", value, dtype);
  Tensor out = empty(shape, dtype, device);
  NoGrad off;
  return fill_(out, value);
}
Tensor zeros(const Shape& shape, Dtype dtype, const Device& device) {
  return full(shape, 0, dtype, device);
}
Tensor ones(const Shape& shape, Dtype dtype, const Device& device) {
  return full(shape, 1, dtype, device);
}
Tensor zeros_like(const Tensor& x) { return full(x.shape(), 0, x.dtype(), x.device()); }

Tensor eye(int64_t rows, int64_t columns, Dtype dtype, const Device& device) {
  Tensor out = zeros({rows, columns}, dtype, device);
  const int64_t n = std::min(rows, columns);
  if (n > 0) fill_(view_of(out, {n}, {columns + 1}, 0), 1);
  return out;
}

Tensor range(double first, double last, double step, Dtype dtype, const Device& device) {
  if (step == 0 || std::isnan(step)) fail("range: the step is {}", step);
  if (!std::isfinite(first) || !std::isfinite(last) || !std::isfinite(step))
    fail("range: {} to {} by {} does not end", show(first), show(last), show(step));
  const double count = std::floor((last - first) / step * (1 + 1e-12) + 1e-12) + 1;
  if (!(count < 1e13)) fail("range: {} to {} by {} does not end", first, last, step);
  const int64_t n = count > 0 ? int64_t(count) : 0;
  if (n > 0)
    check_value("range", first, dtype), check_value("range", first + double(n - 1) * step, dtype);
  if (!is_float(dtype) && step != std::floor(step))
    fail("range: the step {} does not fit into {}", step, dtype_name(dtype));
  Tensor out = empty({n}, dtype);
  with_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < n; ++i) out.data_as<T>()[i] = static_cast<T>(first + double(i) * step);
  });
  return to(out, device);
}

Tensor linspace(double first, double last, int64_t n, Dtype dtype, const Device& device) {
  if (!is_float(dtype)) fail("linspace: {} cannot hold fractions; use range", dtype_name(dtype));
  Tensor out = empty({n}, dtype);
  with_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < n; ++i) {
      const double at = n > 1 ? double(i) / double(n - 1) : 0;  // exact at both ends
      out.data_as<T>()[i] = static_cast<T>(first * (1 - at) + last * at);
    }
  });
  return to(out, device);
}

Tensor clone(const Tensor& x) {
  Tensor out = empty(x.shape(), x.dtype(), x.device());
  copy_elements(out, x);
  if (wants_grad(x)) record(kCopy, out, {&x});
  return out;
}

Tensor contiguous(const Tensor& x) { return x.is_contiguous() ? x : clone(x); }

Tensor to(const Tensor& x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  Tensor out = empty(x.shape(), dtype, x.device());
  copy_elements(out, x);
  if (is_float(dtype) && wants_grad(x)) record(kConvert, out, {&x}).save_shape(0, x);
  return out;
}

Tensor to(const Tensor& x, const Device& device) {
  if (&x.device() == &device) return x;
  fail("to: no copies between {} and {} yet", x.device().name, device.name);
}

void check_writable(const char* operation, const Tensor& target) {
  if (grad_enabled() && target.requires_grad() && target.is_leaf())
    fail(
        "{}: this leaf requires a gradient, a change in place would lose it; use "
        "mt.no_grad(function) around it",
        operation);
  for (int d = 0; d < target.dim(); ++d)
    if (target.stride(d) == 0 && target.size(d) > 1)
      fail(
          "{}: the tensor is expanded in dimension {}: its {} elements share one place; clone() it "
          "first",
          operation, d + 1, target.size(d));
}

const Tensor& copy_(const Tensor& target, const Tensor& source) {
  return write_("copy_", target, source);
}

const Tensor& write_(const char* operation, const Tensor& target, const Tensor& source) {
  check_writable(operation, target);
  if (source.dim() > target.dim() ||
      !(broadcast(operation, target.shape(), source.shape()) == target.shape()))
    fail("{}: the source {} does not fit into {}", operation, to_string(source.shape()),
         to_string(target.shape()));
  Tensor value = expand(source, target.shape());
  const bool wants = grad_enabled() && is_float(target.dtype()) &&
                     (value.requires_grad() || target.requires_grad());
  if (wants && !target.impl()->base)
    fail(
        "{}: this is a view of another tensor, and gradients are recorded; clone() it or change "
        "the whole tensor",
        operation);
  if (value.impl()->storage == target.impl()->storage && value.impl() != target.impl())
    value = clone(value);
  copy_elements(target, value);
  bump(target);
  if (wants) {
    ++target.impl()->storage->recorded;
    history(target);
    if (value.requires_grad()) {
      value = to(value, target.dtype());
      record(kCopy, target, {&value});
    } else {
      target.impl()->requires_grad = false;
    }
  }
  return target;
}

const Tensor& fill_(const Tensor& target, double value) {
  check_value("fill_", value, target.dtype());
  return write_("fill_", target, scalar(value, target.dtype(), target.device()));
}

/// The gradient of an assignment as recorded operations: by the positions that the region takes in
/// the whole.
void assign_backward_recorded(Node& node, const Tensor& g, Tensor* dx) {
  const TensorImpl& r = *node.saved[0];
  Tensor positions, mask;
  {
    NoGrad off;
    const Tensor all = range(0, double(g.numel()) - 1, 1, Dtype::i64, g.device());
    const Shape size(r.size, r.ndim);
    positions = reshape(view_of(all, size, Shape(r.stride, r.ndim), r.offset), {-1});
    mask = ones(g.shape(), g.dtype(), g.device());
    fill_(view_of(mask, size, Shape(r.stride, r.ndim), r.offset), 0);
  }
  if (node.wants(0)) dx[0] = g * mask;
  if (node.wants(1))
    dx[1] = sum_to(reshape(gather(reshape(g, {-1}), 0, positions), Shape(r.size, r.ndim)),
                   node.shape(1));
}

void assign(const Tensor& x, const Tensor& region, const Tensor& source) {
  check_writable("assignment", x);
  const Tensor value = source.impl()->storage == x.impl()->storage ? clone(source) : source;
  const bool wants =
      grad_enabled() && is_float(x.dtype()) && (value.requires_grad() || x.requires_grad());
  if (value.dim() > region.dim() ||
      !(broadcast("assignment", region.shape(), value.shape()) == region.shape()))
    fail("assignment: the value {} does not fit into {}", to_string(value.shape()),
         to_string(region.shape()));
  if (wants && (!x.impl()->base || !x.is_contiguous()))
    fail(
        "assignment: this is a view of another tensor, and gradients are recorded; clone() it "
        "first");
  {
    NoGrad off;
    copy_(region, value);
  }
  if (!wants) return;
  static const NodeType type{
      "assignment", [](Node& node, const Tensor& g, Tensor* dx) {
        const TensorImpl& r =
            *node.saved[0];  // a shape whose strides and offset say where the region lies
        if (grad_enabled()) return assign_backward_recorded(node, g, dx);
        const Tensor whole = clone(g);
        const Tensor part =
            view_of(whole, Shape(r.size, r.ndim), Shape(r.stride, r.ndim), r.offset);
        if (node.wants(1)) dx[1] = sum_to(clone(part), node.shape(1));
        if (node.wants(0)) {
          NoGrad off;
          fill_(part, 0);
          dx[0] = whole;
        }
      }};
  ++x.impl()->storage->recorded;
  const Tensor old = history(x);
  Node& node = record(type, x, {&old, &value});
  node.save_shape(0, region);
  TensorImpl& where = *node.saved[0];
  std::memcpy(where.stride, region.impl()->stride, sizeof where.stride);
  where.offset = region.offset() - x.offset();
  node.save_shape(1, value);
}

}  // namespace mt
