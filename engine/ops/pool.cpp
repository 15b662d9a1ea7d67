// pool.cpp -- pooling and interpolation, composed of convolutions, gathers and sums
#include <algorithm>
#include <cmath>

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/ops/index_checks.h"
#include "engine/ops/ops.h"
#include "engine/ops/weighted_gather.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
namespace {

/// The windows along one dimension. In `ceil` mode the last one may end out of bounds, but must
/// begin inside or in the padding before.
Window window_of(const char* name, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                 int64_t dilation, bool ceil) {
  const int64_t span = (kernel - 1) * dilation + 1, padded = size + 2 * padding;
  if (padding > span / 2)
    fail("{}: padding is {}, at most half of the window's {}", name, padding, span);
  if (span > padded && !(ceil && padded - span + stride - 1 >= 0))
    fail("{}: kernel_size is {}, a window spans {}, more than the input of {} with padding {}",
         name, kernel, span, size, 2 * padding);
  int64_t out = (padded - span + (ceil ? stride - 1 : 0)) / stride + 1;
  if (ceil && (out - 1) * stride >= size + padding) --out;
  return {size, kernel, stride, dilation, -padding, out};
}

struct Windows {
  Window d, h, w;
  Tensor planes;  // (planes, height, width), with each slice of a volume as a plane
  Shape result;
};

void check_channels(const char* name, int spatial, const Tensor& x) {
  if (x.size(x.dim() - spatial - 1) == 0)
    fail("{}: the input {} has no channels; only the batch may be empty", name, x.shape());
}

Windows windows_of(const char* name, int spatial, const Tensor& x, const PoolOptions& o) {
  check_image(name, x, spatial);
  check_channels(name, spatial, x);
  if (o.kernel.size() == 0) fail("{}: kernel_size is missing", name);
  const Shape kernel = spatial_numbers(name, "kernel_size", o.kernel, spatial, 1, 1);
  const auto [stride, dilation, padding] =
      window_steps(name, spatial, o.stride.size() ? o.stride : o.kernel, o.dilation, o.padding);
  Windows all;
  all.result = x.shape();
  const int64_t planes = product(x.shape().first(x.dim() - spatial));
  for (int i = 0; i < spatial; ++i) {
    const int d = x.dim() - spatial + i;
    if (x.size(d) == 0) fail("{}: the input {} has a size of 0", name, x.shape());
    const Window one =
        window_of(name, x.size(d), kernel[i], stride[i], padding[i], dilation[i], o.ceil);
    all.result[d] = one.out;
    (i == spatial - 1 ? all.w : i == spatial - 2 ? all.h : all.d) = one;
  }
  checked_count(name, all.result);
  all.planes = reshape(x, {planes * all.d.size, all.h.size, all.w.size});
  return all;
}

/// Each window must contain an element to have a maximum; dilation can step over all of them.
void check_filled(const char* name, const Window& w) {
  for (int64_t p = 0; p < w.out; ++p) {
    check_interrupt();
    const int64_t first = p * w.stride + w.offset;
    const int64_t skip = first < 0 ? (-first + w.dilation - 1) / w.dilation : 0;
    if (skip >= w.kernel || first + skip * w.dilation >= w.size)
      fail("{}: with padding {} and dilation {} a window has no element of an input of {}", name,
           -w.offset, w.dilation, w.size);
  }
}

/// The divisor of each window, as a row of out numbers.
Tensor window_counts(const Window& w, bool include_pad, const Tensor& like) {
  const Tensor n = constants<double>({w.out}, [&](double* count) {
    each_element(w.out, [&](int64_t p) {
      const int64_t first = p * w.stride + w.offset,
                    last = std::min(first + w.kernel, w.size - w.offset);
      count[p] =
          double(include_pad ? last - first : std::min(last, w.size) - std::max<int64_t>(first, 0));
    });
  });
  return to(to(n, like.dtype()), like.device());
}

/// The maximum of each window of x (planes, height, width), and if `indexed` its position in its plane, in the shape
/// of the result.
Pooled largest(const Tensor& x, const Window& h, const Window& w, const Shape& result,
               bool indexed = true) {
  const Tensor index = empty(indexed ? result : Shape{0}, Dtype::i64, x.device()),
               data = contiguous(to_compute_dtype(x.detach())),
               values = empty(result, data.dtype(), x.device());
  MaxPool m;
  m.dtype = data.dtype(), m.planes = x.size(0), m.x = data.data();
  m.values = values.data(), m.index = indexed ? index.argument_as<int64_t>() : nullptr;
  set_windows(m, h, w);
  if (values.numel() > 0) x.device().max_pool(m);
  return {to(values, x.dtype()), index};
}

/// The maxima of volumes: first over the windows of the slices, then along the depth, separately
/// for each place of a slice.
Pooled largest_of_volumes(const Windows& all) {
  const int64_t area = all.h.size * all.w.size, places = all.h.out * all.w.out,
                volumes = all.planes.size(0) / all.d.size;
  const Pooled in_slice = largest(all.planes, all.h, all.w, {volumes, all.d.size * places});
  const Pooled along = largest(reshape(in_slice.values, {volumes, all.d.size, places}), all.d,
                               {places, 1, 1, 1, 0, places}, {volumes, all.d.out * places});
  const auto whole = [&](int64_t n) { return scalar(double(n), Dtype::i64, along.index.device()); };
  const Tensor index = floor_divide(along.index, whole(places)) * whole(area) +
                       gather(in_slice.index, 1, along.index);
  return {reshape(along.values, all.result), reshape(index, all.result)};
}

/// What backward needs in addition to the index: the input's shape, and the number of planes or
/// volumes that positions refer to.
struct PoolInput {
  Shape shape;
  int64_t planes;
};

const NodeType kUnpool{"max_pool_backward", [](Node& node, const Tensor& g, Tensor* dx) {
                         const PoolInput& x = node.kept<PoolInput>();
                         const Tensor index = node.get(0);
                         if (index.numel() == 0) return void(dx[0] = zeros(index.shape(), g));
                         const Shape flat{x.planes, -1};
                         dx[0] = reshape(gather(reshape(g, flat), 1, reshape(index, flat)),
                                         index.shape());
                       }};

/// Scatters the gradient of each value to its position; gradients for the same position are added.
Tensor unpool(const Tensor& g, const Tensor& index, const PoolInput& x) {
  if (index.numel() == 0) return zeros(x.shape, g);
  const Shape flat{x.planes, index.numel() / x.planes};
  if (!is_cpu(g.device()) || !index.is_contiguous()) {
    const Tensor zero = reshape(zeros(x.shape, g), {x.planes, -1});
    return reshape(scatter_add(zero, 1, reshape(index, flat), reshape(g, flat)), x.shape);
  }
  const Tensor from = contiguous(to_compute_dtype(g.detach())),
               sums = empty(x.shape, from.dtype(), g.device());
  MaxPool m;
  m.dtype = from.dtype(), m.backward = true, m.planes = x.planes;
  m.size[0] = m.out[0] = 1;
  m.size[1] = sums.numel() / x.planes, m.out[1] = flat[1];
  m.x = sums.data(), m.values = from.data(), m.index = index.argument_as<int64_t>();
  g.device().max_pool(m);
  const Tensor out = to(sums, g.dtype());
  if (wants_grad(g)) record(kUnpool, out, {&g}).save(0, index, Node::kOther).keep(x);
  return out;
}
const NodeType kMaxPool{"max_pool", [](Node& node, const Tensor& g, Tensor* dx) {
                          dx[0] = unpool(g, node.get(0), node.kept<PoolInput>());
                        }};

}  // namespace

Pooled max_pool(const char* name, int spatial, const Tensor& x, const PoolOptions& o) {
  const Windows all = windows_of(name, spatial, x, o);
  check_filled(name, all.d), check_filled(name, all.h), check_filled(name, all.w);
  const Pooled best =
      spatial == 3 ? largest_of_volumes(all)
                   : largest(all.planes, all.h, all.w, all.result, o.indices || wants_grad(x));
  if (wants_grad(x))
    record(kMaxPool, best.values, {&x})
        .save(0, best.index, Node::kOther)
        .keep(PoolInput{x.shape(), all.planes.size(0) / all.d.size});
  return best;
}

Tensor avg_pool(const char* name, int spatial, const Tensor& x, const PoolOptions& o) {
  if (o.divisor && (*o.divisor == 0 || !std::isfinite(*o.divisor)))
    fail("{}: divisor_override is {}", name, show(*o.divisor));
  const Windows all = windows_of(name, spatial, x, o);
  Tensor sums = window_sums(all.planes, all.h, all.w);
  if (spatial == 3) {
    const int64_t places = all.h.out * all.w.out;
    sums = window_sums(reshape(sums, {all.planes.size(0) / all.d.size, all.d.size, places}), all.d,
                       {places, 1, 1, 1, 0, places});
  }
  sums = reshape(sums, all.result);
  if (o.divisor) return sums / *o.divisor;
  const bool unpadded = all.d.offset == 0 && all.h.offset == 0 && all.w.offset == 0;
  Tensor n(double(all.d.kernel) * double(all.h.kernel) * double(all.w.kernel));
  if (o.ceil || !(o.count_include_pad || unpadded)) {
    n = window_counts(all.d, o.count_include_pad, x);
    for (const Window* one : {&all.h, &all.w})
      n = unsqueeze(n, -1) * window_counts(*one, o.count_include_pad, x);
    n = reshape(n, Shape(all.result.end() - spatial, spatial));
  }
  return sums / n;
}

namespace {

/// The shape of the result, where a requested size of -1 is the input's own; checked.
Shape adaptive_shape(const char* name, int spatial, const Tensor& x, const Shape& out) {
  check_image(name, x, spatial);
  if (out.size() != 1 && out.size() != spatial)
    fail("{}: output_size is {}; give one number, or {}", name, out, spatial);
  Shape result = x.shape(), windows = x.shape();
  const int first = std::max(0, x.dim() - spatial);
  for (int i = 0; i < spatial; ++i) {
    const int d = first + i;
    const int64_t n = out[out.size() == 1 ? 0 : i];
    if (n < -1 || n > INT32_MAX) fail("{}: output_size is {}", name, n);
    if (x.size(d) == 0) fail("{}: the input {} has a size of 0", name, x.shape());
    result[d] = n == -1 ? x.size(d) : n;
    windows[d] = result[d] + x.size(d);  // the maximum number of elements in windows
  }
  checked_count(name, windows);
  checked_count(name, result);
  return result;
}

/// The windows of adaptive pooling: window i is floor(i * size / out) .. ceil((i + 1) * size /
/// out), with its last position repeated up to the longest window.
struct Parts {
  int64_t size, out, most = 0;
  int64_t first(int64_t i) const { return i * size / out; }
  int64_t last(int64_t i) const { return ((i + 1) * size + out - 1) / out; }
  int64_t count(int64_t i) const { return last(i) - first(i); }
  int64_t at(int64_t i, int64_t k) const { return std::min(first(i) + k, last(i) - 1); }
  Parts(int64_t all, int64_t parts) : size(all), out(parts) {
    for (int64_t i = 0; i < out; ++i) most = std::max(most, count(i));
  }
};

/// The means of adaptive windows along one dimension.
Tensor adaptive_means(const Tensor& x, int d, int64_t out) {
  const int64_t size = x.size(d);
  if (out == size) return x;
  if (out == 1) return mean(x, {d}, true);
  Shape split = x.shape();
  if (size % out == 0) {
    split[d] = out;
    split.insert(d + 1, size / out);
    return mean(reshape(x, split), {d + 1});
  }
  const Parts parts(size, out);
  const int64_t most = parts.most;
  const Tensor at = constants<int64_t>({1, most, out}, [&](int64_t* to) {
    each_element(out * most, [&](int64_t i) {
      to[i] = i / out < parts.count(i % out) ? parts.at(i % out, i / out) : -1;
    });
  });
  const Tensor n = constants<double>({out}, [&](double* to) {
    each_element(out, [&](int64_t i) { to[i] = double(parts.count(i)); });
  });
  const Shape counts = sizes_along(x.dim() - d, 0, out);
  return gather_along(x, d, out, at, ones(at.shape(), Dtype::f32)) /
         reshape(to(to(n, x.dtype()), x.device()), counts);
}

}  // namespace

Tensor adaptive_avg_pool(const char* name, int spatial, const Tensor& x, const Shape& out) {
  const Shape result = adaptive_shape(name, spatial, x, out);
  if (product(result) == 0) return zeros(result, x) + sum(x);  // with a gradient
  const Shape last{-3, -2, -1};
  if (product(result.from(x.dim() - spatial)) == 1) return mean(x, last.from(3 - spatial), true);
  Tensor y = x;
  for (int d = x.dim() - spatial; d < x.dim(); ++d) y = adaptive_means(y, d, result[d]);
  return y;
}

Pooled adaptive_max_pool(const char* name, int spatial, const Tensor& x, const Shape& out) {
  const Shape result = adaptive_shape(name, spatial, x, out), size = result.from(x.dim() - spatial);
  check_channels(name, spatial, x);
  const int64_t width = x.size(-1), height = spatial == 2 ? x.size(-2) : 1;
  const int64_t planes = product(x.shape().first(x.dim() - spatial));
  if (product(result) == 0)
    return {zeros(result, x) + sum(x), zeros(result, Dtype::i64, x.device())};
  const Parts h(height, spatial == 2 ? size[0] : 1), w(width, size[spatial - 1]);
  const int64_t places = h.out * w.out, taps = h.most * w.most;
  checked_count(name, {planes, places, taps});
  const Tensor flat = reshape(x, {planes, height * width});
  Tensor at = constants<int64_t>({places * taps}, [&](int64_t* to_fill) {
    for (int64_t i = 0; i < h.out; ++i)
      for (int64_t j = 0; j < w.out; ++j) {
        check_interrupt();
        for (int64_t k = 0; k < h.most; ++k)
          for (int64_t l = 0; l < w.most; ++l) *to_fill++ = h.at(i, k) * width + w.at(j, l);
      }
  });
  at = to(at, x.device());
  const Tensor windows = reshape(index_select(flat.detach(), 1, at), {planes, places, taps});
  const Tensor best = max_along(windows, 2, true).index;
  const Tensor index =
      squeeze(gather(expand(reshape(at, {1, places, taps}), windows.shape()), 2, best), 2);
  return {reshape(gather(flat, 1, index), result), reshape(index, result)};
}

// ---- interpolation ------------------------------------------------------------------------------

Tensor resample(const Tensor& x, int dim, int64_t size, double scale, Interpolation how,
                bool corners) {
  const int64_t from = x.size(dim);
  const int taps = how == Interpolation::linear ? 2 : how == Interpolation::cubic ? 4 : 1;
  if (from == size && (scale == 0 || scale == 1)) return x;
  std::vector<int64_t> at(taps * size);
  std::vector<double> weight(at.size());
  const auto clip = [=](double p) { return std::min(std::max<int64_t>(int64_t(p), 0), from - 1); };
  for (int64_t i = 0; i < size; ++i) {
    check_interrupt();
    if (taps == 1) {  // in float32 as PyTorch
      const float step = scale > 0 ? float(1 / scale) : float(from) / float(size),
                  place = float(i) + (how == Interpolation::nearest_exact ? 0.5f : 0.0f);
      at[i] = clip(std::floor(place * step));
      continue;
    }
    double p =
        corners ? double(i) * (double(from - 1) / double(std::max<int64_t>(size - 1, 1)))
                : (double(i) + 0.5) * (scale > 0 ? 1 / scale : double(from) / double(size)) - 0.5;
    if (how == Interpolation::linear && p < 0) p = 0;
    const double low = std::floor(p), t = p - low;
    for (int k = 0; k < taps; ++k) {
      at[k * size + i] = clip(low + k - (taps == 4 ? 1 : 0));
      weight[k * size + i] = taps == 4 ? cubic_weight(t, k) : k ? t : 1 - t;
    }
  }
  const Tensor places = constants(at);
  if (taps == 1) return index_select(x, dim, to(places, x.device()));
  return gather_along(x, dim, size, places, constants(weight));
}

}  // namespace mt
