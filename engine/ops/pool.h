// pool.h -- pooling, and images at other sizes
#pragma once
#include <optional>

#include "engine/core/tensor.h"

namespace mt {

/// Sizes of windows, one number for all spatial dimensions or one for each. An empty stride is the
/// kernel's size.
struct PoolOptions {
  Shape kernel, stride, padding, dilation;
  bool ceil = false;              // windows that begin inside and end outside count
  bool count_include_pad = true;  // an average divides by the whole window
  std::optional<double> divisor;  // an average divides by this
};
struct Pooled {
  Tensor values, index;  // index: where in its plane or volume each value lies
};
/// Over the last `spatial` (1, 2 or 3) dimensions of (n, c, ..) or (c, ..), as torch.nn.functional.max_pool2d and
/// avg_pool2d: max_pool("max_pool2d", 2, x, {.kernel = {2}}); messages begin with `name`.
Pooled max_pool(const char* name, int spatial, const Tensor& x, const PoolOptions&);
Tensor avg_pool(const char* name, int spatial, const Tensor& x, const PoolOptions&);
/// Means over windows that cut a dimension into `out` parts; -1 keeps its size.
Tensor adaptive_avg_pool(const char* name, int spatial, const Tensor& x, const Shape& out);
/// The same windows' largest, over the last 1 or 2 dimensions.
Pooled adaptive_max_pool(const char* name, int spatial, const Tensor& x, const Shape& out);
/// Zeros with x's values where max_pool2d found them; index counts from `index_base()` in its plane.
Tensor max_unpool2d(const Tensor& x, const Tensor& index, const Shape& kernel,
                    const Shape& stride = {}, const Shape& padding = {},
                    const Shape& output_size = {});

enum class Interpolation { nearest, nearest_exact, linear, cubic };
/// Dimension `dim` at another size; `scale` (target by source, or 0) places the samples instead of
/// the sizes' ratio.
Tensor resample(const Tensor& x, int dim, int64_t size, double scale, Interpolation, bool corners);

}  // namespace mt
