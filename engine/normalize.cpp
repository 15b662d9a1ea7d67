// normalize.cpp -- layer, batch, instance, group and RMS normalisation over one standardising node
#include "engine/normalize.h"

#include <limits>

#include "engine/autograd.h"
#include "engine/ops.h"

namespace mt {
namespace {

Shape dims_from(unsigned mask) {
  Shape dims;
  for (int d = 0; mask >> d; ++d)
    if (mask >> d & 1) dims.push(d);
  return dims;
}

struct Standard {
  Tensor mean, variance, rate, result;
};
Standard moments(const Tensor& x, const Shape& dims, double eps) {
  Standard m;
  m.mean = mean(x, dims, true);
  const Tensor centred = x - m.mean;
  m.variance = mean(square(centred), dims, true);
  m.rate = rsqrt(m.variance + Tensor(eps));
  m.result = centred * m.rate;
  return m;
}

/// dx = rate (g - mean of g - y mean of g y). While gradients are recorded, rate and y are computed
/// anew from x, so that they are part of the graph.
const NodeType kStandardize{
    "standardize", [](Node& node, const Tensor& g, Tensor* dx) {
      const Shape dims = dims_from(unsigned(node.number[0]));
      Tensor rate, y;
      if (grad_enabled()) {
        const Standard m = moments(node.get(0), dims, node.number[1]);
        rate = m.rate, y = m.result;
      } else {
        node.get(0);  // refuses an x that was changed in place
        y = node.get(1), rate = node.get(2);
      }
      dx[0] = (g - mean(g, dims, true) - y * mean(g * y, dims, true)) * rate;
    }};

void check_float(const char* name, const Tensor& x) {
  if (!is_float(x.dtype()))
    fail("{}: the input is {}; use x:float()", name, dtype_name(x.dtype()));
}

/// The sizes in `shape` must be x's last ones.
Shape last_dims(const char* name, const Tensor& x, const Shape& shape) {
  check_float(name, x);
  if (shape.size() == 0) fail("{}: normalized_shape is empty", name);
  const int first = x.dim() - shape.size();
  Shape dims;
  for (int d = 0; d < shape.size(); ++d) {
    if (first < 0 || x.size(first + d) != shape[d])
      fail("{}: normalized_shape is {}, the input {}; its last sizes must be these", name,
           to_string(shape), to_string(x.shape()));
    dims.push(first + d);
  }
  return dims;
}

void check_shape(const char* name, const char* what, const Tensor& t, const Shape& shape) {
  if (t.defined() && !(t.shape() == shape))
    fail("{}: {} is {}, expected {}", name, what, to_string(t.shape()), to_string(shape));
}

Tensor scaled(const Tensor& y, const Tensor& weight, const Tensor& bias) {
  const Tensor z = weight.defined() ? y * weight : y;
  return bias.defined() ? z + bias : z;
}

/// A number for each channel, seen beside x.
Tensor by_channel(const Tensor& t, const Tensor& x) {
  if (!t.defined()) return t;
  Shape shape{t.numel()};
  for (int d = 2; d < x.dim(); ++d) shape.push(1);
  return reshape(t, shape);
}

/// The vectors beside the channels of x, all of one length, checked.
void check_channels(const char* name, const Tensor& x, int least, const Tensor& running_mean,
                    const Tensor& running_var, const Tensor& weight, const Tensor& bias) {
  check_float(name, x);
  if (x.dim() < least)
    fail("{}: the input is {}; expected at least {} dimensions, batch and channels first", name,
         to_string(x.shape()), least);
  const Shape channels{x.size(1)};
  check_shape(name, "running_mean", running_mean, channels);
  check_shape(name, "running_var", running_var, channels);
  check_shape(name, "weight", weight, channels);
  check_shape(name, "bias", bias, channels);
}

/// running = (1 - momentum) running + momentum now, in place and outside the graph.
void move(const Tensor& running, const Tensor& now, double momentum) {
  if (!running.defined()) return;
  NoGrad off;
  copy_(running, running * Tensor(1 - momentum) + to(now, running.dtype()) * Tensor(momentum));
}

}  // namespace

Tensor standardize(const char* name, const Tensor& x, const Shape& dims, double eps,
                   Tensor* mean_out, Tensor* variance_out) {
  check_float(name, x);
  if (!(eps >= 0)) fail("{}: eps is {}, it must be at least 0", name, show(eps));
  if (x.numel() == 0) return clone(x);
  Standard m;
  {
    NoGrad off;
    m = moments(x, dims, eps);
  }
  if (mean_out) *mean_out = m.mean;
  if (variance_out) *variance_out = m.variance;
  if (wants_grad(x)) {
    Node& node = record(kStandardize, m.result, {&x});
    node.save(0, x, 0);
    node.save(1, m.result, Node::kOutput);
    node.save(2, m.rate, Node::kOther);
    unsigned mask = 0;
    for (int64_t d : dims) mask |= 1u << d;
    node.number[0] = mask, node.number[1] = eps;
  }
  return m.result;
}

Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const Shape dims = last_dims("layer_norm", x, shape);
  check_shape("layer_norm", "weight", weight, shape);
  check_shape("layer_norm", "bias", bias, shape);
  return scaled(standardize("layer_norm", x, dims, eps), weight, bias);
}

Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight, double eps) {
  const Shape dims = last_dims("rms_norm", x, shape);
  check_shape("rms_norm", "weight", weight, shape);
  if (eps < 0)
    eps = x.dtype() == Dtype::f64 ? std::numeric_limits<double>::epsilon()
                                  : double(std::numeric_limits<float>::epsilon());
  if (x.numel() == 0) return clone(x);
  return scaled(x * rsqrt(mean(square(x), dims, true) + Tensor(eps)), weight, {});
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum,
                  double eps) {
  const char* name = "batch_norm";
  check_channels(name, x, 2, running_mean, running_var, weight, bias);
  const Tensor w = by_channel(weight, x), b = by_channel(bias, x);
  if (!training) {
    if (!running_mean.defined() || !running_var.defined())
      fail("{}: without training, running_mean and running_var are needed", name);
    if (!(eps >= 0)) fail("{}: eps is {}, it must be at least 0", name, show(eps));
    const Tensor rate = rsqrt(by_channel(running_var, x) + Tensor(eps));
    return scaled(x - by_channel(running_mean, x), w.defined() ? rate * w : rate, b);
  }
  const int64_t n = x.size(1) > 0 ? x.numel() / x.size(1) : 0;
  if (n == 1)
    fail("{}: one value for each channel has no variance; training needs more than {}", name,
         to_string(x.shape()));
  Shape dims{0};
  for (int d = 2; d < x.dim(); ++d) dims.push(d);
  Tensor middle, variance;
  const Tensor y = standardize(name, x, dims, eps, &middle, &variance);
  if (middle.defined()) {
    NoGrad off;
    move(running_mean, reshape(middle, {x.size(1)}), momentum);
    move(running_var, reshape(variance, {x.size(1)}) * Tensor(double(n) / double(n - 1)), momentum);
  }
  return scaled(y, w, b);
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias, bool use_input_stats,
                     double momentum, double eps) {
  const char* name = "instance_norm";
  check_channels(name, x, 3, running_mean, running_var, weight, bias);
  if (!use_input_stats)
    return batch_norm(x, running_mean, running_var, weight, bias, false, momentum, eps);
  Shape dims;
  int64_t n = 1;
  for (int d = 2; d < x.dim(); ++d) dims.push(d), n *= x.size(d);
  if (n == 1)
    fail("{}: one value for each channel has no variance: {}", name, to_string(x.shape()));
  Tensor middle, variance;
  const Tensor y = standardize(name, x, dims, eps, &middle, &variance);
  if (middle.defined()) {
    NoGrad off;
    const Shape each{x.size(0), x.size(1)};
    move(running_mean, mean(reshape(middle, each), {0}), momentum);
    move(running_var, mean(reshape(variance, each), {0}) * Tensor(double(n) / double(n - 1)),
         momentum);
  }
  return scaled(y, by_channel(weight, x), by_channel(bias, x));
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const char* name = "group_norm";
  check_channels(name, x, 2, {}, {}, weight, bias);
  if (groups < 1 || x.size(1) % groups != 0)
    fail("{}: num_groups is {}, which does not divide the {} channels of {}", name, groups,
         x.size(1), to_string(x.shape()));
  if (x.numel() == 0) return clone(x);
  const Tensor y = standardize(
      name, reshape(x, {x.size(0), groups, x.numel() / x.size(0) / groups}), {2}, eps);
  return scaled(reshape(y, x.shape()), by_channel(weight, x), by_channel(bias, x));
}

}  // namespace mt
