// conv.h -- the arguments of a convolution, its two gradients and a max pooling, on every device
#pragma once
#include "kernels/base.h"

namespace mt {

/// Which of the three tensors of a convolution is computed from the two others.
enum class ConvPart : int { output, input, weight };

/// A convolution of x (batch, groups * inputs, size) and w (groups * outputs, inputs, kernel) gives
/// y (batch, groups * outputs, out), all contiguous, over two spatial axes:
///   y[n, o, p] = bias[o] + sum over c, k of w[o, c, k] x[n, c, p * stride + k * dilation + offset]
/// where x counts as zero out of bounds. The dilation may be negative. `input` and `weight` compute
/// the transposed maps: x, or w, from a given y.
struct Conv {
  ConvPart part;
  Dtype dtype;  // on a CPU bf16 only if onednn::convolution_scratch() is positive
  int64_t batch, groups, inputs, outputs;  // channels of one group
  int64_t size[2], kernel[2], out[2], stride[2], dilation[2], offset[2];
  void *x, *w, *y;
  const void* bias;  // [outputs], or null; for `output` only
  // On a CPU, for `output`: the memory of w has the shape (groups, inputs, outputs, kernel) and its
  // taps in reverse order: it belongs to the convolution whose gradient this one is.
  bool flipped = false;
  bool tf32 = false;        // a GPU may round factors of float32 to 11 bits
  void* scratch = nullptr;  // on a CPU: conv_scratch() bytes, or null for the slowest algorithm
};

MT_HD constexpr int64_t area(const int64_t* size) { return size[0] * size[1]; }
/// Whether the kernel is 1 x 1 and reads every position: then it is a product on the plain images.
constexpr bool is_plain(const Conv& c) {
  for (int d = 0; d < 2; ++d)
    if (c.kernel[d] != 1 || c.stride[d] != 1 || c.offset[d] != 0 || c.out[d] != c.size[d])
      return false;
  return true;
}

/// Whether a CPU computes it plane by plane: one channel a group in float32, and 3 x 3 or 5 x 5 taps side by side.
constexpr bool is_by_planes(const Conv& c) {
  for (int d = 0; d < 2; ++d)
    if ((c.kernel[d] != 3 && c.kernel[d] != 5) || c.stride[d] > 2 || c.dilation[d] != 1)
      return false;
  return c.part != ConvPart::weight && c.dtype == Dtype::f32 && c.inputs == 1 && c.outputs == 1 &&
         c.kernel[0] == c.kernel[1] && c.stride[0] == c.stride[1];
}

/// The number of partial sums over the batch that a CPU computes for the gradient of the weight.
constexpr int64_t conv_parts(const Conv& c) {
  const int64_t most = c.batch < 8 ? c.batch : 8;
  const int64_t parts = c.batch * area(c.out) / 512;
  return parts < 1 ? 1 : parts > most ? most : parts;
}
/// The size in bytes of these sums, with the outputs padded to two registers.
constexpr int64_t conv_scratch(const Conv& c) {
  if (c.part != ConvPart::weight || c.inputs < 3) return 0;
  const int64_t outputs = (c.outputs + 31) / 32 * 32;
  return conv_parts(c) * c.groups * area(c.kernel) * c.inputs * outputs * item_size(c.dtype);
}

/// index[plane, p] = the position of the maximum of a window in its plane of x: the first one of
/// equal elements, or the last NaN; values[plane, p] = that element. Every window has an element in
/// bounds. Backward, only on a CPU: x[plane, i] = the sum, in order, of the values whose index is
/// i; of the sizes only the products are used.
struct MaxPool {
  Dtype dtype;
  bool backward = false;
  int64_t planes;
  int64_t size[2], kernel[2], out[2], stride[2], dilation[2], offset[2];
  void *x, *values;
  int64_t* index;  // null in forward if it is not wanted
};

}  // namespace mt
