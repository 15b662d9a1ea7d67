// view_gradients.cpp -- regions of views in their tensors, and gradients of such parts
#include "engine/autograd/view_gradients.h"

#include <algorithm>

#include "engine/ops/ops.h"

namespace mt {
namespace {

/// Dimensions with more than one element, the largest stride first.
int by_stride(const Shape& size, const Shape& stride, int* order) {
  int n = 0;
  for (int d = 0; d < size.size(); ++d)
    if (size[d] > 1) order[n++] = d;
  std::stable_sort(order, order + n, [&](int a, int b) { return stride[a] > stride[b]; });
  return n;
}

/// The shorter one of two dimensions whose extents overlap, or -1.
int overlapping_dim(const TensorGeometry& r) {
  int order[kMaxDims];
  const int n = by_stride(r.size, r.stride, order);
  int64_t reach = 0;
  for (int i = n - 1; i >= 0; --i) {
    const int d = order[i];
    if (r.stride[d] <= reach || r.stride[d] == 0) {
      const int inner = i + 1 < n ? order[i + 1] : d;
      return r.size[inner] < r.size[d] ? inner : d;
    }
    reach += (r.size[d] - 1) * r.stride[d];
  }
  return -1;
}

/// Whether the region is the columns [first, first + n) of every row, if a tensor of `elements`
/// elements is divided into rows of some width.
bool columns_of(const TensorGeometry& r, int64_t elements, int64_t& width, int64_t& first,
                int64_t& n) {
  int order[kMaxDims];
  int i = by_stride(r.size, r.stride, order) - 1;
  n = 1;
  for (; i >= 0 && r.stride[order[i]] == n; --i) n *= r.size[order[i]];
  width = i < 0 ? elements : r.stride[order[i]];
  int64_t rows = 1;
  for (; i >= 0 && r.stride[order[i]] == rows * width; --i) rows *= r.size[order[i]];
  first = r.offset;
  return i < 0 && rows * width == elements && first + n <= width;
}

/// Returns region r of x, as a recorded view.
Tensor part_of(const Tensor& x, const TensorGeometry& r) {
  static const NodeType type = view_type("view");
  TensorGeometry there;
  if (!remap(r, x.shape(), contiguous_strides(x.shape()), geometry_of(x), there))
    return part_of(contiguous(x), r);
  Tensor out = view_of(x, there.size, there.stride, there.offset);
  if (wants_grad(x)) record_view(type, out, x, r);
  return out;
}

void join_backward(Node& node, const Tensor& g, Tensor* dx) {
  const std::vector<TensorGeometry>& parts = *node.extra->parts;
  const size_t dense = size_t(node.inputs) - parts.size();
  if (dense && node.wants(0)) dx[0] = g;
  for (size_t i = 0; i < parts.size(); ++i)
    if (node.wants(int(i + dense))) dx[i + dense] = part_of(g, parts[i]);
}
const NodeType kJoin{"join of views' gradients", join_backward};

}  // namespace

TensorGeometry contiguous_geometry(const Shape& shape) {
  return {shape, contiguous_strides(shape), 0};
}
TensorGeometry geometry_of(const Tensor& x) { return {x.shape(), x.strides(), x.offset()}; }

TensorGeometry slice_of(TensorGeometry r, int d, int64_t first, int64_t n, int64_t step) {
  if (n > 0) r.offset += first * r.stride[d];
  if (n > 1) r.stride[d] *= step;
  r.size[d] = n;
  return r;
}

TensorGeometry select_of(TensorGeometry r, int d, int64_t at) {
  r.offset += at * r.stride[d];
  r.size.erase(d);
  r.stride.erase(d);
  return r;
}

bool may_overlap_itself(const TensorGeometry& r) { return overlapping_dim(r) >= 0; }
bool has_internal_overlap(const TensorGeometry& r) {
  int64_t n = 1, extent = 1;
  for (int d = 0; d < r.size.size(); ++d) {
    if (r.size[d] > 1 && r.stride[d] == 0) return true;
    n *= r.size[d], extent += (r.size[d] - 1) * r.stride[d];
  }
  if (n <= 1 || overlapping_dim(r) < 0) return false;
  if (n > extent) return true;
  std::vector<bool> seen(extent);
  int64_t at[kMaxDims] = {};
  for (int64_t i = 0, place = 0; i < n; ++i) {
    if (seen[place]) return true;
    seen[place] = true;
    for (int d = r.size.size() - 1; d >= 0; --d) {
      place += r.stride[d];
      if (++at[d] < r.size[d]) break;
      place -= at[d] * r.stride[d];
      at[d] = 0;
    }
  }
  return false;
}

bool remap(const TensorGeometry& r, const Shape& shape, const Shape& from, const TensorGeometry& to,
           TensorGeometry& out) {
  int order[kMaxDims];
  const int n = by_stride(shape, from, order);
  int64_t last[kMaxDims] = {};  // the last position in each dimension
  // Computes positions by division, the largest stride first; a remainder is between elements.
  const auto move = [&](int64_t distance, int64_t times, int64_t& moved) {
    moved = 0;
    if (distance < 0) return false;
    for (int i = 0; i < n; ++i) {
      const int d = order[i];
      const int64_t steps = distance / from[d];
      distance -= steps * from[d];
      moved += steps * to.stride[d];
      last[d] += steps * times;
    }
    return distance == 0;
  };
  out = r;
  for (int64_t size : r.size)
    if (size == 0) {
      out.offset = to.offset;
      return true;
    }
  for (int i = 0; i < n; ++i)
    if (from[order[i]] <= 0) return false;
  if (!move(r.offset, 1, out.offset)) return false;
  out.offset += to.offset;
  for (int k = 0; k < r.size.size(); ++k)
    if (r.size[k] > 1 && !move(r.stride[k], r.size[k] - 1, out.stride[k])) return false;
  for (int d = 0; d < shape.size(); ++d)  // a region that wraps into the next row has no strides
    if (last[d] >= shape[d]) return false;
  return true;
}

// A view's node stores numbers: the input's dimensions, the offset in it, its shape, the strides in it.
void record_view(const NodeType& type, const Tensor& view, const Tensor& x,
                 const TensorGeometry& in_x) {
  const size_t n = 2 + x.dim() + in_x.stride.size();
  int64_t* kept = record(type, view, {&x}).keep_list<int64_t>(n);
  kept[0] = x.dim(), kept[1] = in_x.offset;
  kept = std::copy_n(x.impl()->size, x.dim(), kept + 2);
  std::ranges::copy(in_x.stride, kept);
}

bool through_view(Node& node, const Shape& seen, TensorGeometry& r, Shape& input) {
  const int64_t* const kept = node.kept_list<int64_t>();
  const int dims = int(kept[0]);
  input = Shape(kept + 2, dims);
  const TensorGeometry at{seen, Shape(kept + 2 + dims, seen.size()), kept[1]};
  return remap(TensorGeometry(r), seen, contiguous_strides(seen), at, r);
}

void add_view_gradient(const Tensor& whole, const ViewGradient& part) {
  if (part.gradient.numel() == 0) return;
  const TensorGeometry& r = part.at;
  const int d = overlapping_dim(r);
  if (d < 0) {
    view_of(whole, r.size, r.stride, whole.offset() + r.offset) += part.gradient;
    return;
  }
  for (int64_t i = 0; i < r.size[d]; ++i)  // one by one if elements overlap
    add_view_gradient(whole, {select_of(r, d, i), pick(part.gradient, d, i)});
}

PartSum::PartSum(const Shape& shape, const Tensor& like)
    : whole_(empty(shape, like)),
      width_(whole_.numel()) {
  if (width_ < kLarge) fill_rest();
}

void PartSum::add(const ViewGradient& part) {
  if (part.gradient.numel() == 0) return;
  constexpr int64_t kWide = 64;  // filling the rest of shorter rows would cost more than a row
  const TensorGeometry& r = part.at;
  int64_t width, first, n;
  const bool has_range = from_ < to_;
  const bool columns = to_ - from_ < width_ && columns_of(r, whole_.numel(), width, first, n) &&
                       width >= kWide && (!has_range || width == width_);
  if (columns && (!has_range || first + n == from_ || first == to_)) {
    width_ = width;
    from_ = has_range ? std::min(from_, first) : first;
    to_ = has_range ? std::max(to_, first + n) : first + n;
    constexpr int64_t kUncached = 48 << 20;  // bytes: the caches would evict early parts anyway
    copy_elements(view_of(whole_, r.size, r.stride, r.offset), part.gradient,
                  whole_.numel() * item_size(whole_.dtype()) >= kUncached);
    return;
  }
  if (!columns || first < from_ || first + n > to_) fill_rest();
  add_view_gradient(whole_, part);
}

void PartSum::fill_rest() {
  const auto fill = [&](int64_t from, int64_t to) {
    if (from < to)
      fill_(view_of(whole_, {whole_.numel() / width_, to - from}, {width_, 1}, from), 0);
  };
  fill(0, from_);
  fill(to_, width_);
  from_ = 0, to_ = width_;
}

Tensor PartSum::take() {
  fill_rest();
  return std::move(whole_);
}

Tensor sum_view_gradients(const Shape& shape, const Tensor& dense,
                          const std::vector<ViewGradient>& parts) {
  const Tensor& like = dense.defined() ? dense : parts[0].gradient;
  Tensor out;
  bool wants = dense.defined() && wants_grad(dense);
  {
    NoGrad off;
    out = dense.defined() ? clone(dense) : zeros(shape, like);
    for (const ViewGradient& part : parts) add_view_gradient(out, part);
  }
  TensorList inputs;
  std::vector<TensorGeometry> places;
  if (dense.defined()) inputs.push_back(dense);
  for (const ViewGradient& part : parts) {
    wants = wants || wants_grad(part.gradient);
    inputs.push_back(part.gradient);
    places.push_back(part.at);
  }
  if (wants)
    record(kJoin, out, inputs).ensure_extra().parts =
        std::make_shared<const std::vector<TensorGeometry>>(std::move(places));
  return out;
}

}  // namespace mt
