// masks.cpp -- masks and sorted data: masked_select, nonzero, searchsorted and similar functions
#include <algorithm>

#include "engine/ops/index_checks.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

/// A mask broadcast to a shape, contiguous, with the number of set elements before each piece.
struct CountedMask {
  Tensor set, before;
  Mask mask;
  int64_t total;
  explicit CountedMask(const Tensor& wide) : set(contiguous(wide)) {
    const int64_t pieces = (set.numel() + kMaskPiece - 1) / kMaskPiece;
    before = empty({pieces + 1}, Dtype::i64, set.device());
    mask = {set.numel(), set.argument_as<bool>(), before.argument_as<int64_t>()};
    set.device().count_mask(mask);
    total = before.at_integer(pieces);
  }
};

/// The common shape of x and the mask; in place it must be x's.
Shape masked_shape(const char* name, const Tensor& x, const Tensor& mask, InPlace in_place) {
  if (mask.dtype() != Dtype::b8)
    fail("{}: the mask must be a bool tensor, this one is {}; use x:ne(0)", name, mask.dtype());
  check_together(name, x, mask);
  const Shape shape = broadcast(name, x.shape(), mask.shape());
  if (in_place && shape != x.shape())
    fail("{}: the mask {} does not fit into {}", name, mask.shape(), x.shape());
  return shape;
}

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  const Shape shape = masked_shape("masked_select", x, mask, false);
  const CountedMask c(expand(mask, shape));
  const Tensor wide = expand(x, shape);
  const Tensor dense = contiguous(wide.detach());
  Tensor out = empty({c.total}, x);
  x.device().compress({c.mask, x.dtype(), dense.data(), out.data(), false});
  if (wants_grad(wide)) {
    static const NodeType type{"masked_select", [](Node& node, const Tensor& g, Tensor* dx) {
                                 const Tensor mask = node.get(0);
                                 dx[0] = masked_scatter(zeros(mask.shape(), g), mask, g);
                               }};
    record(type, out, {&wide}).save(0, c.set, Node::kOther);
  }
  return out;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value, InPlace in_place) {
  const char* const name = in_place ? "masked_fill_" : "masked_fill";
  masked_shape(name, x, mask, in_place);
  const Tensor out = where(mask, filling(name, x, value), x);
  return in_place ? write_(name, x, out) : out;
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, InPlace in_place) {
  const char* const name = in_place ? "masked_scatter_" : "masked_scatter";
  const Shape shape = masked_shape(name, x, mask, in_place);
  check_source(name, x, source);
  const CountedMask c(expand(mask, shape));
  if (source.numel() < c.total)
    fail("{}: the mask sets {} elements, the source has {}", name, c.total, source.numel());
  const Tensor wide = expand(x, shape);
  const Tensor out = empty(shape, x), packed = contiguous(source.detach());
  copy_elements(out, wide);
  out.device().compress({c.mask, out.dtype(), out.data(), packed.data(), true});
  if (wants_grad(wide, source)) {
    static const NodeType type{"masked_scatter", [](Node& node, const Tensor& g, Tensor* dx) {
                                 const Tensor mask = node.get(0);
                                 const Shape& full = node.kept<Shape>();
                                 if (node.wants(0)) dx[0] = masked_fill(g, mask, 0.0);
                                 if (!node.wants(1)) return;
                                 Tensor part = masked_select(g, mask);
                                 const int64_t n = checked_count("masked_scatter", full);
                                 if (part.numel() < n) {  // the rest of the source was not used
                                   const Tensor rest = zeros({n - part.numel()}, g);
                                   part = cat({part, rest}, 0);
                                 }
                                 dx[1] = reshape(part, full);
                               }};
    record(type, out, {&wide, &source}).save(0, c.set, Node::kOther).keep(source.shape());
  }
  return in_place ? write_(name, x, out) : out;
}

/// One contiguous row per dimension of x.
static Tensor nonzero_rows(const Tensor& x, int64_t first) {
  const CountedMask c(x.dtype() == Dtype::b8 ? x : ne(x, 0.0));
  Tensor out = empty({x.dim(), c.total}, Dtype::i64, x.device());
  Nonzero z;
  z.mask = c.mask, z.ndim = x.dim(), z.first = first, z.out = out.argument_as<int64_t>();
  std::copy(x.impl()->size, x.impl()->size + x.dim(), z.size);
  if (c.total > 0) x.device().nonzero(z);
  return out;
}

Tensor nonzero(const Tensor& x, int64_t first) { return t(nonzero_rows(x, first)); }

TensorList nonzero_list(const Tensor& x, int64_t first) {
  return unbind(nonzero_rows(x.dim() ? x : reshape(x, {1}), first), 0);
}

Tensor searchsorted(const char* name, const Tensor& sorted, const Tensor& values, bool right,
                    int64_t first) {
  if (sorted.dim() == 0) fail("{}: the sorted sequence is 0-d; it needs a dimension", name);
  if (sorted.dtype() != values.dtype())
    fail("{}: the sequence is {}, the values {}; convert one with x:to('{}')", name, sorted.dtype(),
         values.dtype(), sorted.dtype());
  check_together(name, sorted, values);
  if (is_storage_only(sorted.dtype()))
    return searchsorted(name, to_compute_dtype(sorted), to_compute_dtype(values), right, first);
  const bool one = sorted.dim() == 1;
  const auto lead = [](const Tensor& x) { return x.shape().first(x.dim() - 1); };
  if (!one && (sorted.dim() != values.dim() || lead(sorted) != lead(values)))
    fail("{}: the sequences {} and the values {} may differ in the last dimension only", name,
         sorted.shape(), values.shape());
  NoGrad off;
  const Tensor s = contiguous(sorted), v = contiguous(values);
  Tensor out = empty(values.shape(), Dtype::i64, values.device());
  if (out.numel() == 0) return out;
  Search call;
  call.dtype = s.dtype(), call.sorted = s.data(), call.value = v.data();
  call.sorted_size = s.size(-1), call.sorted_row = one ? 0 : call.sorted_size;
  call.values = one ? v.numel() : v.size(-1), call.rows = v.numel() / call.values;
  call.out = out.argument_as<int64_t>(), call.first = first, call.right = right;
  out.device().search(call);
  return out;
}

Tensor isin(const Tensor& elements, const Tensor& test, bool invert) {
  NoGrad off;
  if (!elements.impl()->number && !test.impl()->number) check_together("isin", elements, test);
  const Device& device = elements.impl()->number ? test.device() : elements.device();
  const Dtype dtype =
      compute_dtype(elements.impl()->number ? test.dtype()
                    : test.impl()->number   ? elements.dtype()
                                            : promote(elements.dtype(), test.dtype()));
  const Tensor x = to(to(elements, dtype), device);
  const Tensor sorted = sort(reshape(to(to(test, dtype), device), {-1}), 0).values;
  const int64_t n = sum(eq(sorted, sorted)).at_integer(0);  // NaN sorts last and equals nothing
  if (n == 0) return full(elements.shape(), invert, Dtype::b8, device);
  const Tensor known = slice(sorted, 0, 0, n);
  const Tensor at = minimum(searchsorted("isin", known, x, false), double(n - 1));
  const Tensor found = take(known, at);
  return invert ? ne(found, x) : eq(found, x);
}

}  // namespace mt
