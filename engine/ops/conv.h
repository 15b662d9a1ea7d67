// conv.h -- convolutions over one to three spatial dimensions, and their patches (im2col)
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// One number per spatial dimension; a single one is used for all; the default is empty.
struct ConvOptions {
  Shape stride = {}, padding = {}, dilation = {};
  bool same = false;  // instead of `padding`: as much as keeps the size, an odd one at the end
  int64_t groups = 1;
  Shape output_padding = {};  // of a transposed convolution
};
/// x (n, c, ..) or (c, ..), weight (out, c / groups, kernel ..), bias (out) or undefined;
/// `spatial` is 1, 2 or 3; messages start with `name`. As torch.conv2d: conv("conv2d", 2, x, w, b).
Tensor conv(const char* name, int spatial, const Tensor& x, const Tensor& weight,
            const Tensor& bias, const ConvOptions& = {});
/// The gradient of conv for its input, as an operation; weight (c, out / groups, kernel ..).
Tensor conv_transpose(const char* name, int spatial, const Tensor& x, const Tensor& weight,
                      const Tensor& bias, const ConvOptions& = {});
/// out[i] = sum of x[i + k] w[k], or of x[i - k] if `reverse`, with zero padding; the result has
/// the size of x. From MiniTorch.
Tensor conv_anchored(const char* name, int spatial, const Tensor& x, const Tensor& weight,
                     bool reverse);

/// The geometry of the windows of a convolution or a pooling along one dimension.
struct Window {
  int64_t size = 1, kernel = 1, stride = 1, dilation = 1, offset = 0, out = 1;
};
/// The sums of all windows of x (planes, height, width); differentiable.
Tensor window_sums(const Tensor& x, const Window& h, const Window& w);
/// The values of an option, one per spatial dimension; checked against `least` and 2^31.
Shape spatial_numbers(const char* name, const char* option, const Shape& given, int spatial,
                      int64_t fallback, int64_t least);
/// The stride, dilation and padding along each spatial dimension.
struct WindowSteps {
  Shape stride, dilation, padding;
};
WindowSteps window_steps(const char* name, int spatial, const Shape& stride, const Shape& dilation,
                         const Shape& padding);
/// Copies the windows along the last two dimensions into the arguments of a verb, Conv or MaxPool.
void set_windows(auto& call, const Window& h, const Window& w) {
  for (int d = 0; d < 2; ++d) {
    const Window& a = d == 0 ? h : w;
    call.size[d] = a.size, call.kernel[d] = a.kernel, call.out[d] = a.out;
    call.stride[d] = a.stride, call.dilation[d] = a.dilation, call.offset[d] = a.offset;
  }
}
/// "length", "height x width" or "depth x height x width", for messages.
const char* spatial_names(int spatial);
/// Checks that x is (n, c, ..) or (c, ..) with `spatial` spatial dimensions and a float dtype.
void check_image(const char* name, const Tensor& x, int spatial);

/// The patches of x (n, c, h, w) as columns (n, c * kernel, patches), and the inverse, which sums
/// them. As torch.nn.functional.unfold and fold.
Tensor im2col(const Tensor& x, const Shape& kernel, const Shape& dilation, const Shape& padding,
              const Shape& stride);
Tensor col2im(const Tensor& columns, const Shape& size, const Shape& kernel, const Shape& dilation,
              const Shape& padding, const Shape& stride);

}  // namespace mt
