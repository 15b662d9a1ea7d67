// index_checks.h -- common parts of indexing: positions, bounds checks, the gather node
#pragma once
#include "engine/autograd/graph.h"
#include "engine/core/async_errors.h"
#include "engine/ops/gather_scatter.h"

namespace mt {

/// The index as int64; throws Error if the dtype is not an integer.
Index integer_positions(const char* name, const Index&, const char* what = "positions",
                        const char* argument = "index");
/// "gather: position 5 is outside 1..4 (dimension 2 of (3 x 4))": finds the position out of bounds.
[[noreturn]] void fail_position(const char* name, const Index&, int64_t extent, int dim,
                                const Shape& shape);
/// Called with the result of a verb's bounds check: throws Error, or stores the message for an
/// error that a GPU reports later.
void found(bool there, const char* name, const Index&, int64_t extent, int dim, const Shape& shape);
/// Throws Error for positions out of bounds, before anything is written.
void check_positions(const char* name, const Index&, int64_t extent, int dim, const Shape& shape);
/// out[i] = (or +=) index[i] * step, counted from 0; returns false if a position is out of bounds.
bool ravel_index(const Index&, int64_t extent, int64_t* out, int64_t step = 1, bool add = false);
/// Throws Error for labels or ids out of bounds, except those equal to `ignore`; `at` has the given
/// ones from 0, valid below `extent`.
void check_counted(IndexBound::Kind, const char* name, const Index& given, const Tensor& at,
                   int64_t extent, std::optional<int64_t> ignore = {});
/// The number that masked_fill and index_fill write to x: 0-d, of x's dtype.
Tensor filling(const char* name, const Tensor& x, const Tensor& value);

/// The elements that index tensors select. With one indexed dimension `at` is the index; with
/// several, its first dimension enumerates them, and its positions are already 0-based.
struct IndexKey {
  unsigned dims = 0;   // the indexed dimensions, as bits
  bool along = false;  // the index has x's rank, and its shape is that of the elements
  int place = 0;       // the number of other dimensions before the index's dimensions in the result
  Index at{Tensor()};
  int shown = 0;  // the dimension and the shape shown in messages
  Shape whole;

  bool several() const { return (dims & (dims - 1)) != 0; }
  /// The shape that the index tensors broadcast to.
  Shape block() const;
};
/// The shape of the elements that the key selects in a tensor of this shape.
Shape shape_at(const Shape& x, const IndexKey&);
/// Gathers the elements that the key selects.
Tensor pick_at(const char* name, const Tensor& x, const IndexKey&);
/// x with the source, of shape_at's shape and x's dtype, written at the selected elements. The result replaces an x
/// that nothing else refers to.
Tensor put_at(const char* name, Tensor x, IndexKey, const Tensor& source, ScatterReduce,
              InPlace = false);
/// Records that `values` are x at `index` along dimension d; backward scatters the gradient there.
void record_gather(const NodeType&, const Tensor& x, const Tensor& values, int d, const Index&);
/// The `backward` of such a node.
void gather_backward(Node& node, const Tensor& g, Tensor* dx);
/// Throws Error if the source has another dtype or device.
void check_source(const char* name, const Tensor& x, const Tensor& source);

}  // namespace mt
