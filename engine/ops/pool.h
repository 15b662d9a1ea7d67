// pool.h -- pooling and resizing of images
#pragma once
#include <optional>

#include "engine/ops/gather_scatter.h"

namespace mt {

/// The sizes of windows: one number for all spatial dimensions, or one for each. An empty stride
/// equals the kernel's size.
struct PoolOptions {
  Shape kernel = {}, stride = {}, padding = {}, dilation = {};
  bool ceil = false;                   // includes windows that begin inside and end outside
  bool count_include_pad = true;       // an average divides by the size of the whole window
  std::optional<double> divisor = {};  // an average divides by this
};
struct Pooled {
  Tensor values, index;  // index: the position of each value in its plane or volume
};
/// max_pool("max_pool2d", 2, x, {.kernel = {2}}) pools the last `spatial` (1, 2 or 3) dimensions of
/// (n, c, ..) or (c, ..), as torch.nn.functional.max_pool2d; messages start with `name`.
Pooled max_pool(const char* name, int spatial, const Tensor& x, const PoolOptions&);
Tensor avg_pool(const char* name, int spatial, const Tensor& x, const PoolOptions&);
/// The means over windows that divide a dimension into `out` parts; -1 keeps its size.
Tensor adaptive_avg_pool(const char* name, int spatial, const Tensor& x, const Shape& out);
/// The maxima of the same windows, over the last 1 or 2 dimensions.
Pooled adaptive_max_pool(const char* name, int spatial, const Tensor& x, const Shape& out);
/// Zeros, except x's values at the positions of max_pool2d.
Tensor max_unpool2d(const Tensor& x, const Index& index, const Shape& kernel,
                    const Shape& stride = {}, const Shape& padding = {},
                    const Shape& output_size = {});

enum class Interpolation { nearest, nearest_exact, linear, cubic };
/// Resizes dimension `dim`; `scale` (target by source, or 0) determines the sample positions
/// instead of the ratio of the sizes.
Tensor resample(const Tensor& x, int dim, int64_t size, double scale, Interpolation, bool corners);

}  // namespace mt
