// prod.cpp -- the gradients of prod and cumprod, with special cases for zeros
#include "engine/ops/reduce_common.h"

namespace mt {
namespace {

bool has_zero(const Tensor& x) { return count_nonzero(x).at_integer(0) != x.numel(); }

/// The product of all other elements, for each element: the whole product divided by the element,
/// if there is no zero.
Tensor other_products(const Tensor& x, unsigned mask) {
  const Shape dims = dims_of(mask, x.dim());
  if (dims.size() == 0) return ones(x.shape(), x);
  const Tensor is_zero = eq(x, 0.0);
  const Tensor zeros_there = spread(sum(to(is_zero, x.dtype()), dims, true), x.shape(), mask);
  const Tensor safe = where(is_zero, 1.0, x);
  const Tensor rest = spread(prod(safe, dims, true), x.shape(), mask);
  const Tensor others_nonzero = where(is_zero, eq(zeros_there, 1.0), eq(zeros_there, 0.0));
  return where(others_nonzero, rest / safe, 0.0);
}

/// The same in differentiable operations: each row is repeated, and each copy lacks one element.
Tensor recorded_products(const Tensor& x, unsigned mask) {
  Shape order, back = x.shape(), kept;
  for (int d = 0; d < x.dim(); ++d)
    if (!(mask >> d & 1)) order.push(d), kept.push(x.size(d));
  const int64_t n = count_of(x, mask);
  for (int64_t d : dims_of(mask, x.dim())) order.push(d);
  for (int i = 0; i < x.dim(); ++i) back[int(order[i])] = i;
  const Tensor moved = permute(x, order);
  Shape square = kept;
  square.push(1), square.push(n);
  const Tensor rows = reshape(moved, square);
  const Tensor left_out = where(eye(n, n, Dtype::b8, x.device()), 1.0, rows);
  return permute(reshape(prod(left_out, {-1}), moved.shape()), back);
}

/// The gradient of cumprod where x contains zeros. The general formula is valid up to the first
/// zero of a line; the zero itself gets the products without it; all products after it stay 0.
Tensor products_backward(const Tensor& x, const Tensor& out, const Tensor& g, int d) {
  const Tensor zero = eq(x, 0.0);
  const Tensor zeros_so_far = cumsum(to(zero, Dtype::i64), d);
  const Tensor first = logical_and(zero, eq(zeros_so_far, 1.0));
  const Tensor without_first = cumprod(where(first, 1.0, x), d);
  const Tensor before = sum_from_end(g * out, d) / where(zero, 1.0, x);
  const Tensor at = sum_from_end(g * without_first, d);
  return where(eq(zeros_so_far, 0.0), before, where(first, at, 0.0));
}

/// The same in differentiable operations: each line is repeated, and the k-th copy lacks the k-th
/// element.
Tensor products_backward_recorded(const Tensor& x, const Tensor& g, int d) {
  const int64_t n = x.size(d);
  const Tensor rows = unsqueeze(transpose(x, d, -1), -2),
               grads = unsqueeze(transpose(g, d, -1), -2);
  const Tensor missing = where(eye(n, n, Dtype::b8, x.device()), 1.0, rows);
  const Tensor place = arange(n, x.device());
  const Tensor after = le(unsqueeze(place, 1), unsqueeze(place, 0));
  const Tensor parts = where(after, cumprod(missing, -1) * grads, 0.0);
  return transpose(sum(parts, {-1}), d, -1);
}

}  // namespace

void prod_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor x = node.get(0);
  const unsigned mask = node.kept<KeptReduction>().mask;
  const bool zeros = has_zero(x);
  dx[0] = spread(g, x.shape(), mask) * (!zeros           ? spread(node.get(1), x.shape(), mask) / x
                                        : grad_enabled() ? recorded_products(x, mask)
                                                         : other_products(x, mask));
}

void cumprod_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor x = node.get(0), out = node.get(1);
  const int d = node.kept<KeptScan>().d;
  dx[0] = !has_zero(x)     ? sum_from_end(g * out, d) / x
          : grad_enabled() ? products_backward_recorded(x, g, d)
                           : products_backward(x, out, g, d);
}

}  // namespace mt
