// view_gradients.h -- regions of views in their tensors, and gradients of such parts
//
// A view's gradient is a part of its tensor's gradient. The backward pass gets that part and its
// region instead of a tensor that is 0 elsewhere, and adds such parts up in one buffer per tensor,
// so that gradients of many views take time linear in their elements.
#pragma once
#include <vector>

#include "engine/autograd/graph.h"

namespace mt {

/// Elements given by strides and an offset: in a storage, or in a tensor as if it were contiguous.
struct TensorGeometry {
  Shape size, stride;
  int64_t offset = 0;
};

/// The geometry of a contiguous tensor of this shape.
TensorGeometry contiguous_geometry(const Shape&);
/// The geometry of the tensor in its storage.
TensorGeometry geometry_of(const Tensor&);
TensorGeometry slice_of(TensorGeometry, int d, int64_t first, int64_t n, int64_t step);
TensorGeometry select_of(TensorGeometry, int d, int64_t at);
/// Maps a region `r` of a tensor of this shape with strides `from` to a region `out` of `to`, another geometry of the
/// same tensor: false if no strides describe it there. `from` must not overlap itself.
bool remap(const TensorGeometry& r, const Shape& shape, const Shape& from, const TensorGeometry& to,
           TensorGeometry& out);
/// Whether two of its elements may overlap, because the extents of two dimensions do.
bool may_overlap_itself(const TensorGeometry&);
/// Whether two of its elements share memory. Visits all elements if the extents of two dimensions overlap.
bool has_internal_overlap(const TensorGeometry&);

/// NodeType::through of the nodes that record_view creates.
bool through_view(Node&, const Shape& seen, TensorGeometry&, Shape& input);
constexpr NodeType view_type(const char* name) { return {name, nullptr, -1, through_view}; }
/// Records `view` as a result of x, with a node of this type; `in_x` is its geometry in x.
void record_view(const NodeType& type, const Tensor& view, const Tensor& x,
                 const TensorGeometry& in_x);
/// Records any view of x's storage, even one that exceeds x.
void record_strided(const NodeType& type, const Tensor& view, const Tensor& x);  // views.cpp
/// Returns the view of x whose geometry is `at` applied to that of x, recorded.
Tensor make_view(const NodeType& type, const Tensor& x, const auto& at) {
  const TensorGeometry r = at(geometry_of(x));
  Tensor out = view_of(x, r.size, r.stride, r.offset);
  if (wants_grad(x)) record_view(type, out, x, at(contiguous_geometry(x.shape())));
  return out;
}

/// A view's gradient, and the region of the view in its tensor as if that were contiguous.
struct ViewGradient {
  TensorGeometry at;
  Tensor gradient;
};
/// Adds the part to a contiguous tensor, without recording; the result does not depend on threads.
void add_view_gradient(const Tensor& whole, const ViewGradient&);
/// Accumulates a sum of parts with zeros around them; without recording. In a large tensor the region
/// of adjacent parts is written once: memory is filled with zeros only where there is no part.
class PartSum {
 public:
  static constexpr int64_t kLarge = 16384;  // elements; smaller tensors are filled with zeros first
  PartSum() = default;
  PartSum(const Shape&, const Tensor& like);
  bool defined() const { return whole_.defined(); }
  void add(const ViewGradient&);
  /// Returns the sum and resets the object.
  Tensor take();

 private:
  void fill_rest();
  Tensor whole_;
  // The columns [from, to) of every row of `width` elements are written.
  int64_t width_ = 0, from_ = 0, to_ = 0;
};
/// The sum of parts, with zeros around them, and of `dense` if that is defined; recorded.
Tensor sum_view_gradients(const Shape&, const Tensor& dense, const std::vector<ViewGradient>&);

}  // namespace mt
