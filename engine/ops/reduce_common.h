// reduce_common.h -- what reductions share: which dimensions go, the verb, the way back
#pragma once
#include "engine/autograd/graph.h"
#include "engine/ops/index_checks.h"
#include "engine/ops/ops.h"

namespace mt {

/// The dimensions that go, as bits; all when none are named.
unsigned dims_mask(const char* name, const Tensor& x, const Shape& dims);
/// The dimensions of a mask, as a list.
Shape dims_of(unsigned mask, int rank);
/// How many elements each answer is made of.
int64_t count_of(const Tensor& x, unsigned mask);
/// A gradient or a result with its reduced dimensions back as size 1, seen in the input's shape.
Tensor spread(const Tensor& reduced, const Shape& input, unsigned mask);
/// One element seen in any shape.
Tensor repeat_everywhere(const Tensor& x, const Shape&);

/// One call of a reduction: x over the dimensions of a mask.
struct Reducing {
  int op;
  const char* name;  // in errors
  unsigned mask;
  bool keepdim;
  bool empty_ok = false;  // also where the struct refuses it
  double param[op::kMaxParams] = {};
};
/// The verb, on what the struct takes. `second`: an empty handle that becomes the second result.
Tensor run_reduce(const Reducing&, const Tensor& x, Tensor* second = nullptr);
/// The same for any dtype, recorded.
Tensor reduce_recorded(Reducing, const Tensor& x, Tensor* second = nullptr);
/// An elementwise kernel on operands of one shape, outside the graph: gradients of reductions.
Tensor run_mapped(int op, const Tensor* const* operands, int n, const double* params);

/// The sum of each element and those after it along a dimension, recorded.
Tensor sum_from_end(const Tensor& x, int d);
/// Gradients that are written by hand, of what looks for zeros (prod.cpp).
void prod_backward(Node& node, const Tensor& g, Tensor* dx);
void cumprod_backward(Node& node, const Tensor& g, Tensor* dx);

/// x as a float tensor: integers become the default float.
inline Tensor as_float(const Tensor& x) { return is_float(x.dtype()) ? x : to(x, default_dtype()); }
/// Refuses what has no fractions.
void need_float(const char* name, const Tensor& x);

/// What nodes keep: of reductions the dimensions that went, of scans the one gone along.
struct KeptReduction {
  unsigned mask;
  double param[op::kMaxParams - 1];
};
struct KeptScan {
  int d;
  bool backwards;
  double param[op::kMaxParams - 1];
};

/// `f(x, d)` for x of at least one dimension: a 0-d tensor is a line of one element.
ValuesIndices at_least_1d(const char* name, const Tensor& x, int64_t dim, const auto& f) {
  const int d = wrap_dim(name, dim, x.dim());
  if (x.dim() > 0) return f(x, d);
  const ValuesIndices p = f(reshape(x, {1}), 0);
  return {reshape(p.values, {}), p.index.defined() ? reshape(p.index, {}) : p.index};
}
/// The same without dimension d, unless it is to be kept.
inline ValuesIndices without(const ValuesIndices& p, int d, bool keepdim) {
  return keepdim ? p : ValuesIndices{squeeze(p.values, d), squeeze(p.index, d)};
}
/// Refuses a dimension without elements, unless there is nothing to answer.
void need_elements(const char* name, const Tensor& x, int d);

/// How the lines of `in` and `out` along dimension d lie.
AlongDim along_dim(const Tensor& in, const Tensor& out, int d);

}  // namespace mt
