// finite_differences.cpp -- the trapezoidal rule and finite differences, composed of slices
#include "engine/ops/statistics.h"

#include "engine/ops/reduce_common.h"
#include "engine/ops/views.h"

namespace mt {
/// Twice the areas between neighbouring samples.
static Tensor areas(const char* name, const Tensor& y0, const Spacing& s, int d) {
  if (y0.dim() == 0) fail("{}: a 0-d tensor has no samples", name);
  if (y0.dtype() == Dtype::b8 || (s.at.defined() && s.at.dtype() == Dtype::b8))
    fail("{}: the input is bool; use x:float()", name);
  const int64_t n = y0.size(d), left = n > 0 ? n - 1 : 0;
  Tensor y = as_float(y0), step(s.apart);
  if (s.at.defined()) {
    Tensor x = s.at;
    if (x.dim() == 1 && y.dim() != 1) {
      if (x.size(0) != n)
        fail("{}: {} coordinates are given for the {} samples of dimension {} of {}", name,
             x.size(0), n, d + 1, y.shape());
      x = reshape(x, sizes_along(y.dim(), d, n));
    }
    while (x.dim() < y.dim()) x = unsqueeze(x, 0);
    const Dtype dtype = promote(y.dtype(), x.dtype());
    y = to(y0, dtype), step = diff(to(x, dtype), 1, d);
  }
  return (slice(y, d, n - left, left) + slice(y, d, 0, left)) * step;
}

Tensor trapezoid(const Tensor& y, const Spacing& s, int64_t dim) {
  const int d = wrap_dim("trapezoid", dim, y.dim());
  return sum(areas("trapezoid", y, s, d), {d}) / 2.0;
}

Tensor cumulative_trapezoid(const Tensor& y, const Spacing& s, int64_t dim) {
  const int d = wrap_dim("cumulative_trapezoid", dim, y.dim());
  return cumsum(areas("cumulative_trapezoid", y, s, d), d) / 2.0;
}

/// The slope of the parabola through three samples u, v, w, with distances h and k between them, at
/// the point at distance t after the middle one.
static Tensor parabola(const Tensor& u, const Tensor& v, const Tensor& w, const Tensor& h,
                       const Tensor& k, const Tensor& t) {
  const Tensor left = (v - u) / h, right = (w - v) / k;
  return (left * (k - t * 2.0) + right * (h + t * 2.0)) / (h + k);
}

static Tensor slope(const Tensor& x, const Spacing& s, int d, int64_t edge_order) {
  const int64_t n = x.size(d);
  if (n < edge_order + 1)
    fail("gradient: dimension {} of {} has {} samples; with edge_order={} at least {} are needed",
         d + 1, x.shape(), n, edge_order, edge_order + 1);
  Tensor step = Tensor(s.apart);  // between neighbours: a number, or n - 1 numbers along d
  if (s.at.defined()) {
    if (s.at.dim() != 1 || s.at.size(0) != n)
      fail("gradient: the coordinates are {}, dimension {} of {} has {} samples", s.at.shape(),
           d + 1, x.shape(), n);
    const Tensor at = to(s.at, promote(as_float(s.at).dtype(), x.dtype()));
    step = reshape(diff(at), sizes_along(x.dim(), d, n - 1));
  }
  // The samples k, k + 1, .. and the steps that follow them.
  const auto f = [&](int64_t k, int64_t count = 1) { return slice(x, d, k, count); };
  const auto h = [&](int64_t k, int64_t count = 1) {
    return s.at.defined() ? slice(step, d, k, count) : step;
  };
  TensorList parts;
  if (edge_order == 1) parts.push_back((f(1) - f(0)) / h(0));
  else parts.push_back(parabola(f(0), f(1), f(2), h(0), h(1), -h(0)));
  if (n > 2)
    parts.push_back(parabola(f(0, n - 2), f(1, n - 2), f(2, n - 2), h(0, n - 2), h(1, n - 2), 0.0));
  if (edge_order == 1) parts.push_back((f(n - 1) - f(n - 2)) / h(n - 2));
  else parts.push_back(parabola(f(n - 3), f(n - 2), f(n - 1), h(n - 3), h(n - 2), h(n - 2)));
  return cat(parts, d);
}

TensorList gradient(const Tensor& given, const std::vector<Spacing>& spacing, const Shape& dims,
                    int64_t edge_order) {
  if (edge_order != 1 && edge_order != 2)
    fail("gradient: edge_order is {}; it must be 1 or 2", edge_order);
  if (given.dtype() == Dtype::b8 || given.dtype() == Dtype::u8)
    fail("gradient: the input is {}; use x:float()", given.dtype());
  dims_mask("gradient", given, dims);  // throws if a dimension is given twice
  const int n = dims.size() ? dims.size() : given.dim();
  if (spacing.size() != 1 && int(spacing.size()) != n)
    fail("gradient: {} spacings are given for {} dimensions", spacing.size(), n);
  const Tensor x = as_float(given);
  TensorList slopes;
  for (int i = 0; i < n && x.dim() > 0; ++i) {
    const int d = dims.size() ? wrap_dim("gradient", dims[i], x.dim()) : i;
    slopes.push_back(slope(x, spacing[spacing.size() == 1 ? 0 : size_t(i)], d, edge_order));
  }
  return slopes;
}

}  // namespace mt
