// views.cpp -- tensors with other sizes and strides on the same storage: views, whose gradients are
// views of the gradient
#include <algorithm>

#include "engine/autograd/view_gradients.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

/// Strides that view x in another shape without a copy; returns false if there are none.
bool strides_for(const Tensor& x, const Shape& wanted, Shape& stride) {
  stride = wanted;
  if (x.numel() == 0) {
    stride = contiguous_strides(wanted);
    return true;
  }
  // Walks both shapes from the right, in groups of dimensions with the same number of elements.
  int d = x.dim() - 1, w = wanted.size() - 1;
  while (w >= 0) {
    while (d >= 0 && x.size(d) == 1) --d;
    if (wanted[w] == 1) {
      stride[w--] = 1;
      continue;
    }
    if (d < 0) return false;
    int64_t step = x.stride(d), have = x.size(d), need = 1;
    for (; d > 0 && (x.size(d - 1) == 1 || x.stride(d - 1) == step * have); --d)
      have *= x.size(d - 1);
    for (; w >= 0 && need < have; --w) {
      stride[w] = step * need;
      need *= wanted[w];
    }
    if (need != have) return false;
    --d;
  }
  return true;
}

const NodeType kReshape{
    "view", [](Node& node, const Tensor& g, Tensor* dx) { dx[0] = reshape(g, node.kept<Shape>()); },
    -1, [](Node& node, const Shape&, TensorGeometry&, Shape& input) {  // row-major order is kept
      input = node.kept<Shape>();
      return true;
    }};

Tensor view_as(const Tensor& x, const Shape& size, const Shape& stride) {
  Tensor out = view_of(x, size, stride, x.offset());
  if (wants_grad(x)) record(kReshape, out, {&x}).keep(x.shape());
  return out;
}

/// The node keeps the permutation from the result's dimensions to the input's.
bool through_permute(Node& node, const Shape& seen, TensorGeometry& r, Shape& input) {
  const Shape& back = node.kept<Shape>();
  input = back;
  for (int d = 0; d < back.size(); ++d) input[d] = seen[int(back[d])];
  TensorGeometry whole = all_of(input), permuted = whole;
  for (int d = 0; d < back.size(); ++d) permuted.stride[int(back[d])] = whole.stride[d];
  return remap(TensorGeometry(r), seen, contiguous_strides(seen), permuted, r);
}

}  // namespace

Tensor view(const Tensor& x, const Shape& shape) {
  const Shape size = infer("view", x.numel(), shape, x.shape());
  Shape stride;
  if (!strides_for(x, size, stride))
    fail("view: {} with strides {} cannot be viewed as {} without a copy; use reshape", x.shape(),
         x.strides(), size);
  return view_as(x, size, stride);
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  const Shape size = infer("reshape", x.numel(), shape, x.shape());
  Shape stride;
  if (strides_for(x, size, stride)) return view_as(x, size, stride);
  return view_as(clone(x), size, contiguous_strides(size));
}

Tensor flatten(const Tensor& x, Dim first, Dim last) {
  const int a = wrap_dim("flatten", first, x.dim()), b = wrap_dim("flatten", last, x.dim());
  if (a > b) fail("flatten: the first dimension {} comes after the last {}", a + 1, b + 1);
  Shape size;
  for (int d = 0; d < x.dim(); ++d) {
    if (d <= a || d > b) size.push(x.size(d));
    else size[a] *= x.size(d);
  }
  if (x.dim() == 0) size.push(1);
  return reshape(x, size);
}

Tensor permute(const Tensor& x, const Dims& dims) {
  if (dims.size() != x.dim())
    fail("permute: {} dimensions are named, the tensor {} has {}", dims.size(), x.shape(), x.dim());
  const Shape order = wrap_dims("permute", dims, x.dim());
  Shape size, stride;
  for (int64_t d : order) size.push(x.size(int(d))), stride.push(x.stride(int(d)));
  Tensor out = view_of(x, size, stride, x.offset());
  if (wants_grad(x)) {
    static const NodeType type{
        "permute",
        [](Node& node, const Tensor& g, Tensor* dx) { dx[0] = permute(g, node.kept<Shape>()); }, -1,
        through_permute};
    Shape back = size;
    for (int i = 0; i < x.dim(); ++i) back[int(order[i])] = i;
    record(type, out, {&x}).keep(back);
  }
  return out;
}

Tensor transpose(const Tensor& x, Dim a, Dim b) {
  const int i = wrap_dim("transpose", a, x.dim()), j = wrap_dim("transpose", b, x.dim());
  if (x.dim() == 0) return x;
  Shape dims = x.shape();
  for (int d = 0; d < x.dim(); ++d) dims[d] = d;
  std::swap(dims[i], dims[j]);
  return permute(x, dims);
}

Tensor t(const Tensor& x) {
  if (x.dim() > 2) fail("t: {} has more than two dimensions; use transpose", x.shape());
  if (x.dim() < 2) return x;
  if (wants_grad(x)) return transpose(x, 0, 1);
  return view_of(x, {x.size(1), x.size(0)}, {x.stride(1), x.stride(0)}, x.offset());
}

Tensor expand(const Tensor& x, const Shape& wanted) {
  const int skip = wanted.size() - x.dim();
  if (skip < 0) fail("expand: {} has more dimensions than {}", x.shape(), wanted);
  Shape size = wanted, stride = wanted;
  bool same = skip == 0;
  for (int d = 0; d < size.size(); ++d) {
    const int64_t have = d < skip ? 1 : x.size(d - skip);
    if (size[d] == -1 && d >= skip) size[d] = have;
    if (size[d] < 0) fail("expand: size {} is negative in {}", size[d], wanted);
    if (size[d] != have && have != 1)
      fail("expand: dimension {} has size {}, only 1 can become {}, in {} to {}", d - skip + 1,
           have, size[d], x.shape(), wanted);
    stride[d] = d < skip || size[d] != have ? 0 : x.stride(d - skip);
    same &= size[d] == have;
  }
  if (same) return x;
  checked_count("expand", size);
  Tensor out = view_of(x, size, stride, x.offset());
  if (wants_grad(x)) {
    static const NodeType type{"expand", [](Node& node, const Tensor& g, Tensor* dx) {
                                 dx[0] = sum_to(g, node.kept<Shape>());
                               }};
    record(type, out, {&x}).keep(x.shape());
  }
  return out;
}

Tensor squeeze(const Tensor& x) {
  Shape size, stride;
  for (int d = 0; d < x.dim(); ++d)
    if (x.size(d) != 1) size.push(x.size(d)), stride.push(x.stride(d));
  return size.size() == x.dim() ? x : view_as(x, size, stride);
}

Tensor squeeze(const Tensor& x, Dim dim) {
  const int d = wrap_dim("squeeze", dim, x.dim());
  if (x.dim() == 0 || x.size(d) != 1) return x;
  Shape size = x.shape(), stride = x.strides();
  size.erase(d);
  stride.erase(d);
  return view_as(x, size, stride);
}

Tensor unsqueeze(const Tensor& x, Dim dim) {
  const int d = wrap_dim("unsqueeze", dim, x.dim() + 1, true);
  Shape size = x.shape(), stride = x.strides();
  stride.insert(d, d < x.dim() ? x.size(d) * x.stride(d) : 1);
  size.insert(d, 1);
  return view_as(x, size, stride);
}

Tensor slice(const Tensor& x, Dim dim, int64_t first, int64_t n, int64_t step) {
  const int d = wrap_dim("slice", dim, x.dim());
  if (x.dim() == 0) fail("slice: a 0-d tensor has no dimension to slice");
  if (step < 1) fail("slice: the step is {}, it must be at least 1", step);
  if (first < 0 || n < 0 || first > x.size(d) || (n > 0 && first + (n - 1) * step >= x.size(d)))
    fail("slice: {} elements from {} by {} do not lie inside {}..{} (dimension {})", n,
         first + message_base(), step, message_base(), x.size(d) - 1 + message_base(), d + 1);
  static const NodeType type = view_type("slice");
  return seen_at(type, x, [&](const TensorGeometry& r) { return slice_of(r, d, first, n, step); });
}

Tensor pick(const Tensor& x, Dim dim, Position index) {
  const int d = wrap_dim("select", dim, x.dim());
  if (x.dim() == 0) fail("select: a 0-d tensor has no positions; use x:item()");
  const int64_t n = x.size(d), at = index.among(n);
  if (at < 0 || at >= n)
    fail("select: position {} is outside {}..{} (dimension {} of {})",
         index < 0 ? index.at : index + message_base(), message_base(), n - 1 + message_base(),
         d + 1, x.shape());
  static const NodeType type = view_type("select");
  return seen_at(type, x, [&](const TensorGeometry& r) { return select_of(r, d, at); });
}

namespace {

/// The range of a tensor in the result's dimension.
struct CatPart {
  int64_t first, n;
  int dim;
  Dtype dtype;
};

}  // namespace

Tensor cat(const TensorList& parts, Dim dim) {
  if (parts.empty()) fail("cat: at least one tensor is needed");
  // As in PyTorch, a tensor of shape (0) can be concatenated with any other.
  const auto is_empty = [](const Tensor& x) { return x.dim() == 1 && x.size(0) == 0; };
  const auto nonempty = std::ranges::find_if_not(parts, is_empty);
  if (nonempty != parts.end() && nonempty->dim() != 1 && std::ranges::any_of(parts, is_empty)) {
    Dtype dtype = Dtype::none;
    TensorList rest;
    for (const Tensor& x : parts) {
      dtype = promote(dtype, x.dtype());
      if (!is_empty(x)) rest.push_back(x);
    }
    rest[0] = to(rest[0], dtype);
    return cat(rest, dim);
  }
  const Tensor& first = parts[0];
  const int d = wrap_dim("cat", dim, first.dim());
  if (first.dim() == 0) fail("cat: 0-d tensors have no dimension to join along; use stack");
  Shape size = first.shape();
  Dtype dtype = first.dtype();
  bool wants = first.requires_grad();
  for (size_t i = 1; i < parts.size(); ++i) {
    const Tensor& p = parts[i];
    bool fits = p.dim() == first.dim();
    for (int k = 0; fits && k < p.dim(); ++k) fits = k == d || p.size(k) == first.size(k);
    if (!fits)
      fail("cat: tensor {} is {}, the first {}; they may differ only in dimension {}", i + 1,
           p.shape(), first.shape(), d + 1);
    size[d] += p.size(d);
    dtype = promote(dtype, p.dtype());
    wants |= p.requires_grad();
  }
  Tensor out = empty(size, dtype, first.device());
  int64_t at = 0;
  for (const Tensor& p : parts) {
    check_interrupt();
    copy_elements(slice(out, d, at, p.size(d)), p);
    at += p.size(d);
  }
  if (wants && grad_enabled()) {
    static const NodeType type{"cat", [](Node& node, const Tensor& g, Tensor* dx) {
                                 const CatPart* p = node.kept_list<CatPart>();
                                 for (int i = 0; i < node.inputs; ++i)
                                   if (node.wants(i))
                                     dx[i] = to(slice(g, p[i].dim, p[i].first, p[i].n), p[i].dtype);
                               }};
    CatPart* part = record(type, out, parts).keep_list<CatPart>(parts.size());
    at = 0;
    for (const Tensor& p : parts) {
      *part++ = {at, p.size(d), d, p.dtype()};
      at += p.size(d);
    }
  }
  return out;
}

Tensor stack(const TensorList& parts, Dim dim) {
  if (parts.empty()) fail("stack: at least one tensor is needed");
  const int d = wrap_dim("stack", dim, parts[0].dim() + 1, true);
  TensorList rows;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].shape() != parts[0].shape())
      fail("stack: tensor {} is {}, the first {}; all must be equal", i + 1, parts[i].shape(),
           parts[0].shape());
    rows.push_back(unsqueeze(parts[i], d));
  }
  return cat(rows, d);
}

}  // namespace mt
