// distance.cpp -- cdist: norms of the differences of all pairs of rows, in blocks of rows
#include <algorithm>
#include <cmath>

#include "engine/linalg/common.h"

namespace mt {
namespace {

/// The number of rows per block, so that the differences of all pairs need at most about 32 MiB.
int64_t rows_at_once(const Tensor& x, const Tensor& y) {
  const int64_t row = y.size(-2) * x.size(-1);
  const int64_t all = row * product(linalg::batch_of(x));
  return std::max<int64_t>(1, (int64_t(1) << 22) / std::max<int64_t>(1, all));
}

/// f(first row, number) of such blocks of x, joined.
Tensor by_blocks(const Tensor& x, const Tensor& y, const auto& f) {
  const int64_t rows = x.size(-2), step = rows_at_once(x, y);
  TensorList parts;
  for (int64_t at = 0; at < rows || parts.empty(); at += step)
    parts.push_back(f(at, std::min(step, rows - at)));
  return parts.size() == 1 ? parts[0] : cat(parts, x.dim() - 2);
}

Tensor differences(const Tensor& x, const Tensor& y) { return unsqueeze(x, -2) - unsqueeze(y, -3); }

/// Writes the result of f to memory of the same shape and dtype; an elementwise operation writes it there at once.
const Tensor& into(const Tensor& out, const auto& f) {
  const Into target(&out);
  const Tensor result = f();
  if (!same_place(result, out)) copy_elements(out, result);
  return out;
}

/// As torch.cdist by default: if there are many rows, squares are computed by a matrix product.
bool uses_product(const Tensor& x, const Tensor& y, double p) {
  return p == 2 && (x.size(-2) > 25 || y.size(-2) > 25);
}

/// The mean row of y, subtracted before a product: rows far from 0 would cancel. 0 if not finite.
Tensor mean_row(const Tensor& y) {
  if (y.size(-2) == 0) return zeros({1}, y);
  const Tensor m = mean(y.detach(), {-2}, true);
  return where(eq(m - m, 0.0), m, 0.0);
}

/// The rows of t - mean, and after them the square of their length and 1, in this order or the other.
Tensor extended(const Tensor& t, const Tensor& mean, bool length_first) {
  const int64_t k = t.size(-1);
  Shape shape = t.shape();
  shape[shape.size() - 1] = k + 2;
  const Tensor all = empty(shape, t), rows = slice(all, -1, 0, k),
               length = slice(all, -1, length_first ? k : k + 1, 1);
  into(rows, [&] { return t - mean; });
  const Tensor squared = square(rows);
  copy_elements(length, sum(squared, {-1}, true));
  copy_elements(slice(all, -1, length_first ? k + 1 : k, 1), ones(length.shape(), t));
  return all;
}

/// |x|^2 - 2 x y + |y|^2 of the shifted rows, as one product of extended rows.
Tensor squares(const Tensor& x, const Tensor& y) {
  const Tensor mean = mean_row(y), a = extended(x, mean, true), b = extended(y, mean, false),
               rows = slice(b, -1, 0, y.size(-1));
  into(rows, [&] { return rows * -2.0; });
  const Tensor out = matmul(a, transpose(b, -2, -1), "cdist");
  into(out, [&] { return relu(out); });
  return out;
}

Tensor distances(const Tensor& x, const Tensor& y, double p) {
  const int d = x.dim() - 2;
  if (x.size(-1) == 0) return sum(differences(x, y), {-1});
  if (uses_product(x, y, p)) {
    const Tensor out = squares(x, y);
    return into(out, [&] { return sqrt(out); });
  }
  return by_blocks(x, y, [&](int64_t at, int64_t n) {
    return linalg::vector_norm(differences(slice(x, d, at, n), y), p, {-1});
  });
}

/// The derivative of the p-norm by each difference u, times g / distance^(p-1): 0 at distance 0.
Tensor slopes(const Tensor& u, const Tensor& distance, const Tensor& g, double p) {
  const Tensor far = unsqueeze(distance, -1), grad = unsqueeze(g, -1);
  if (p == 1) return sign(u) * grad;
  if (p == 0) return u * 0.0;
  if (std::isinf(p)) {
    const Tensor hits = to(eq(abs(u), far), u.dtype());
    return sign(u) * hits * (grad / sum(hits, {-1}, true));
  }
  const Tensor at_zero = eq(far, 0.0), safe = where(at_zero, 1.0, far);
  const Tensor scale = where(at_zero, 0.0, grad / (p == 2 ? safe : pow(safe, p - 1)));
  if (p == 2) return u * scale;
  const Tensor u_is_zero = eq(u, 0.0), size = where(u_is_zero, 1.0, abs(u));
  return where(u_is_zero, 0.0, sign(u) * pow(size, p - 1)) * scale;
}

void cdist_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor x = node.get(0), y = node.get(1), distance = node.get(2);
  const double p = node.kept<double>();
  const int d = x.dim() - 2;
  if (uses_product(x, y, p)) {
    const Tensor at_zero = eq(distance, 0.0), safe = where(at_zero, 1.0, distance);
    const Tensor w = where(at_zero, 0.0, g / safe), wt = transpose(w, -2, -1);
    const Tensor m = mean_row(y), a = x - m, b = y - m;
    if (node.wants(0)) dx[0] = a * sum(w, {-1}, true) - matmul(w, b);
    if (node.wants(1)) dx[1] = b * sum(wt, {-1}, true) - matmul(wt, a);
    return;
  }
  const Tensor left = by_blocks(x, y, [&](int64_t at, int64_t n) {
    const Tensor s = slopes(differences(slice(x, d, at, n), y), slice(distance, d, at, n),
                            slice(g, d, at, n), p);
    const Tensor right = -sum(s, {-3});
    if (node.wants(1)) dx[1] = dx[1].defined() ? dx[1] + right : right;
    return sum(s, {-2});
  });
  if (node.wants(0)) dx[0] = left;
}
const NodeType kCdist{"cdist", cdist_backward};

}  // namespace

Tensor cdist(const Tensor& x0, const Tensor& y0, double p) {
  if (x0.dim() < 2 || y0.dim() < 2 || x0.size(-1) != y0.size(-1))
    fail("cdist: rows of equal length are needed, got {} and {}", x0.shape(), y0.shape());
  if (!(p >= 0)) fail("cdist: p is {}; it must be 0 or more", show(p));
  check_together("cdist", x0, y0);
  const Dtype dtype = promote(x0.dtype(), y0.dtype());
  if (!is_float(dtype)) fail("cdist: float tensors are needed, got {}; use x:float()", dtype);
  const Shape batch = broadcast("cdist", linalg::batch_of(x0), linalg::batch_of(y0));
  if (batch.size() + 3 > kMaxDims)
    fail("cdist: {} and {} have too many dimensions", x0.shape(), y0.shape());
  const auto whole = [&](const Tensor& t) {
    return expand(to(t, dtype), joined(batch, t.shape().from(t.dim() - 2)));
  };
  const Tensor x = whole(x0), y = whole(y0);
  const Tensor out = distances(x.detach(), y.detach(), p);
  if (wants_grad(x, y))
    record(kCdist, out, {&x, &y}).save(0, x, 0).save(1, y, 1).save(2, out, Node::kOutput).keep(p);
  return out;
}

}  // namespace mt
