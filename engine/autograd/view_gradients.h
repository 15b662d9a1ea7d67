// view_gradients.h -- where views lie in their tensors, and gradients that come in such parts
//
// A view's gradient is a part of its tensor's gradient. The backward pass gets that part and its region
// instead of a tensor that is 0 elsewhere, and adds such parts up in one buffer per tensor, so that
// gradients of many views take time linear in their elements.
#pragma once
#include <vector>

#include "engine/autograd/graph.h"

namespace mt {

/// Elements by strides and an offset: in a storage, or in a tensor as if that were contiguous.
struct TensorGeometry {
  Shape size, stride;
  int64_t offset = 0;
};

/// All of a contiguous tensor.
TensorGeometry all_of(const Shape&);
/// The tensor in its storage.
TensorGeometry geometry_of(const Tensor&);
TensorGeometry slice_of(TensorGeometry, int d, int64_t first, int64_t n, int64_t step);
TensorGeometry select_of(TensorGeometry, int d, int64_t at);
/// A region `r` of a tensor of this shape with strides `from`, as a region of where its elements lie, `to`:
/// false where no strides describe it there. `from` must not overlap itself.
bool remap(const TensorGeometry& r, const Shape& shape, const Shape& from, const TensorGeometry& to,
           TensorGeometry& out);
/// Whether two of its elements may have one place: the extents of two dimensions overlap.
bool overlaps_itself(const TensorGeometry&);
/// Whether two of its elements have one place. Visits all where the extents of dimensions overlap.
bool repeats_elements(const TensorGeometry&);

/// The `through` of nodes that record_view made.
bool through_view(Node&, const Shape& seen, TensorGeometry&, Shape& input);
constexpr NodeType view_type(const char* name) { return {name, nullptr, -1, through_view}; }
/// The view of x that lies there in its storage and `in_x`, as a result of x, of such a type.
void record_view(const NodeType& type, const Tensor& view, const Tensor& x,
                 const TensorGeometry& in_x);
/// The same for any view of x's storage, also where it reaches beyond x.
void record_strided(const NodeType& type, const Tensor& view, const Tensor& x);  // views_split.cpp
/// A view where `at` takes the region of x to that of the view.
Tensor seen_at(const NodeType& type, const Tensor& x, const auto& at) {
  const TensorGeometry r = at(geometry_of(x));
  Tensor out = view_of(x, r.size, r.stride, r.offset);
  if (wants_grad(x)) record_view(type, out, x, at(all_of(x.shape())));
  return out;
}

/// A view's gradient, and where the view lies in its tensor as if that were contiguous.
struct ViewGradient {
  TensorGeometry at;
  Tensor gradient;
};
/// Adds the part up in a contiguous tensor, without recording; what it makes does not depend on
/// threads.
void add_view_gradient(const Tensor& whole, const ViewGradient&);
/// A sum of parts in the making, zeros around them; without recording. Of a large tensor what adjoining
/// parts cover is written once: memory is filled with zeros only where no part came.
class PartSum {
 public:
  static constexpr int64_t kLarge = 16384;  // elements; of fewer all are zeros at first
  PartSum() = default;
  PartSum(const Shape&, const Tensor& like);
  bool defined() const { return whole_.defined(); }
  void add(const ViewGradient&);
  /// The sum; the object is as new.
  Tensor take();

 private:
  void fill_rest();
  Tensor whole_;
  // The columns [from, to) of every row of `width` elements are written.
  int64_t width_ = 0, from_ = 0, to_ = 0;
};
/// The sum of parts, zeros around them, and of `dense` where that is defined; recorded.
Tensor sum_view_gradients(const Shape&, const Tensor& dense, const std::vector<ViewGradient>&);

}  // namespace mt
