// norm.cpp -- norms of vectors and matrices, and condition numbers
#include <cmath>

#include "engine/linalg/common.h"

namespace mt::linalg {
Tensor vector_norm(const Tensor& x, double p, const Dims& dims, bool keepdim, const char* name) {
  check_float(name, x, "the input must be a float tensor, got");
  if (std::isnan(p)) fail("{}: the order is nan", name);
  bool is_empty = dims.size() == 0 && x.numel() == 0;
  for (int64_t d : wrap_dims(name, dims, x.dim())) is_empty |= x.dim() > 0 && x.size(int(d)) == 0;

  if (is_empty && (p < 0 || std::isinf(p)))
    fail("{}: {} has no elements there, so it has no norm of order {}", name, x.shape(), p);
  return mt::norm(x, p, dims, keepdim);
}

static std::string show_order(const Order& o) {
  return o.kind == Order::fro ? "'fro'" : o.kind == Order::nuc ? "'nuc'" : show(o.p);
}

/// The norm over the last two dimensions, which are removed.
static Tensor last_two(const char* name, const Tensor& x, const Order& o) {
  if (o.kind == Order::fro || o.kind == Order::none)
    return vector_norm(x, 2, {-2, -1}, false, name);
  if (o.kind == Order::nuc) return sum(svdvals(x, name), {-1});
  const double p = std::fabs(o.p);
  if (p != 1 && p != 2 && !std::isinf(p))
    fail("{}: matrices have no norm of order {}; use 'fro', 'nuc', 1, 2, inf or their negatives",
         name, show_order(o));
  const Tensor sizes = p == 2 ? svdvals(x, name) : p == 1 ? sum(abs(x), {-2}) : sum(abs(x), {-1});
  if (sizes.size(-1) > 0) return o.p > 0 ? amax(sizes, {-1}) : amin(sizes, {-1});
  if (o.p < 0 && checked_count(name, batch_of(x)) > 0)
    fail("{}: {} is empty, so it has no norm of order {}", name, x.shape(), show_order(o));
  return sum(sizes, {-1});
}

Tensor matrix_norm(const Tensor& x, const Order& o, const Dims& dims, bool keepdim,
                   const char* name) {
  check_float(name, x, "the input must be a float tensor, got");
  if (dims.size() != 2) fail("{}: two dimensions make a matrix, {} are named", name, dims.size());
  if (x.dim() < 2) fail("{}: a matrix, or a batch of them, is needed, got {}", name, x.shape());
  const Shape pair = wrap_dims(name, dims, x.dim());
  const int a = int(pair[0]), b = int(pair[1]);
  Shape order;
  for (int d = 0; d < x.dim(); ++d)
    if (d != a && d != b) order.push(d);
  order.push(a), order.push(b);
  const Tensor out = last_two(name, permute(x, order), o);
  if (!keepdim) return out;
  return unsqueeze(unsqueeze(out, std::min(a, b)), std::max(a, b));
}

Tensor norm(const Tensor& x, const Order& o, const Dims& dims, bool keepdim) {
  if (o.kind == Order::none) return vector_norm(x, 2, dims, keepdim, "norm");
  const int over = dims.size() ? dims.size() : x.dim();
  if (dims.size() == 0 && x.dim() != 1 && x.dim() != 2)
    fail("norm: an order is for vectors or matrices, {} is neither; give dim", x.shape());
  if (over == 2) { return matrix_norm(x, o, dims.size() ? dims : Dims{-2, -1}, keepdim, "norm"); }
  if (over > 2) fail("norm: {} dimensions are named; one makes a vector, two a matrix", over);
  if (o.kind != Order::number)
    fail("norm: {} is the norm of a matrix; a vector has none", show_order(o));
  return vector_norm(x, o.p, dims, keepdim, "norm");
}

Tensor cond(const Tensor& given, const Order& o) {
  const Tensor a = matrices("cond", given);
  const bool by_values = o.kind == Order::none || (o.kind == Order::number && std::fabs(o.p) == 2);
  if (by_values) {
    const Tensor s = svdvals(a, "cond");
    if (columns_of(a) == 0 || rows_of(a) == 0) return back(zeros(batch_of(a), a.dtype()), given);
    const Tensor largest = pick(s, -1, 0), smallest = pick(s, -1, -1);
    return back(o.kind == Order::number && o.p < 0 ? smallest / largest : largest / smallest,
                given);
  }
  square_matrices("cond", a);
  if (rows_of(a) == 0) return back(zeros(batch_of(a), a.dtype()), given);
  const Tensor is_singular = eq(slogdet(a.detach()).sign, 0.0);
  const Tensor singular = for_matrices(is_singular);
  const Tensor regular = where(singular, eye(rows_of(a), rows_of(a), a.dtype()), a);
  const Tensor product = last_two("cond", regular, o) * last_two("cond", inv(regular, "cond"), o);
  return back(where(is_singular, HUGE_VAL, product), given);
}

}  // namespace mt::linalg
