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
  const void* bias;  // of outputs, or null; for `output` alone
};

/// index[plane, p] = where in its plane of x the largest of a window lies: the first of equals, or
/// the last NaN; values[plane, p] = what lies there. Every window has an element inside.
struct MaxPool {
  Dtype dtype;
  int64_t planes;
  int64_t size[2], kernel[2], out[2], stride[2], dilation[2], offset[2];
  const void* x;
  void* values;
  int64_t* index;
};

}  // namespace mt
