// normalize.cpp -- layer, batch, instance, group and RMS normalisation on one standardising node
#include <limits>

#include "engine/autograd/graph.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

/// The kernel's view of x: [outer, batch, groups, channels_per_group, spatial]; a row is an index
/// of `batch` and `groups`; weight and bias are [groups, channels_per_group].
struct Sizes {
  int64_t outer, batch, groups, channels_per_group, spatial;
  Shape shape() const { return {outer, batch, groups, channels_per_group, spatial}; }
};

Normalize call(const Tensor& x, const Sizes& n, double eps, bool centred, const Tensor& out,
               const Tensor& mean, const Tensor& rate) {
  Normalize c{};
  c.dtype = x.dtype(), c.eps = eps, c.centred = centred;
  c.outer = n.outer, c.batch = n.batch, c.groups = n.groups,
  c.channels_per_group = n.channels_per_group, c.spatial = n.spatial;
  c.x = x.data(), c.out = out.data(), c.mean = mean.data(), c.rate = rate.data();
  return c;
}
const void* data_of(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

/// The sizes that a node saves in addition to x, the weight, means and rates.
struct Rows {
  int64_t outer, channels_per_group;
  double eps;
  bool centred;
};

/// Backward in recorded operations: rate and y are recomputed from x, so that they are part of the
/// graph.
void recorded_backward(Node& node, const Sizes& n, const Tensor& given, const Tensor& weight,
                       const Tensor& g, Tensor* dx) {
  const Shape row{0, 3, 4}, others{0, 1, 4};  // what a row and what a weight is summed over
  const auto& [outer, channels_per_group, eps, centred] = node.kept<Rows>();
  const Tensor x = reshape(given, n.shape()), slope = reshape(g, n.shape());
  const Tensor centre = centred ? x - mean(x, row, true) : x;
  const Tensor rate = rsqrt(mean(square(centre), row, true) + eps), y = centre * rate;
  if (node.wants(1)) dx[1] = reshape(sum(slope * y, others), weight.shape());
  if (node.wants(2)) dx[2] = reshape(sum(slope, others), weight.shape());
  if (!node.wants(0)) return;
  const Tensor s =
      weight.defined() ? slope * reshape(weight, {1, 1, n.groups, n.channels_per_group, 1}) : slope;
  const Tensor tangent = s - y * mean(s * y, row, true);
  dx[0] = reshape((centred ? tangent - mean(s, row, true) : tangent) * rate, given.shape());
}

void normalize_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor given = node.get(0), mean = node.get(2), rate = node.get(3);
  const Tensor weight = node.get(1);
  const Rows& kept = node.kept<Rows>();
  Sizes n{kept.outer, rate.size(0), rate.size(1), kept.channels_per_group, 1};
  n.spatial = given.numel() / (n.outer * n.batch * n.groups * n.channels_per_group);
  if (grad_enabled()) return recorded_backward(node, n, given, weight, g, dx);
  const Tensor x = contiguous(given), slope = contiguous(g);
  const Tensor w = contiguous(weight);
  const Tensor out = empty(x.shape(), x);
  Normalize c = call(x, n, kept.eps, kept.centred, out, mean, rate);
  c.weight = data_of(w), c.grad = slope.data();
  const Shape parts{normalize_parts(c), n.groups * n.channels_per_group};
  Tensor part[3];
  for (int i = 1; i < 3; ++i)
    if (node.wants(i)) part[i] = zeros(parts, x);
  c.weight_grad = const_cast<void*>(data_of(part[1]));
  c.bias_grad = const_cast<void*>(data_of(part[2]));
  x.device().normalize(c);
  dx[0] = out;
  for (int i = 1; i < 3; ++i)
    if (node.wants(i)) dx[i] = reshape(parts[0] > 1 ? sum(part[i], {0}) : part[i], weight.shape());
}

const NodeType kNormalize{"normalize", normalize_backward};

/// `shape` must be the last sizes of x.
void check_last(const char* name, const Tensor& x, const Shape& shape) {
  check_float(name, x);
  if (shape.size() == 0) fail("{}: normalized_shape is empty", name);
  const int first = x.dim() - shape.size();
  for (int d = 0; d < shape.size(); ++d)
    if (first < 0 || x.size(first + d) != shape[d])
      fail("{}: normalized_shape is {}, the input {}; its last sizes must be these", name, shape,
           x.shape());
}

Tensor scaled(const Tensor& y, const Tensor& weight, const Tensor& bias) {
  const Tensor z = weight.defined() ? y * weight : y;
  return bias.defined() ? z + bias : z;
}

/// Checks the vectors that belong to the channels of x: all have one length.
void check_channels(const char* name, const Tensor& x, int least, const Tensor& running_mean,
                    const Tensor& running_var, const Tensor& weight, const Tensor& bias) {
  check_float(name, x);
  if (x.dim() < least)
    fail("{}: the input is {}; expected at least {} dimensions, batch and channels first", name,
         x.shape(), least);
  const Shape channels{x.size(1)};
  for (const Tensor& t : {running_mean, weight})
    if (t.defined() && t.dim() == 1 && t.size(0) != x.size(1))
      fail("{}: the input {} has {} channels, the layer {}", name, x.shape(), x.size(1), t.size(0));
  check_beside(name, "running_mean", running_mean, x, channels);
  check_beside(name, "running_var", running_var, x, channels);
  // Integers would truncate the updates.
  if (running_mean.defined()) check_float(name, running_mean, "running_mean is");
  if (running_var.defined()) check_float(name, running_var, "running_var is");
  check_beside(name, "weight", weight, x, channels);
  check_beside(name, "bias", bias, x, channels);
}

/// running = (1 - momentum) running + momentum batch, in place and outside the graph.
void update(const Tensor& running, const Tensor& batch, double momentum) {
  if (!running.defined()) return;
  NoGrad off;
  const Dtype d = compute_dtype(running.dtype());  // 16-bit floats are rounded once
  copy_(running, to(running, d) * (1 - momentum) + to(batch, d) * momentum);
}

/// The batch statistics for the update of the running ones.
struct Statistics {
  Tensor mean, variance;
};

/// x with mean 0 (where `centred`) and variance 1 in each row, times weight, plus bias.
Tensor standardize(const char* name, const Tensor& given, const Sizes& n, double eps,
                   const Tensor& weight, const Tensor& bias, bool centred = true,
                   Statistics* statistics = nullptr) {
  check_float(name, given);
  if (!(eps >= 0)) fail("{}: eps is {}, it must be at least 0", name, show(eps));
  if (is_reduced_float(given.dtype())) {  // recorded: backward reads float32
    const auto wider = [](const Tensor& t) {
      return t.defined() && is_reduced_float(t.dtype()) ? to(t, Dtype::f32) : t;
    };
    const Tensor y =
        standardize(name, wider(given), n, eps, wider(weight), wider(bias), centred, statistics);
    const bool stays = (weight.defined() && !is_reduced_float(weight.dtype())) ||
                       (bias.defined() && !is_reduced_float(bias.dtype()));
    return stays ? y : to(y, given.dtype());
  }
  const bool fused = weight.defined() && weight.dtype() == given.dtype() &&
                     (!bias.defined() || bias.dtype() == given.dtype());
  const Tensor none, &w = fused ? weight : none, &b = fused ? bias : none;
  Tensor out, mean, rate, variance;
  {
    NoGrad off;
    const Tensor x = contiguous(given), dense_w = contiguous(w), dense_b = contiguous(b);
    const Shape rows{n.batch, n.groups};
    out = empty(x.shape(), x);
    mean = empty(rows, x), rate = empty(rows, x);
    variance = empty(rows, x);
    Normalize c = call(x, n, eps, centred, out, mean, rate);
    c.variance = variance.data(), c.weight = data_of(dense_w), c.bias = data_of(dense_b);
    x.device().normalize(c);
  }
  if (statistics) *statistics = {mean, variance};
  if (wants_grad(given, w, b))
    record(kNormalize, out, {&given, &w, &b})
        .save(0, given, 0)
        .save(1, w, 1)
        .save(2, mean, Node::kOther)
        .save(3, rate, Node::kOther)
        .keep(Rows{n.outer, n.channels_per_group, eps, centred});
  if (fused || !(weight.defined() || bias.defined())) return out;
  const auto view = [&](const Tensor& t) {
    return t.defined() ? reshape(t, {1, 1, n.groups, n.channels_per_group, 1}) : t;
  };
  return reshape(scaled(reshape(out, n.shape()), view(weight), view(bias)), given.shape());
}

/// Backward for given statistics, which have no gradient themselves.
void with_statistics_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor rate = rsqrt(node.get(3) + Tensor(node.kept<double>()));
  Shape others{0};
  for (int d = 2; d < g.dim(); ++d) others.push(d);
  if (node.wants(0)) dx[0] = g * by_channel(scaled(rate, node.get(1), {}), g);
  if (node.wants(1)) dx[1] = sum(g * (node.get(0) - by_channel(node.get(2), g)), others) * rate;
  if (node.wants(2)) dx[2] = sum(g, others);
}
const NodeType kWithStatistics{"batch_norm", with_statistics_backward};

/// Normalises x with each channel's mean and variance; all have one dtype, not a 16-bit one.
Tensor with_statistics(const Tensor& x, const Tensor& mean, const Tensor& variance,
                       const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor out = empty(x.shape(), x);
  {
    NoGrad off;
    const Tensor all[] = {contiguous(x), contiguous(mean), contiguous(variance), contiguous(weight),
                          contiguous(bias)};
    const int64_t channels = x.size(1);
    const Tensor rate = empty({channels}, x);
    const Sizes n{1, x.size(0), channels, 1, x.numel() / (x.size(0) * channels)};
    Normalize c = call(all[0], n, eps, true, out, all[1], rate);
    c.given = true, c.variance = all[2].data();
    c.weight = data_of(all[3]), c.bias = data_of(all[4]);
    x.device().normalize(c);
  }
  if (!wants_grad(x, weight, bias)) return out;
  Node& node = record(kWithStatistics, out, {&x, &weight, &bias});
  node.keep(eps);
  if (node.wants(1)) node.save(0, x, 0);
  node.save(1, weight, 1);
  node.save(2, clone(mean), Node::kOther);  // these may be updated later
  node.save(3, clone(variance), Node::kOther);
  return out;
}

/// The sizes for rows of the last dimensions, where each element has its own weight.
Sizes last_sizes(const Tensor& x, const Shape& shape) {
  const int64_t row = checked_count("normalized_shape", shape);
  return {1, x.numel() / row, 1, row, 1};
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  check_last("layer_norm", x, shape);
  check_beside("layer_norm", "weight", weight, x, shape);
  check_beside("layer_norm", "bias", bias, x, shape);
  if (x.numel() == 0) return scaled(clone(x), weight, bias);
  return standardize("layer_norm", x, last_sizes(x, shape), eps, weight, bias);
}

Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight,
                std::optional<double> eps) {
  check_last("rms_norm", x, shape);
  check_beside("rms_norm", "weight", weight, x, shape);
  const double epsilon = x.dtype() == Dtype::f64 ? std::numeric_limits<double>::epsilon()
                                                 : double(std::numeric_limits<float>::epsilon());
  if (x.numel() == 0) return scaled(clone(x), weight, {});
  return standardize("rms_norm", x, last_sizes(x, shape), eps.value_or(epsilon), weight, {}, false);
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum,
                  double eps) {
  const char* name = "batch_norm";
  check_channels(name, x, 2, running_mean, running_var, weight, bias);
  if (!training) {
    if (!running_mean.defined() || !running_var.defined())
      fail("{}: without training, running_mean and running_var are needed", name);
    if (!(eps >= 0)) fail("{}: eps is {}, it must be at least 0", name, show(eps));
    if (wants_grad(running_mean, running_var) || x.numel() == 0) {
      const Tensor rate = rsqrt(by_channel(running_var, x) + eps);
      const Tensor scale = weight.defined() ? rate * by_channel(weight, x) : rate;
      return scaled(x - by_channel(running_mean, x), scale, by_channel(bias, x));
    }
    Dtype dtype = promote(promote(x.dtype(), running_mean.dtype()), running_var.dtype());
    for (const Tensor& t : {weight, bias})
      if (t.defined()) dtype = promote(dtype, t.dtype());
    const auto wider = [&](const Tensor& t) { return to(t, compute_dtype(dtype)); };
    return to(with_statistics(wider(x), wider(running_mean), wider(running_var), wider(weight),
                              wider(bias), eps),
              dtype);
  }
  const int64_t n = x.size(1) > 0 ? x.numel() / x.size(1) : 0;
  if (n == 1)
    fail("{}: the variance of one value per channel is undefined; training needs more than {}",
         name, x.shape());
  if (x.numel() == 0) return scaled(clone(x), by_channel(weight, x), by_channel(bias, x));
  // If the spatial size is small, but not 1 on a CPU, the channels are transposed to be contiguous first.
  const int64_t batch = x.size(0), channels = x.size(1), spatial = n / batch;
  const bool along = batch == 1 || spatial >= 16 || (spatial == 1 && is_cpu(x.device()));
  const Tensor z = along ? x : contiguous(transpose(x, 0, 1));
  Statistics s;
  const Sizes sizes{along ? batch : 1, 1, channels, 1, along ? spatial : n};
  const Tensor y = standardize(name, z, sizes, eps, weight, bias, true, &s);
  update(running_mean, reshape(s.mean, {channels}), momentum);
  update(running_var, reshape(s.variance, {channels}) * (double(n) / double(n - 1)), momentum);
  return along ? y : contiguous(transpose(y, 0, 1));
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias, bool use_input_stats,
                     double momentum, double eps) {
  const char* name = "instance_norm";
  check_channels(name, x, 3, running_mean, running_var, weight, bias);
  if (!use_input_stats)
    return batch_norm(x, running_mean, running_var, weight, bias, false, momentum, eps);
  const int64_t n = product(x.shape().from(2));
  if (n == 1) fail("{}: the variance of one value per channel is undefined: {}", name, x.shape());
  if (x.numel() == 0) return scaled(clone(x), by_channel(weight, x), by_channel(bias, x));
  const Shape each{x.size(0), x.size(1)};
  Statistics s;
  const Tensor y = standardize(name, x, {1, each[0], each[1], 1, n}, eps, weight, bias, true, &s);
  update(running_mean, mean(s.mean, {0}), momentum);
  update(running_var, mean(s.variance, {0}) * (double(n) / double(n - 1)), momentum);
  return y;
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const char* name = "group_norm";
  check_channels(name, x, 2, {}, {}, weight, bias);
  if (x.size(0) > 0 && x.numel() == 0)
    fail("{}: the input is {}; only the batch may be empty", name, x.shape());
  if (groups < 1 || x.size(1) % groups != 0)
    fail("{}: num_groups is {}, which does not divide the {} channels of {}", name, groups,
         x.size(1), x.shape());
  if (x.numel() == 0) return scaled(clone(x), by_channel(weight, x), by_channel(bias, x));
  const int64_t channels_per_group = x.size(1) / groups,
                spatial = x.numel() / (x.size(0) * x.size(1));
  return standardize(name, x, {1, x.size(0), groups, channels_per_group, spatial}, eps, weight,
                     bias);
}

}  // namespace mt
