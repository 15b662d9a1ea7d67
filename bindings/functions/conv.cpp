// conv.cpp -- convolutions, pooling and resizing
#include <cmath>

#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

/// A number for each dimension, or 'same'.
struct ConvPadding {
  Shape sides;
  bool same = false;
};

}  // namespace

template <> struct Arg<ConvPadding> {
  static constexpr const char* names[] = {"same", "valid"};
  static constexpr Type type{kind::integer | kind::integers, false, names, 2};
  static ConvPadding get(const Args& a, int i) {
    if (lua_type(a.L, i) != LUA_TSTRING) return {a.shape(i)};
    const std::string how = a.text(i);
    if (how != "same" && how != "valid")
      fail("padding is '{}'; use a number, a list, 'same' or 'valid'", how);
    return {{}, how == "same"};
  }
};

/// A number for each spatial dimension, or one for all.
struct Scales {};
template <> struct Arg<Scales> { static constexpr Type type{kind::number | kind::numbers, true}; };

namespace {

Tensor convolution(const char* name, int rank, const Tensor& input, const Tensor& weight,
                   const Tensor& bias, const Shape& stride, const ConvPadding& padding,
                   const Shape& dilation, int64_t groups) {
  check_same_dtype(input, weight);
  return conv(name, rank, input, weight, bias,
              {stride, padding.sides, dilation, padding.same, groups, {}});
}

Tensor transposed_convolution(const char* name, int rank, const Tensor& input, const Tensor& weight,
                              const Tensor& bias, const Shape& stride, const Shape& padding,
                              const Shape& output_padding, int64_t groups, const Shape& dilation) {
  check_same_dtype(input, weight);
  return conv_transpose(name, rank, input, weight, bias,
                        {stride, padding, dilation, false, groups, output_padding});
}

WithPositions with_indices(Pooled p, bool indices) {
  return {std::move(p.values),
          indices ? std::optional(Positions{std::move(p.index)}) : std::nullopt};
}

WithPositions max_pooled(const char* name, int rank, const Tensor& input, const Shape& kernel,
                         const Shape& stride, const Shape& padding, const Shape& dilation,
                         bool ceil, bool indices) {
  PoolOptions o;
  o.kernel = kernel, o.stride = stride, o.padding = padding, o.dilation = dilation, o.ceil = ceil;
  o.indices = indices;
  return with_indices(max_pool(name, rank, input, o), indices);
}

Tensor average_pool(const char* name, int rank, const Tensor& input, const Shape& kernel,
                    const Shape& stride, const Shape& padding, bool ceil, bool count_pad,
                    std::optional<double> divisor) {
  PoolOptions o;
  o.kernel = kernel, o.stride = stride, o.padding = padding;
  o.ceil = ceil, o.count_include_pad = count_pad, o.divisor = divisor;
  return avg_pool(name, rank, input, o);
}

WithPositions adaptive_max(const char* name, int rank, const Tensor& input, const Shape& size,
                           bool indices) {
  return with_indices(adaptive_max_pool(name, rank, input, size), indices);
}

/// The size and the scale of each spatial dimension; a scale of 0 means the ratio of the sizes.
struct Target {
  Shape size;
  double scale[3] = {0, 0, 0};
};
Target target_of(const Args& a, const Tensor& x, int spatial) {
  if (a.given(2) == a.given(3)) fail("interpolate: give size or scale_factor, and not both");
  Target t;
  if (a.given(2)) {
    t.size = spatial_numbers("interpolate", "size", a.shape(2), spatial, 1, 1);
    return t;
  }
  std::vector<double> scales;
  if (lua_type(a.L, 3) != LUA_TTABLE) scales.assign(spatial, a.number(3));
  else
    each_entry(a.L, 3, [&](int) {
      if (lua_type(a.L, -1) != LUA_TNUMBER) a.wrong(3, "a number or a list of numbers");
      scales.push_back(lua_tonumber(a.L, -1));
    });
  if (int(scales.size()) != spatial)
    fail("interpolate: scale_factor has {} numbers; give one number, or {}", scales.size(),
         spatial);
  for (int i = 0; i < spatial; ++i) {
    const double scale = scales[i];
    const double size = std::floor(double(x.size(x.dim() - spatial + i)) * scale);
    if (!(scale > 0) || !(size >= 1) || size > INT32_MAX)
      fail("interpolate: scale_factor is {}, which makes {} of {}", show(scale), show(size),
           x.size(x.dim() - spatial + i));
    t.size.push(int64_t(size));
    t.scale[i] = scale;
  }
  return t;
}

/// A mode of interpolate: the method, and the number of spatial dimensions (0: any).
struct Mode {
  Interpolation how;
  int spatial;
};
enum class ModeName { nearest, nearest_exact, area, linear, bilinear, bicubic, trilinear };
constexpr std::array<const char*, 7> names_of(ModeName) {
  return {"nearest", "nearest-exact", "area", "linear", "bilinear", "bicubic", "trilinear"};
}
constexpr Mode kModes[] = {{Interpolation::nearest, 0}, {Interpolation::nearest_exact, 0},
                           {Interpolation::nearest, 0}, {Interpolation::linear, 1},
                           {Interpolation::linear, 2},  {Interpolation::cubic, 2},
                           {Interpolation::linear, 3}};

int interpolate_body(Args& a) {
  const Tensor& x = a.tensor(1);
  const int which = a.choice(4), spatial = x.dim() - 2;
  const Mode mode = kModes[which];
  const char* const name = names_of(ModeName())[which];
  if (spatial < 1 || spatial > 3 || (mode.spatial && mode.spatial != spatial))
    fail("interpolate: the input is {}; mode '{}' takes (batch x channels x {})",
         to_string(x.shape()), name,
         mode.spatial == 1   ? "length"
         : mode.spatial == 2 ? "height x width"
         : mode.spatial == 3 ? "depth x height x width"
                             : "1 to 3 sizes");
  const bool corners = a.given(5) && a.boolean(5), area = ModeName(which) == ModeName::area;
  if (mode.spatial == 0 && a.given(5))
    fail("interpolate: align_corners is not for mode '{}'", name);
  if ((mode.spatial > 0 || area) && !is_float(x.dtype()))
    fail("interpolate: the input is {}; use x:float()", dtype_name(x.dtype()));
  const Target t = target_of(a, x, spatial);
  Shape result = x.shape();
  for (int i = 0; i < spatial; ++i) {
    if (x.size(2 + i) == 0) fail("interpolate: the input {} has a size of 0", to_string(x.shape()));
    result[2 + i] = t.size[i];
  }
  checked_count("interpolate", result);
  if (area) return a.push(adaptive_avg_pool("interpolate", spatial, x, t.size));
  Tensor y = x;
  for (int i = spatial - 1; i >= 0; --i)
    y = resample(y, 2 + i, t.size[i], t.scale[i], mode.how, corners);
  return a.push(y);
}

const RankedEntry kOfRank[] = {
    {"conv#d(input, weight, bias=nil, stride=1, padding=0, dilation=1, groups=1)",
     "Cross-correlation of [n x in x <length|h x w|d x h x w>] with [out x in/groups x "
     "<kernel|kh x kw|kd x kh x kw>]; <padding: a number,|stride, padding and dilation: a number or "
     "{h, w}; padding also|stride, padding and dilation: a number or {d, h, w}; padding also> 'same' "
     "or 'valid'<||. It is conv2d over the windows of the depth, which take kd times the input's "
     "memory>; of floats only.",
     bind<convolution>},
    {"conv_transpose#d(input, weight, bias=nil, stride=1, padding=0, output_padding=0, groups=1, "
     "dilation=1)",
     "The gradient of conv#d for its input, as an operation; weight [in x out/groups x "
     "<kernel|kh x kw|kd x kh x kw>]; of floats only.",
     bind<transposed_convolution>},
    {"conv#d_anchored(input, weight, reverse=false)",
     "<MiniTorch's: out[i] = sum of x[i + k] w[k] (reverse: x[i - k]), zeros beyond the ends; "
     "[n x in x t] and [out x in x k] give [n x out x t].|conv1d_anchored over two dimensions: "
     "[n x in x h x w] and [out x in x kh x kw].>",
     bind<conv_anchored>, 1, 2},
    {"max_pool#d(input, kernel_size, stride=nil, padding=0, dilation=1, ceil_mode=false, "
     "return_indices=false)",
     "The largest of each window< of the last dimension|| of the last three dimensions: a number or "
     "{d, h, w}>; with return_indices also its position< (from 1)| in its plane, counted row by row "
     "from 1| in its volume, counted from 1>; of floats only.",
     bind<max_pooled>},
    {"avg_pool#d(input, kernel_size, stride=nil, padding=0, ceil_mode=false, "
     "count_include_pad=true, divisor_override=nil)",
     "The mean of each window of the last <|two|three> dimensions; of floats only.",
     bind<average_pool>, 2},
    {"adaptive_avg_pool#d(input, output_size)",
     "Means over windows that cut the last <dimension|two dimensions|three dimensions> into "
     "output_size parts<|: a number or {h, w}; -1 keeps a size|: a number or {d, h, w}; -1 keeps a "
     "size>; of floats only.",
     bind<adaptive_avg_pool>},
    {"adaptive_max_pool#d(input, output_size, return_indices=false)",
     "The largest of windows that cut the last <dimension|two dimensions> into output_size parts<|: a "
     "number or {h, w}, -1 keeps a size>; with return_indices also its position< (from 1)| in its "
     "plane, counted row by row from 1>; of floats only.",
     bind<adaptive_max>, 1, 2},
};

const Entry kConvFunctions[] = {
    {"avg_pool1d(input, kernel_size, stride=nil, padding=0, ceil_mode=false, "
     "count_include_pad=true)",
     "The mean of each window of the last dimension; of floats only.",
     bind<[](const char* name, const Tensor& input, const Shape& kernel, const Shape& stride,
             const Shape& padding, bool ceil, bool count_pad) {
       return average_pool(name, 1, input, kernel, stride, padding, ceil, count_pad, {});
     }>},
    {"interpolate(input, size=nil, scale_factor=nil, mode='nearest', align_corners=nil)",
     "[n x c x ..] at another size: mode 'nearest', 'nearest-exact', 'area' (means) of 1 to 3 "
     "dimensions, 'linear' of 1, 'bilinear' or 'bicubic' of 2, 'trilinear' of 3.",
     takes<Tensor, Shape, Scales, ModeName, std::optional<bool>>(interpolate_body)},
    {"grid_sample(input, grid, mode='bilinear', padding_mode='zeros', align_corners=false)",
     "[n x c x h x w] at the points x, y of grid [n x h' x w' x 2], or [n x c x d x h x w] at x, y, "
     "z of [n x d' x h' x w' x 3], which run from -1 to 1.\npadding_mode: what lies beyond the edges; "
     "align_corners: -1 and 1 are the centres of the outermost pixels, not their edges.",
     bind<grid_sample>},
    {"affine_grid(theta, [size], align_corners=false)",
     "The grid for grid_sample of maps theta [n x 2 x 3] for a size {n, c, h, w}, or [n x 3 x 4] "
     "for {n, c, d, h, w}.",
     bind<affine_grid>},
    {"unfold(input, kernel_size, dilation=1, padding=0, stride=1)",
     "The patches that a convolution sees, as columns: [n x c x h x w] gives [n x c*kh*kw x "
     "patches].",
     bind<im2col>},
    {"fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1)",
     "The sum of patches at their places: the opposite of unfold.", bind<col2im>},
};

}  // namespace

void register_conv(Registry& c) {
  add_ranks(kOfRank, [&](const Entry& e) { c.function(e); });
  c.functions(kConvFunctions);
}

}  // namespace mt::lua
