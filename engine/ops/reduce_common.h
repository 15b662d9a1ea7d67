// reduce_common.h -- common parts of reductions: reduced dimensions, the verb, backward
#pragma once
#include "engine/autograd/graph.h"
#include "engine/ops/index_checks.h"
#include "engine/ops/ops.h"

namespace mt {

/// The reduced dimensions as bits; all if none are given.
unsigned dims_mask(const char* name, const Tensor& x, const Shape& dims);
/// The dimensions of a mask, as a list.
Shape dims_of(unsigned mask, int rank);
/// The number of elements per result.
int64_t count_of(const Tensor& x, unsigned mask);
/// Broadcasts a gradient or a result to the input's shape; reduced dimensions have size 1 first.
Tensor spread(const Tensor& reduced, const Shape& input, unsigned mask);
/// Expands one element to a shape.
Tensor repeat_everywhere(const Tensor& x, const Shape&);

/// One call of a reduction: x over the dimensions of a mask.
struct Reducing {
  int op;
  const char* name;  // for messages
  unsigned mask;
  bool keepdim;
  bool empty_ok = false;  // allows no elements, even if the struct refuses that
  double param[op::kMaxParams] = {};
};
/// Calls the verb with an accepted dtype. `second`: an undefined tensor for the second result.
Tensor run_reduce(const Reducing&, const Tensor& x, Tensor* second = nullptr);
/// Calls run_reduce for any dtype, and records it.
Tensor reduce_recorded(Reducing, const Tensor& x, Tensor* second = nullptr);
/// An elementwise kernel for operands of one shape, outside the graph: for gradients of reductions.
Tensor run_mapped(int op, const Tensor* const* operands, int n, const double* params);

/// The sum of each element and those after it along a dimension, recorded.
Tensor sum_from_end(const Tensor& x, int d);
/// Hand-written gradients with special cases for zeros (reduce.cpp).
void prod_backward(Node& node, const Tensor& g, Tensor* dx);
void cumprod_backward(Node& node, const Tensor& g, Tensor* dx);

/// x as a float tensor: integers become the default float.
inline Tensor as_float(const Tensor& x) { return is_float(x.dtype()) ? x : to(x, default_dtype()); }
/// Throws Error unless the dtype is a float.
void need_float(const char* name, const Tensor& x);

/// The state of a node: the reduced dimensions of a reduction, or the dimension of a scan.
struct KeptReduction {
  unsigned mask;
  double param[op::kMaxParams - 1];
};
struct KeptScan {
  int d;
  bool backwards;
  double param[op::kMaxParams - 1];
};

/// `f(x, d)` for x with at least one dimension: a 0-d tensor is handled as a line of one element.
ValuesIndices at_least_1d(const char* name, const Tensor& x, int64_t dim, const auto& f) {
  const int d = wrap_dim(name, dim, x.dim());
  if (x.dim() > 0) return f(x, d);
  const ValuesIndices p = f(reshape(x, {1}), 0);
  return {reshape(p.values, {}), p.index.defined() ? reshape(p.index, {}) : p.index};
}
/// Removes dimension d from both results, unless keepdim.
inline ValuesIndices without(const ValuesIndices& p, int d, bool keepdim) {
  return keepdim ? p : ValuesIndices{squeeze(p.values, d), squeeze(p.index, d)};
}
/// Throws Error for a dimension without elements, unless the result is empty.
void need_elements(const char* name, const Tensor& x, int d);

/// The layout of the lines of `in` and `out` along dimension d.
AlongDim along_dim(const Tensor& in, const Tensor& out, int d);

}  // namespace mt
