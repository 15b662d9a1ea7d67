// scan.h -- scans: cumulative reductions along a dimension
#pragma once
#include "engine/ops/reduce.h"

namespace mt {

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
