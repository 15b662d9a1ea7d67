// conv.h -- what a convolution, its two gradients and a pooling are asked to do, on every device
#pragma once
#include "kernels/base.h"

namespace mt {

/// Which of the three tensors of a convolution is computed from the two others.
enum class ConvPart : int { output, input, weight };

/// The sum that joins x (batch, groups * inputs, size), w (groups * outputs, inputs, kernel) and
/// y (batch, groups * outputs, out), all contiguous, over two spatial axes:
///   y[n, o, p] = bias[o] + sum over c, k of w[o, c, k] x[n, c, p * stride + k * dilation + offset]
/// where x counts as zero outside. The dilation may be negative. `input` and `weight` compute the
/// transposed maps: what x, or w, receives from a y that is given. For `input` the weight comes
/// as (groups * inputs, outputs, kernel).
struct Conv {
  ConvPart part;
  Dtype dtype;
  int64_t batch, groups, inputs, outputs;  // channels of one group
  int64_t size[2], kernel[2], out[2], stride[2], dilation[2], offset[2];
  void *x, *w, *y;
  const void* bias;         // of outputs, or null; for `output` alone
  bool tf32 = false;        // a GPU may round factors of float32 to 11 bits
  void* scratch = nullptr;  // on a CPU: conv_scratch() bytes, or null for the slowest way
};

MT_HD constexpr int64_t area(const int64_t* size) { return size[0] * size[1]; }

/// Into how many sums a CPU cuts the batch for the weight's gradient, to be added up.
constexpr int64_t conv_parts(const Conv& c) {
  const int64_t most = c.batch < 8 ? c.batch : 8;
  const int64_t parts = c.batch * area(c.out) / 512;
  return parts < 1 ? 1 : parts > most ? most : parts;
}
/// Bytes: those sums, with outputs filled up to two registers.
constexpr int64_t conv_scratch(const Conv& c) {
  if (c.part != ConvPart::weight || c.inputs < 3) return 0;
  const int64_t outputs = (c.outputs + 31) / 32 * 32;
  return conv_parts(c) * c.groups * area(c.kernel) * c.inputs * outputs * item_size(c.dtype);
}

/// index[plane, p] = where in its plane of x the largest of a window lies: the first of equals, or
/// the last NaN; values[plane, p] = what lies there. Every window has an element inside. Backward, on
/// a CPU alone: x[plane, i] = the sum of the values whose index it is, in their order; of the sizes
/// only their products count.
struct MaxPool {
  Dtype dtype;
  bool backward = false;
  int64_t planes;
  int64_t size[2], kernel[2], out[2], stride[2], dilation[2], offset[2];
  void *x, *values;
  int64_t* index;
};

}  // namespace mt
