// views.cpp -- tensors with other sizes and strides on the same storage: views, whose gradients are
// views of the gradient
#include <fmt/format.h>

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
  TensorGeometry whole = contiguous_geometry(input), permuted = whole;
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

/// x without its dimensions of size 1 among those of the mask.
static Tensor squeeze_mask(const Tensor& x, unsigned mask) {
  Shape size, stride;
  for (int d = 0; d < x.dim(); ++d)
    if (x.size(d) != 1 || !(mask >> d & 1)) size.push(x.size(d)), stride.push(x.stride(d));
  return size.size() == x.dim() ? x : view_as(x, size, stride);
}
Tensor squeeze(const Tensor& x) { return squeeze_mask(x, ~0u); }
Tensor squeeze(const Tensor& x, Dim dim) {
  return squeeze_mask(x, 1u << wrap_dim("squeeze", dim, x.dim()));
}
Tensor squeeze(const Tensor& x, const Dims& dims) {
  unsigned mask = 0;
  for (int64_t d : wrap_dims("squeeze", dims, x.dim())) mask |= 1u << d;
  return squeeze_mask(x, mask);
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
  return make_view(type, x,
                   [&](const TensorGeometry& r) { return slice_of(r, d, first, n, step); });
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
  return make_view(type, x, [&](const TensorGeometry& r) { return select_of(r, d, at); });
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

// ---- split dimensions, parts, diagonals, windows, any strides -----------------------------------

static int dim_of_parts(const char* operation, const Tensor& x, Dim dim) {
  if (x.dim() == 0) fail("{}: a 0-d tensor has no dimension to divide", operation);
  return wrap_dim(operation, dim, x.dim());
}

Tensor unflatten(const Tensor& x, Dim dim, const Shape& sizes) {
  const int d = dim_of_parts("unflatten", x, dim);
  if (sizes.size() == 0) fail("unflatten: no sizes are given for dimension {}", d + 1);
  const Shape parts = infer("unflatten", x.size(d), sizes, {x.size(d)});
  return view(x, joined(joined(x.shape().first(d), parts), x.shape().from(d + 1)));
}

Tensor movedim(const Tensor& x, const Dims& from, const Dims& to) {
  if (from.size() != to.size())
    fail("movedim: {} dimensions are moved to {} places", from.size(), to.size());
  const Shape source = wrap_dims("movedim", from, x.dim()),
              place = wrap_dims("movedim", to, x.dim());
  if (x.dim() == 0) return x;
  Shape dims = x.shape();
  unsigned moved = 0, used = 0;
  for (int i = 0; i < source.size(); ++i) {
    dims[int(place[i])] = source[i];
    moved |= 1u << source[i], used |= 1u << place[i];
  }
  for (int d = 0, k = 0; d < x.dim(); ++d) {
    if (moved >> d & 1) continue;
    while (used >> k & 1) ++k;
    dims[k++] = d;
  }
  return permute(x, dims);
}

Tensor unsqueeze(const Tensor& x, const Dims& dims) {
  const int rank = x.dim() + dims.size();
  if (rank > kMaxDims) fail("unsqueeze: a tensor has at most {} dimensions", kMaxDims);
  Shape list = wrap_dims("unsqueeze", dims, rank), size;
  for (int d = 0, k = 0; d < rank; ++d)
    size.push(std::ranges::find(list, d) != list.end() ? 1 : x.size(k++));
  return view(x, size);
}

Tensor at_least(const Tensor& x, int dims) {
  Shape size = x.shape();
  if (size.size() >= dims) return x;
  if (size.size() == 2) size.push(1);                         // (m, n) -> (m, n, 1)
  while (size.size() < std::min(dims, 2)) size.insert(0, 1);  // (n) -> (1, n)
  if (size.size() < dims) size.push(1);                       // (1, n) -> (1, n, 1)
  return view(x, size);
}

/// n parts; tensors without elements could otherwise request billions.
static TensorList parts_of(const char* name, int64_t n, auto&& part) {
  if (n > (1 << 20)) fail("{}: {} tensors are too many; the limit is {}", name, n, 1 << 20);
  TensorList parts;
  parts.reserve(n);
  for (int64_t k = 0; k < n; ++k) parts.push_back(part(k));
  return parts;
}

TensorList split(const Tensor& x, int64_t size, Dim dim) {
  const int d = dim_of_parts("split", x, dim);
  const int64_t n = x.size(d);
  if (size < 0 || (size == 0 && n > 0))
    fail("split: parts of {} positions do not make up {}", size, n);
  return parts_of("split", n == 0 ? 1 : (n - 1) / size + 1,
                  [&](int64_t k) { return slice(x, d, k * size, std::min(size, n - k * size)); });
}

TensorList split(const Tensor& x, const std::vector<int64_t>& sizes, Dim dim) {
  const int d = dim_of_parts("split", x, dim);
  const int64_t n = x.size(d);
  int64_t total = 0;
  for (int64_t size : sizes) {
    if (size < 0) fail("split: a part of {} positions was requested", size);
    if (size > n - total) total = n + 1;  // too much, independent of the rest
    if (total > n) break;
    total += size;
  }
  if (total != n)
    fail("split: the sizes {} must sum to {}, the size of dimension {}", fmt::join(sizes, ", "), n,
         d + 1);
  int64_t at = 0;
  return parts_of("split", std::ssize(sizes), [&](int64_t k) {
    at += sizes[k];
    return slice(x, d, at - sizes[k], sizes[k]);
  });
}

TensorList chunk(const Tensor& x, int64_t n, Dim dim) {
  const int d = dim_of_parts("chunk", x, dim);
  if (n < 1) fail("chunk: {} parts were requested; at least 1 is needed", n);
  const int64_t size = x.size(d);
  if (size == 0) return parts_of("chunk", n, [&](int64_t) { return slice(x, d, 0, 0); });
  return split(x, n >= size ? 1 : (size - 1) / n + 1, d);
}

TensorList unbind(const Tensor& x, Dim dim) {
  const int d = dim_of_parts("unbind", x, dim);
  return parts_of("unbind", x.size(d), [&](int64_t k) { return pick(x, d, k); });
}

TensorList broadcast_tensors(const TensorList& list) {
  Shape shape;
  for (const Tensor& x : list) shape = broadcast("broadcast_tensors", shape, x.shape());
  TensorList out;
  for (const Tensor& x : list) out.push_back(expand(x, shape));
  return out;
}

TensorList meshgrid(const TensorList& list, bool xy) {
  if (list.empty()) fail("meshgrid: at least one tensor is needed");
  if (list.size() > kMaxDims) fail("meshgrid: a tensor has at most {} dimensions", kMaxDims);
  const int rank = int(list.size());
  Shape shape;
  for (const Tensor& x : list) {
    if (x.dim() > 1) fail("meshgrid: {} has more than one dimension", x.shape());
    if (x.dtype() != list[0].dtype())
      fail("meshgrid: the dtypes {} and {} differ; all must be equal", x.dtype(), list[0].dtype());
    shape.push(x.numel());
  }
  const bool swap = xy && rank > 1;
  if (swap) std::swap(shape[0], shape[1]);
  checked_count("meshgrid", shape);
  TensorList out;
  for (int i = 0; i < rank; ++i) {
    const int d = swap && i < 2 ? 1 - i : i;
    out.push_back(expand(view(list[i], sizes_along(rank, d, shape[d])), shape));
  }
  return out;
}

// ---- diagonals: diagonal and diag_embed are each other's gradients ------------------------------

namespace {

TensorGeometry diagonal_of(const TensorGeometry& r, int64_t offset, int a, int b) {
  const int64_t rows = r.size[a], columns = r.size[b];
  const int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  const int64_t n = std::max<int64_t>(
      0, std::min(rows - std::min(down, rows), columns - std::min(right, columns)));
  TensorGeometry out;
  for (int d = 0; d < r.size.size(); ++d)
    if (d != a && d != b) out.size.push(r.size[d]), out.stride.push(r.stride[d]);
  out.size.push(n), out.stride.push(r.stride[a] + r.stride[b]);
  out.offset = r.offset + (n > 0 ? down * r.stride[a] + right * r.stride[b] : 0);
  return out;
}

Tensor diagonal_at(const Tensor& x, int64_t offset, int a, int b) {
  static const NodeType type = view_type("diagonal");
  return make_view(type, x, [&](const TensorGeometry& r) { return diagonal_of(r, offset, a, b); });
}

struct Diagonal {
  int64_t offset;
  int a, b;
};

/// Zeros of a shape, except the diagonal.
Tensor embed_diagonal(const Tensor& x, const Shape& shape, int64_t offset, int a, int b) {
  Tensor out = zeros(shape, x);
  copy_elements(diagonal_at(out, offset, a, b), x);
  if (wants_grad(x)) {
    static const NodeType type{"diag_embed", [](Node& node, const Tensor& g, Tensor* dx) {
                                 const auto& [offset, a, b] = node.kept<Diagonal>();
                                 dx[0] = diagonal_at(g, offset, a, b);
                               }};
    record(type, out, {&x}).keep(Diagonal{offset, a, b});
  }
  return out;
}

}  // namespace

Tensor diagonal(const Tensor& x, int64_t offset, Dim a, Dim b) {
  if (x.dim() < 2) fail("diagonal: {} has fewer than two dimensions", x.shape());
  const Shape dims = wrap_dims("diagonal", {a, b}, x.dim());
  return diagonal_at(x, offset, int(dims[0]), int(dims[1]));
}

Tensor diag_embed(const Tensor& x, int64_t offset, Dim a, Dim b) {
  if (x.dim() == 0) fail("diag_embed: a 0-d tensor has no elements to lay out");
  if (x.dim() == kMaxDims) fail("diag_embed: a tensor has at most {} dimensions", kMaxDims);
  const Shape dims = wrap_dims("diag_embed", {a, b}, x.dim() + 1);
  const int64_t last = x.size(-1);
  if (offset > (int64_t(1) << 46) || offset < -(int64_t(1) << 46))
    fail("diag_embed: the offset {} needs more elements than memory can hold", offset);
  const int64_t n = last + std::abs(offset);
  Shape shape;
  for (int d = 0, k = 0; d <= x.dim(); ++d)
    shape.push(d == dims[0] || d == dims[1] ? n : x.size(k++));
  checked_count("diag_embed", shape);
  return embed_diagonal(x, shape, offset, int(dims[0]), int(dims[1]));
}

// ---- windows and strides ------------------------------------------------------------------------

Tensor unfold(const Tensor& x, Dim dim, int64_t size, int64_t step) {
  const int d = wrap_dim("unfold", dim, x.dim());
  const int64_t n = x.dim() > 0 ? x.size(d) : 1;
  if (step < 1) fail("unfold: the step is {}, it must be at least 1", step);
  if (size < 0 || size > n)
    fail("unfold: windows of {} do not fit into the {} positions of dimension {}", size, n, d + 1);
  if (x.dim() == kMaxDims) fail("unfold: a tensor has at most {} dimensions", kMaxDims);
  const auto windows = [&](TensorGeometry r) {
    const int64_t step_inside = x.dim() > 0 ? r.stride[d] : 1;
    if (x.dim() > 0) {
      const int64_t n_windows = (n - size) / step + 1;
      r.size[d] = n_windows;
      if (n_windows > 1) r.stride[d] *= step;
    }
    r.size.push(size), r.stride.push(step_inside);
    return r;
  };
  checked_count("unfold", windows(geometry_of(x)).size);
  static const NodeType type = view_type("unfold");
  return make_view(type, x, windows);
}

namespace {

/// The number of elements of x's dtype in its storage.
int64_t storage_size(const Tensor& x) {
  return int64_t(x.impl()->storage->bytes) / item_size(x.dtype());
}

/// The position in the storage of every element of a geometry, relative to the lowest position.
Tensor storage_index(const Shape& size, const Shape& stride, int64_t offset) {
  Tensor at = scalar(double(offset), Dtype::i64);
  for (int d = 0; d < size.size(); ++d)
    at = unsqueeze(at, -1) + arange(size[d]) * double(stride[d]);
  return at;
}

/// A view and its tensor in a storage with `elements` elements.
struct Strided {
  TensorGeometry from, view;
  int64_t elements;
};

/// Scatters the gradients of the elements to the storage, and gathers them for x's elements.
void as_strided_backward(Node& node, const Tensor& g, Tensor* dx) {
  const auto& [from, view, n] = node.kept<Strided>();
  const auto at = [&](const TensorGeometry& r) {
    return to(reshape(storage_index(r.size, r.stride, r.offset), {-1}), g.device());
  };
  const Tensor target = at(from), zero = zeros({n}, g);
  const Tensor one = ones(target.shape(), g);
  // Elements of x at the same storage position share its gradient.
  const Tensor storage = scatter_add(zero, 0, at(view), reshape(g, {-1})) /
                         maximum(scatter_add(zero, 0, target, one), 1.0);
  dx[0] = reshape(gather(storage, 0, target), from.size);
}

}  // namespace

void record_strided(const NodeType& inside, const Tensor& view, const Tensor& x) {
  static const NodeType type{"as_strided", as_strided_backward};
  TensorGeometry in_x, in_storage = geometry_of(view);
  in_storage.offset -= x.offset();
  if (!may_overlap_itself(geometry_of(x)) &&
      remap(in_storage, x.shape(), x.strides(), contiguous_geometry(x.shape()), in_x))
    return record_view(inside, view, x, in_x);
  record(type, view, {&x}).keep(Strided{geometry_of(x), geometry_of(view), storage_size(x)});
}

Tensor as_strided(const Tensor& x, const Shape& size, const Shape& stride, int64_t offset) {
  if (size.size() != stride.size())
    fail("as_strided: {} sizes and {} strides", size.size(), stride.size());
  const int64_t count = checked_count("as_strided", size);
  const int64_t have = storage_size(x);
  if (offset < 0 || offset > have)
    fail("as_strided: the offset {} lies outside the storage of {}", offset, have);
  int64_t last = offset;
  for (int d = 0; d < size.size(); ++d) {
    if (stride[d] < 0) fail("as_strided: the stride {} is negative", stride[d]);
    int64_t step;
    if (count > 0 && (__builtin_mul_overflow(size[d] - 1, stride[d], &step) ||
                      __builtin_add_overflow(last, step, &last) || last >= have))
      fail("as_strided: {} with strides {} from {} reaches beyond the {} elements of the storage",
           size, stride, offset, have);
  }
  if (count > 0 && last >= have)
    fail("as_strided: the element at {} lies outside the storage of {}", last, have);
  Tensor out = view_of(x, size, stride, offset);
  static const NodeType type = view_type("as_strided");
  if (wants_grad(x)) record_strided(type, out, x);
  return out;
}

Tensor storage_of(const Tensor& x) { return view_of(x, {storage_size(x)}, {1}, 0); }

}  // namespace mt
