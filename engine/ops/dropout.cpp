// dropout.cpp -- dropout of elements and of channels, and the activations rrelu and glu
#include <cmath>

#include "engine/ops/ops.h"

namespace mt {
namespace {

void check_dropout(const char* name, const Tensor& x, double p) {
  if (!(p >= 0 && p <= 1)) fail("{}: p is {}, it must lie in 0..1", name, show(p));
  check_float(name, x);
}

/// 0 or 1 / (1 - p) at random: element i depends only on the random stream, not on threads.
Tensor dropout_mask(const Tensor& x, const Shape& shape, double p) {
  const Tensor kept = ge(rand(shape, Dtype::f32, x.device()), p);
  return to(kept, x.dtype()) * (p < 1 ? 1 / (1 - p) : 0);
}

/// The shape of x with size 1 for the dimensions from `first` on.
Shape channels_of(const Tensor& x, int first) {
  Shape shape = x.shape();
  for (int d = first; d < x.dim(); ++d) shape[d] = 1;
  return shape;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  check_dropout("dropout", x, p);
  return training && p > 0 ? x * dropout_mask(x, x.shape(), p) : x;
}

Tensor feature_dropout(const char* name, int spatial, const Tensor& x, double p, bool training) {
  check_dropout(name, x, p);
  // As in PyTorch, dropout2d takes three dimensions as a batch.
  const bool rows = spatial == 2 && x.dim() == 3, batch = rows || x.dim() == spatial + 2;
  if (!batch && (spatial == 2 || x.dim() != spatial + 1))
    fail("{}: the input is {}; expected (batch x channels x {}), or {}", name, x.shape(),
         spatial_names(spatial),
         spatial == 2 ? "(batch x channels x length)" : "the same without batch");
  if (!training || p == 0) return x;
  return x * dropout_mask(x, channels_of(x, batch ? 2 : 1), p);
}

Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  check_dropout("alpha_dropout", x, p);
  if (!training || p == 0) return x;
  if (p == 1) return x * zeros_like(x);
  constexpr double alpha = 1.7580993408473766;  // -selu(-inf): dropped elements become its negative
  const double a = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
  const Tensor kept = dropout_mask(x, x.shape(), p) * (1 - p);
  const Tensor shift = (kept - 1.0) * (alpha * a) + (alpha * a * p);
  return x * (kept * a) + shift;
}

Tensor rrelu(const Tensor& x, double lower, double upper, bool training) {
  check_float("rrelu", x);
  if (!(lower <= upper) || std::isinf(lower) || std::isinf(upper))
    fail("rrelu: slopes from {} to {}; lower must be at most upper, and both finite", show(lower),
         show(upper));
  if (!training) return leaky_relu(x, (lower + upper) / 2);
  const Tensor slope =
      rand(x.shape(), compute_dtype(x.dtype()), x.device()) * (upper - lower) + lower;
  return x * where(gt(x, 0.0), 1.0, to(slope, x.dtype()));
}

const Tensor& dropout_(const Tensor& x, double p, bool training) {
  check_dropout("dropout_", x, p);
  check_writable("dropout_", x);
  if (!training || p == 0) return x;
  return x *= dropout_mask(x, x.shape(), p);
}

Tensor glu(const Tensor& x, Dim dim) {
  const int d = wrap_dim("glu", dim, x.dim());
  if (x.dim() == 0 || x.size(d) % 2 != 0)
    fail("glu: {} cannot be halved along dimension {}", x.shape(), d + 1);
  const int64_t half = x.size(d) / 2;
  return slice(x, d, 0, half) * sigmoid(slice(x, d, half, half));
}

}  // namespace mt
