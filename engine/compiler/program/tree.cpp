// tree.cpp -- reductions by a function of two numbers: level by level
#include "engine/compiler/program/tree.h"

#include "engine/compiler/program/apply.h"
#include "engine/ops/ops.h"

namespace mt::ir {
namespace {

/// Combines pairs of neighbours of x [outer, n, inner] until one element is left.
Tensor levels(const Pair& pair, Tensor x) {
  while (x.size(1) > 1) {
    const int64_t n = x.size(1), half = n / 2;
    const Tensor y = pair(slice(x, 1, 0, half, 2), slice(x, 1, 1, half, 2));
    x = n % 2 ? cat({y, to(slice(x, 1, n - 1, 1), y.dtype())}, 1) : y;
  }
  return x;
}
/// `reduce` of x as [outer, n, inner] in the compute dtype of `dtype`; a copy of a single element.
Tensor along(const Tensor& x, int dim, Dtype dtype, const auto& reduce) {
  Shape shape = x.shape(), lines{1, shape[dim], 1};
  for (int d = 0; d < shape.size(); ++d)
    if (d != dim) lines[d < dim ? 0 : 2] *= shape[d];
  shape[dim] = 1;
  const Tensor given = reshape(to(x, compute_dtype(dtype)), lines);
  const Tensor y = lines[1] > 1 ? reduce(given) : clone(given);
  return reshape(y.dtype() == compute_dtype(dtype) ? to(y, dtype) : y, shape);
}

}  // namespace

Tensor reduce_pairs(const Pair& pair, const Tensor& x, int dim) {
  return along(x, dim, x.dtype(), [&](const Tensor& lines) { return levels(pair, lines); });
}

Tensor reduce_pairs(const Expression& pair, const Tensor& x, int dim, const double* numbers) {
  const Dtype dtype = computing_dtype(pair, {x}, numbers);
  const auto applied = [&](const Tensor& a, const Tensor& b) {
    return apply(pair, "reduce", {a, b}, numbers)[0];
  };
  return along(x, dim, dtype, [&](const Tensor& lines) { return levels(applied, lines); });
}

}  // namespace mt::ir
