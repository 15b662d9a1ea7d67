// reduce.h -- reductions of tensors over `dims`, or over all dimensions if it is empty, and scans along one
#pragma once
#include <optional>

#include "engine/core/tensor.h"
#include "kernels/table.h"

namespace mt {

/// Values and their positions: the results of functions that select elements.
struct ValuesIndices {
  Tensor values, index;
};

// Every MT_REDUCTION of kernels/reductions.h is a function `mt::sum(x, dims = {}, keepdim = false,
// parameters..)` (torch.max: amax); those that return an index take one dimension or none.

/// The description of a reduction or a scan for the engine and the bindings.
struct ReduceRow {
  const op::ReduceInfo* info;
  int params;
  bool differentiable, needs_index;
};
constexpr int kReductions = op::Reductions::size, kScans = op::Scans::size;
const ReduceRow& reduce_row(int reduction);
const ReduceRow& scan_row(int scan);

/// Applies a reduction; without `params` its parameters have their defaults.
Tensor reduce(int reduction, const Tensor& x, const Shape& dims, bool keepdim,
              const double* params = nullptr);

template <class Op, class... P>
Tensor reduce(Op, const Tensor& x, const Shape& dims, bool keepdim, const P&... params) {
  const double given[] = {double(params)..., 0};
  return reduce(op::reduction_id<Op>, x, dims, keepdim, sizeof...(P) > 0 ? given : nullptr);
}
template <class Op>
Tensor reduce(Op, const Tensor& x, const std::optional<int64_t>& dim, bool keepdim) {
  return reduce(op::reduction_id<Op>, x, dim ? Shape{*dim} : Shape{}, keepdim);
}

namespace op {
inline namespace MT_ISA {
template <class Op> struct DimsOf<Op, Tensor> {
  using type = std::conditional_t<Op::needs_index, std::optional<int64_t>, Shape>;
};
}  // namespace MT_ISA
}  // namespace op
using namespace op::functions;  // mt::sum and similar functions

/// The mean over `dims`, for floats.
Tensor mean(const Tensor&, const Shape& dims = {}, bool keepdim = false);
/// The first maximum or minimum along a dimension, with its position.
ValuesIndices max_along(const Tensor&, int64_t dim, bool keepdim = false);
ValuesIndices min_along(const Tensor&, int64_t dim, bool keepdim = false);
/// Sums over broadcast dimensions, so that the result has this shape.
Tensor sum_to(const Tensor&, const Shape&);

// ---- scans (scan.cpp) ---------------------------------------------------------------------------

// Every scan of kernels/scans.h is a function `mt::cumsum(x, dim, parameters..)`; those with a
// second result (cummax) return values and positions.

/// Applies a scan; without `params` its parameters have their defaults. `index` is defined for
/// scans that return positions.
ValuesIndices scan(int scan, const Tensor& x, int64_t dim, const double* params = nullptr);

template <class Op, class... P> auto scan(Op, const Tensor& x, int64_t dim, const P&... params) {
  const double given[] = {double(params)..., 0};
  ValuesIndices p = scan(op::scan_id<Op>, x, dim, sizeof...(P) > 0 ? given : nullptr);
  if constexpr (Op::needs_index) return p;
  else return p.values;
}

/// The differences of neighbours along a dimension, n times; for bools whether they differ.
Tensor diff(const Tensor&, int64_t n = 1, int64_t dim = -1);

}  // namespace mt
