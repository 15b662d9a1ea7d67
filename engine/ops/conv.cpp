// conv.cpp -- convolutions: one sum over three tensors, in which each is the gradient of another
#include "engine/ops/conv.h"

#include <algorithm>

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/libraries/onednn_conv.h"

namespace mt {
namespace {

/// The arguments of the verb; a node keeps their sizes.
struct Geometry : Conv {
  Shape x() const { return {batch, groups * inputs, size[0], size[1]}; }
  Shape w() const { return {groups * outputs, inputs, kernel[0], kernel[1]}; }
  Shape y() const { return {batch, groups * outputs, out[0], out[1]}; }
};

// The three tensors of the sum, and for each the two others from which it is computed, in the order of the arguments.
enum Role { kX, kW, kY };
constexpr Role kOthers[3][2] = {{kW, kY}, {kX, kY}, {kX, kW}};

/// The verb's arguments without the arrays, for the dtype and device of `like`.
Conv arguments(Role result, const Tensor& like, const Tensor& bias, const Geometry& g) {
  Conv c = g;
  constexpr ConvPart kPart[] = {ConvPart::input, ConvPart::weight, ConvPart::output};
  c.part = kPart[result], c.dtype = like.dtype(), c.tf32 = lets_tf32(c.dtype, like.device());
  c.bias = bias.defined() ? bias.data() : nullptr;
  return c;
}

/// With stride 1 the gradient of x is a convolution of y with the flipped weight, which oneDNN 2.6 computes up to
/// twice as fast. Returns its arguments, in which x and y are exchanged. Returns `c` for another part or stride, for
/// negative padding, and for narrow images, where the convolution is slower.
Conv forward_form(const Conv& c) {
  constexpr int64_t kMinWidth = 6;
  if (c.part != ConvPart::input || c.dtype != Dtype::f32 || c.stride[0] != 1 || c.stride[1] != 1 ||
      c.size[1] < kMinWidth)
    return c;
  Conv f = c;
  f.part = ConvPart::output, f.flipped = true;
  std::swap(f.inputs, f.outputs);
  for (int d = 0; d < 2; ++d) {
    const int64_t reach = (c.kernel[d] - 1) * c.dilation[d];
    std::swap(f.size[d], f.out[d]);
    f.offset[d] = -c.offset[d] - reach;
    if (f.offset[d] > 0 || f.out[d] + f.offset[d] + reach < f.size[d]) return c;
  }
  return f;
}

// ---- strides that divide the kernel ---------------------------------------------------------------

// Blocks of stride x stride positions become channels, and the convolution of the blocks has stride 1, for which
// oneDNN has faster kernels. Patches of an image, such as those of a vision transformer, become a matrix product.

/// The convolution of the blocks; its stride is 0 if the stride does not divide the kernel.
Geometry blocks_of(const Geometry& g) {
  Geometry b = g;
  for (int d = 0; d < 2; ++d) {
    if (g.dilation[d] != 1 || g.kernel[d] % g.stride[d] != 0 || area(g.stride) == 1) return {};
    b.inputs *= g.stride[d], b.kernel[d] /= g.stride[d];
    b.size[d] = g.out[d] + b.kernel[d] - 1, b.stride[d] = 1, b.offset[d] = 0;
  }
  return b;
}

/// Pads x with zeros and crops it to what the windows cover; with sign -1 the reverse.
Tensor pad_to_windows(const Tensor& x, const Geometry& g, const Geometry& blocks, int64_t sign) {
  std::vector<int64_t> sides;
  for (int d = 1; d >= 0; --d) {
    sides.push_back(-g.offset[d] * sign);
    sides.push_back((blocks.size[d] * g.stride[d] + g.offset[d] - g.size[d]) * sign);
  }
  return sides == std::vector<int64_t>(4) ? x : pad(x, sides);
}

Tensor compute(Role result, const Tensor* given, const Tensor& given_bias, const Geometry& g);

Tensor compute_in_blocks(Role result, const Tensor* given, const Tensor& bias, const Geometry& g,
                         const Geometry& blocks) {
  const auto [down, across] = g.stride;
  const Tensor &x = given[kX], &w = given[kW];
  const Tensor operands[] = {
      result == kX ? x : space_to_depth(pad_to_windows(x, g, blocks, 1), down, across),
      result == kW ? w : space_to_depth(w, down, across), given[kY]};
  const Tensor out = compute(result, operands, bias, blocks);
  if (result == kY) return out;
  const Tensor whole = depth_to_space(out, down, across);
  return result == kW ? whole : pad_to_windows(whole, g, blocks, -1);
}

/// Calls the verb. `given` holds the two other tensors at the indices of their roles.
Tensor compute(Role result, const Tensor* given, const Tensor& given_bias, const Geometry& g) {
  NoGrad off;
  const Tensor &one = given[kOthers[result][0]], bias = contiguous(given_bias);
  Conv c = arguments(result, one, bias, g);
  const bool cpu = is_cpu(one.device());
  const auto through_float32 = [&] {
    const Tensor wide[] = {to_compute_dtype(given[kX]), to_compute_dtype(given[kW]),
                           to_compute_dtype(given[kY])};
    return to(compute(result, wide, to_compute_dtype(bias), g), one.dtype());
  };
  const Geometry blocks = blocks_of(g);
  const bool in_blocks =
      cpu && blocks.stride[0] > 0 && one.numel() > 0 && (result != kY || area(blocks.kernel) == 1);
  if (in_blocks &&
      onednn::convolution_scratch(forward_form(arguments(result, one, bias, blocks))) > 0)
    return compute_in_blocks(result, given, bias, g, blocks);
  const Conv forward = forward_form(c);
  const int64_t for_onednn = cpu ? onednn::convolution_scratch(forward) : 0;
  if (for_onednn > 0) c = forward;
  if (product_dtype(c.dtype, one.device()) != c.dtype && for_onednn == 0) return through_float32();
  Tensor out = empty(result == kX ? g.x() : result == kW ? g.w() : g.y(), one);
  if (out.numel() == 0) return out;
  if (given[kOthers[result][1]].numel() == 0 || one.numel() == 0) {
    fill_(out, 0);
    if (bias.defined()) copy_(out, reshape(bias, {1, -1, 1, 1}));
    return out;
  }
  Tensor operands[3];
  for (const Role r : kOthers[result]) operands[r] = contiguous(given[r]);
  operands[result] = out;
  if (c.flipped) std::swap(operands[kX], operands[kY]);
  c.x = operands[kX].data(), c.w = operands[kW].data(), c.y = operands[kY].data();
  Tensor scratch;  // a GPU allocates its own
  if (const int64_t bytes = cpu ? std::max(for_onednn, conv_scratch(c)) : 0) {
    scratch = empty({bytes}, Dtype::u8);
    c.scratch = scratch.data();
  }
  if (out.device().conv(c)) return out;
  if (!is_half(c.dtype)) require_openblas("conv");
  return through_float32();  // oneDNN could not allocate memory
}

void conv_backward(Node& node, const Tensor& g, Tensor* dx);
const NodeType kParts[3] = {
    {"conv_transpose", conv_backward}, {"conv_weight", conv_backward}, {"conv", conv_backward}};

/// Computes the tensor of role `result` from the two others, recorded.
Tensor record_part(Role result, const Tensor (&given)[3], const Tensor& bias, const Geometry& g) {
  const auto [first, second] = kOthers[result];
  const Tensor &a = given[first], &b = given[second];
  Tensor out = compute(result, given, bias, g);
  if (!wants_grad(a, b, bias)) return out;
  record(kParts[result], out, {&a, &b, &bias}).save_for(1, 0, a, 0).save_for(0, 1, b, 1).keep(g);
  return out;
}

/// The gradients are the same sum, in which the incoming gradient replaces the result.
void conv_backward(Node& node, const Tensor& grad, Tensor* dx) {
  const Role result = Role(node.type - kParts);
  Tensor given[3];
  given[result] = grad;
  for (int i = 0; i < 2; ++i) given[kOthers[result][i]] = node.get(i);
  for (int i = 0; i < 2; ++i)
    if (node.wants(i)) dx[i] = record_part(kOthers[result][i], given, {}, node.kept<Geometry>());
  if (node.wants(2)) dx[2] = sum(grad, {0, 2, 3});
}

// ---- patches ------------------------------------------------------------------------------------

/// The patches of images, as columns (n, c * kernel, windows); or of volumes with windows only along the depth, as
/// images (n * windows, c * kernel, height, width).
struct Patches {
  Shape whole, patch_shape;
  Window window[2];
  int windows;
  static Patches of_image(int64_t n, int64_t c, const Window& h, const Window& w) {
    return {{n, c, h.size, w.size}, {n, c * h.kernel * w.kernel, h.out * w.out}, {h, w}, 2};
  }
  static Patches of_volume(int64_t n, int64_t c, const Window& d, int64_t h, int64_t w) {
    return {{n, c, d.size, h, w}, {n * d.out, c * d.kernel, h, w}, {d}, 1};
  }
  /// The patches as (n, c, kernel .., out .., other dimensions ..).
  Tensor split(const Tensor& patches) const {
    const auto& [a, b] = window;
    const int64_t n = whole[0], c = whole[1];
    if (windows == 2) return reshape(patches, {n, c, a.kernel, b.kernel, a.out, b.out});
    return permute(reshape(patches, {n, a.out, c, a.kernel, whole[3], whole[4]}),
                   {0, 2, 3, 1, 4, 5});
  }
};

/// Calls f(part, elements) for each element of the kernel: the part of the patches that belongs to it, and the elements
/// of `whole` with which it is multiplied, both without those out of bounds.
void for_each_tap(const Tensor& part, const Tensor& whole, const Patches& p, const auto& f,
                  int i = 0) {
  if (i == p.windows) return f(part, whole);
  const Window& d = p.window[i];
  for (int64_t k = 0; k < d.kernel; ++k) {
    const int64_t first = k * d.dilation + d.offset;
    const int64_t from = first < 0 ? (-first + d.stride - 1) / d.stride : 0;
    const int64_t to = first >= d.size ? 0 : std::min(d.out, (d.size - 1 - first) / d.stride + 1);
    if (from >= to) continue;
    for_each_tap(slice(pick(part, 2, k), p.windows + 1, from, to - from),
                 slice(whole, 2 + i, first + from * d.stride, to - from, d.stride), p, f, i + 1);
  }
}

Tensor fold_patches(const Tensor& patches, const Patches& p);

Tensor unfold_patches(const Tensor& x, const Patches& p) {
  Patches in = p;
  Tensor from = x.detach();
  const bool image = p.windows == 2;
  if (const auto& [h, w] = p.window; image && h.offset + w.offset < 0) {
    from = pad(from, {-w.offset, -w.offset, -h.offset, -h.offset});
    for (Window& d : in.window) d.size -= 2 * d.offset, d.offset = 0;
  }
  // The windows of an image with zero padding are copied completely.
  const Tensor out = image ? empty(p.patch_shape, x) : zeros(p.patch_shape, x);
  for_each_tap(p.split(out), from, in,
               [](const Tensor& part, const Tensor& elements) { copy_(part, elements); });
  static const NodeType type{"unfold", [](Node& node, const Tensor& g, Tensor* dx) {
                               dx[0] = fold_patches(g, node.kept<Patches>());
                             }};
  if (wants_grad(x)) record(type, out, {&x}).keep(p);
  return out;
}

Tensor fold_patches(const Tensor& patches, const Patches& p) {
  const Tensor out = zeros(p.whole, patches);
  for_each_tap(p.split(patches.detach()), out, p,
               [](const Tensor& part, const Tensor& elements) { elements += part; });
  static const NodeType type{"fold", [](Node& node, const Tensor& g, Tensor* dx) {
                               dx[0] = unfold_patches(g, node.kept<Patches>());
                             }};
  if (wants_grad(patches)) record(type, out, {&patches}).keep(p);
  return out;
}

// ---- arguments ----------------------------------------------------------------------------------

/// The common first step of conv and similar functions: tensors of one float dtype, x with a batch.
struct ConvOperands {
  Tensor x, w, bias;
  bool single;  // x was given without a batch
};
ConvOperands prepare(const char* name, int spatial, const Tensor& x, const Tensor& w,
                     const Tensor& bias) {
  check_image(name, x, spatial);
  if (w.dim() != spatial + 2)
    fail("{}: the weight is {}; expected {} dimensions: out, in and {} of the kernel", name,
         w.shape(), spatial + 2, spatial);
  check_float(name, w, "the weight is", "weight");
  for (int d = 2; d < w.dim(); ++d)
    if (w.size(d) == 0) fail("{}: the kernel has size 0, in the weight {}", name, w.shape());
  check_together(name, x, w);
  const Dtype dtype = promote(x.dtype(), w.dtype());
  ConvOperands p{to(x, dtype), to(w, dtype), to(bias, dtype), x.dim() == spatial + 1};
  if (bias.defined()) {
    check_together(name, x, bias);
    check_float(name, bias, "the bias is", "bias");
  }
  if (p.single) p.x = unsqueeze(p.x, 0);
  if (spatial == 1) p.x = unsqueeze(p.x, 2), p.w = unsqueeze(p.w, 2);
  return p;
}

Tensor finish(const ConvOperands& p, int spatial, const Tensor& y) {
  Tensor out = spatial == 1 ? squeeze(y, 2) : y;
  return p.single ? squeeze(out, 0) : out;
}

/// The arguments of the sum over height and width; the windows along the depth are images.
Geometry geometry_of(const Tensor& x, const Tensor& w, int64_t groups, const Window (&axis)[3]) {
  Geometry g{};
  g.batch = x.size(0) * axis[0].out, g.groups = groups;
  g.inputs = w.size(1) * axis[0].kernel, g.outputs = w.size(0) / groups;
  set_windows(g, axis[1], axis[2]);
  return g;
}

void check_bias(const char* name, const Tensor& bias, int64_t channels) {
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != channels))
    fail("{}: the bias is {}, the result has {} channels", name, bias.shape(), channels);
}

[[noreturn]] void fail_input_channels(const char* name, const Tensor& x, const Tensor& w,
                                      int64_t expected, int64_t groups) {
  fail("{}: the input {} has {} channels, the weight {} expects {} with groups {}", name, x.shape(),
       x.size(w.dim() == x.dim() ? 1 : 0), w.shape(), expected, groups);
}

void check_groups(const char* name, int64_t groups, int64_t channels, const char* whose) {
  if (groups < 1) fail("{}: groups is {}, it must be at least 1", name, groups);
  if (channels % groups != 0)
    fail("{}: groups is {}, which does not divide the {} channels of the {}", name, groups,
         channels, whose);
}

/// dilation * (kernel - 1) + 1, clamped to 2^62.
int64_t kernel_extent(int64_t kernel, int64_t dilation) {
  int64_t span;
  constexpr int64_t limit = int64_t(1) << 62;
  return __builtin_mul_overflow(kernel - 1, dilation, &span) || span >= limit ? limit : span + 1;
}

/// The number of windows that fit along one dimension.
int64_t count_windows(const char* name, int64_t size, int64_t before, int64_t after, int64_t kernel,
                      int64_t dilation, int64_t stride) {
  const int64_t padded = size + before + after, span = kernel_extent(kernel, dilation);
  if (span > padded)
    fail(
        "{}: the kernel of {} with dilation {} spans {}, more than the input of {} with padding {}",
        name, kernel, dilation, span, size, before + after);
  return (padded - span) / stride + 1;
}

}  // namespace

const char* spatial_names(int spatial) {
  return spatial == 1 ? "length" : spatial == 2 ? "height x width" : "depth x height x width";
}

void check_image(const char* name, const Tensor& x, int spatial) {
  if (x.dim() != spatial + 1 && x.dim() != spatial + 2)
    fail("{}: the input is {}; expected (batch x channels x {}) or the same without batch", name,
         x.shape(), spatial_names(spatial));
  check_float(name, x);
}

Shape spatial_numbers(const char* name, const char* option, const Shape& given, int spatial,
                      int64_t fallback, int64_t least) {
  if (given.size() > 1 && given.size() != spatial)
    fail("{}: {} is {}; give one number, or {}", name, option, given, spatial);
  Shape all;
  for (int d = 0; d < spatial; ++d) {
    const int64_t n = given.size() == 0 ? fallback : given[given.size() == 1 ? 0 : d];
    if (n < least) fail("{}: {} is {}, it must be at least {}", name, option, n, least);
    if (n > INT32_MAX) fail("{}: {} is {}, it must be at most 2^31 - 1", name, option, n);
    all.push(n);
  }
  return all;
}

WindowSteps window_steps(const char* name, int spatial, const Shape& stride, const Shape& dilation,
                         const Shape& padding) {
  return {spatial_numbers(name, "stride", stride, spatial, 1, 1),
          spatial_numbers(name, "dilation", dilation, spatial, 1, 1),
          spatial_numbers(name, "padding", padding, spatial, 0, 0)};
}

Tensor conv(const char* name, int spatial, const Tensor& x0, const Tensor& w0, const Tensor& bias,
            const ConvOptions& o) {
  const auto [stride, dilation, padding] =
      window_steps(name, spatial, o.stride, o.dilation, o.padding);
  const ConvOperands p = prepare(name, spatial, x0, w0, bias);
  const Tensor &x = p.x, &w = p.w;
  check_groups(name, o.groups, w.size(0), "result");
  check_groups(name, o.groups, x.size(1), "input");
  if (x.size(1) / o.groups != w.size(1))
    fail_input_channels(name, x0, w0, w.size(1) * o.groups, o.groups);
  check_bias(name, bias, w.size(0));
  Window axis[3];  // depth, height, width
  for (int i = 0; i < spatial; ++i) {
    Window& a = axis[3 - spatial + i];
    a = {x.size(x.dim() - spatial + i), w.size(w.dim() - spatial + i), stride[i], dilation[i]};
    int64_t before = padding[i], after = padding[i];
    if (o.same) {
      if (stride[i] != 1)
        fail("{}: padding 'same' needs stride 1, the stride is {}", name, stride[i]);
      const int64_t both = kernel_extent(a.kernel, dilation[i]) - 1;
      if (both > INT32_MAX)
        fail("{}: padding 'same' would be {} for a kernel of {} with dilation {}", name, both,
             a.kernel, dilation[i]);
      before = both / 2, after = both - before;
    }
    a.out = count_windows(name, a.size, before, after, a.kernel, dilation[i], stride[i]);
    a.offset = -before;
  }
  const Geometry g = geometry_of(x, w, o.groups, axis);
  checked_count(name, g.y());
  if (spatial < 3) return finish(p, spatial, record_part(kY, {x, w, {}}, p.bias, g));
  // The windows along the depth become images, with zero padding.
  const Patches depth = Patches::of_volume(x.size(0), x.size(1), axis[0], x.size(3), x.size(4));
  checked_count(name, depth.patch_shape);
  const Tensor y = record_part(kY, {unfold_patches(x, depth), reshape(w, g.w()), {}}, p.bias, g);
  const Tensor volumes = reshape(y, {x.size(0), axis[0].out, w.size(0), g.out[0], g.out[1]});
  return finish(p, spatial, contiguous(transpose(volumes, 1, 2)));
}

Tensor conv_transpose(const char* name, int spatial, const Tensor& x0, const Tensor& w0,
                      const Tensor& bias, const ConvOptions& o) {
  const auto [stride, dilation, padding] =
      window_steps(name, spatial, o.stride, o.dilation, o.padding);
  const Shape more = spatial_numbers(name, "output_padding", o.output_padding, spatial, 0, 0);
  const ConvOperands p = prepare(name, spatial, x0, w0, bias);
  const Tensor &x = p.x, &w = p.w;
  check_groups(name, o.groups, x.size(1), "input");
  if (x.size(1) != w.size(0)) fail_input_channels(name, x0, w0, w.size(0), o.groups);
  check_bias(name, bias, w.size(1) * o.groups);
  Window axis[3];  // depth, height, width
  for (int i = 0; i < spatial; ++i) {
    Window& a = axis[3 - spatial + i];
    a = {0,           w.size(w.dim() - spatial + i), stride[i], dilation[i],
         -padding[i], x.size(x.dim() - spatial + i)};
    if (more[i] >= std::max(stride[i], dilation[i]))
      fail("{}: output_padding is {}, it must be less than the stride {} or the dilation {}", name,
           more[i], stride[i], dilation[i]);
    const int64_t span = kernel_extent(a.kernel, dilation[i]);
    if (__builtin_mul_overflow(a.out - 1, stride[i], &a.size) ||
        __builtin_add_overflow(a.size, span + more[i] - 2 * padding[i], &a.size))
      fail("{}: the result would not fit in memory: an input of {} with stride {}", name, a.out,
           stride[i]);
    if (a.size < 1)
      fail("{}: an input of {} with padding {} gives no output", name, a.out, padding[i]);
  }
  const Geometry g = geometry_of(x, w, o.groups, axis);
  checked_count(name, g.x());
  Tensor y;
  if (spatial < 3) {
    y = record_part(kX, {{}, w, x}, {}, g);
  } else {  // all slices are added at their positions in the volumes
    const Tensor slices = reshape(transpose(x, 1, 2), g.y());
    y = record_part(kX, {{}, reshape(w, g.w()), slices}, {}, g);
    const Patches depth =
        Patches::of_volume(x.size(0), y.size(1) / axis[0].kernel, axis[0], y.size(2), y.size(3));
    checked_count(name, depth.whole);
    y = fold_patches(y, depth);
  }
  if (p.bias.defined()) y = y + by_channel(p.bias, y);
  return finish(p, spatial, y);
}

Tensor conv_anchored(const char* name, int spatial, const Tensor& x0, const Tensor& w0,
                     bool reverse) {
  if (x0.dim() != spatial + 2)
    fail("{}: the input is {}; expected (batch x channels x {})", name, x0.shape(),
         spatial_names(spatial));
  const ConvOperands p = prepare(name, spatial, x0, w0, {});
  const Tensor &x = p.x, &w = p.w;
  if (x.size(1) != w.size(1)) fail_input_channels(name, x0, w0, w.size(1), 1);
  const auto window = [&](int d) {
    return Window{x.size(d), w.size(d), 1, reverse ? -1 : 1, 0, x.size(d)};
  };
  const Geometry g = geometry_of(x, w, 1, {{}, window(2), window(3)});
  checked_count(name, g.y());
  return finish(p, spatial, record_part(kY, {x, w, {}}, {}, g));
}

Tensor window_sums(const Tensor& x, const Window& h, const Window& w) {
  const Tensor one = ones({1, 1, h.kernel, w.kernel}, x);
  const Geometry g = geometry_of(x, one, 1, {{}, h, w});
  return squeeze(record_part(kY, {unsqueeze(x, 1), one, {}}, {}, g), 1);
}

static Patches checked_patches(const char* name, int64_t n, int64_t c, const Shape& size,
                               const Shape& kernel, const Shape& dilation, const Shape& padding,
                               const Shape& stride) {
  if (kernel.size() == 0) fail("{}: kernel_size is missing", name);
  const Shape k = spatial_numbers(name, "kernel_size", kernel, 2, 1, 1);
  const WindowSteps o = window_steps(name, 2, stride, dilation, padding);
  Window window[2];
  for (int i = 0; i < 2; ++i) {
    const int64_t b = o.padding[i], d = o.dilation[i], s = o.stride[i];
    window[i] = {size[i], k[i], s, d, -b, count_windows(name, size[i], b, b, k[i], d, s)};
  }
  checked_count(name, {n, c, k[0], k[1], window[0].out, window[1].out});
  checked_count(name, {n, c, size[0] + 2 * o.padding[0], size[1] + 2 * o.padding[1]});
  return Patches::of_image(n, c, window[0], window[1]);
}

Tensor im2col(const Tensor& x, const Shape& kernel, const Shape& dilation, const Shape& padding,
              const Shape& stride) {
  if (x.dim() != 4 && x.dim() != 3)
    fail("unfold: the input is {}; expected (batch x channels x height x width)", x.shape());
  const bool single = x.dim() == 3;
  const Tensor image = single ? unsqueeze(x, 0) : x;
  const Patches p =
      checked_patches("unfold", image.size(0), image.size(1), {image.size(2), image.size(3)},
                      kernel, dilation, padding, stride);
  const Tensor out = unfold_patches(image, p);
  return single ? squeeze(out, 0) : out;
}

Tensor col2im(const Tensor& columns, const Shape& size, const Shape& kernel, const Shape& dilation,
              const Shape& padding, const Shape& stride) {
  if (columns.dim() != 3 && columns.dim() != 2)
    fail("fold: the input is {}; expected (batch x channels * kernel x patches)", columns.shape());
  const bool single = columns.dim() == 2;
  const Tensor x = single ? unsqueeze(columns, 0) : columns;
  if (size.size() == 0) fail("fold: output_size is missing");
  const Shape image = spatial_numbers("fold", "output_size", size, 2, 1, 1);
  const Patches one =
      checked_patches("fold", x.size(0), 1, image, kernel, dilation, padding, stride);
  const auto& [h, w] = one.window;
  if (x.size(1) % one.patch_shape[1] != 0)
    fail("fold: the {} rows of {} are not a multiple of the kernel's {} elements", x.size(1),
         columns.shape(), one.patch_shape[1]);
  if (x.size(2) != one.patch_shape[2])
    fail("fold: {} has {} patches, an image of {} has {} x {}", columns.shape(), x.size(2), image,
         h.out, w.out);
  const Patches p = Patches::of_image(x.size(0), x.size(1) / one.patch_shape[1], h, w);
  checked_count("fold", {p.whole[0], p.whole[1], h.size - 2 * h.offset, w.size - 2 * w.offset});
  const Tensor out = fold_patches(x, p);
  return single ? squeeze(out, 0) : out;
}

}  // namespace mt
