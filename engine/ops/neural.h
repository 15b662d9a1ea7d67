// neural.h -- functions of networks: softmax, normalisation, attention, recurrent layers, embeddings, images
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "engine/ops/gather_scatter.h"

namespace mt {

// ---- softmax (softmax.cpp) ----------------------------------------------------------------------

/// exp(x) / sum(exp(x)) along a dimension; the result is NaN where all x are -infinity.
Tensor softmax(const Tensor&, Dim dim);
/// y * (g - sum(y * g)) along the last dimension: backward of y = softmax(x), without a graph.
Tensor softmax_gradient(const Tensor& y, const Tensor& g);
/// log(softmax(x)), computed stably.
Tensor log_softmax(const Tensor&, Dim dim);
/// softmax(-x).
Tensor softmin(const Tensor&, Dim dim);

// ---- normalisation: mean 0 and variance 1 over some dimensions (normalize.cpp) ------------------

/// Normalises over the last dimensions, of sizes `shape`; weight and bias have that shape or are
/// undefined.
Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// x / sqrt(mean of squares + eps) over the last dimensions.
Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight = {},
                std::optional<double> eps = {});
/// Normalises over all dimensions except channels (dimension 1). Training uses the statistics of
/// the batch and updates the running ones in place; otherwise the running ones are used.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                  double momentum = 0.1, double eps = 1e-5);
/// The same for each image separately.
Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {},
                     const Tensor& running_var = {}, const Tensor& weight = {},
                     const Tensor& bias = {}, bool use_input_stats = true, double momentum = 0.1,
                     double eps = 1e-5);
/// Normalises over each of `groups` groups of channels of each image.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

// ---- attention (attention.cpp) ------------------------------------------------------------------

/// softmax(q k' scale + mask) v for q (.., l, e), k (.., s, e), v (.., s, f). A bool mask is true
/// for the keys to attend to (a row without one gives zeros); a float mask is added. scale: 1 /
/// sqrt(e). With `gqa` the heads (dimension -3) of k and v are repeated to match the number in q.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask = {}, double dropout_p = 0,
                                    bool causal = false, std::optional<double> scale = {},
                                    bool gqa = false);

// ---- recurrent layers (recurrent.cpp) -----------------------------------------------------------

constexpr std::array<const char*, 4> names_of(CellKind) {
  return {"rnn_tanh", "rnn_relu", "lstm", "gru"};
}
/// States after all steps [time x n x hidden], and after the last one [n x hidden]; c for an LSTM.
struct RecurrentStates {
  Tensor output, h, c;
};
/// One layer in one direction, with PyTorch's weights: weight_ih [gates * hidden x in], weight_hh
/// [gates * hidden x state], biases [gates * hidden]; for an LSTM with projections weight_hr [state
/// x hidden]. x is [time x n x in], or [total x in] where batch_sizes is the number of sequences in
/// each step, in non-increasing order. The default initial states are zeros.
RecurrentStates recurrent_layer(const Tensor& x, const Tensor& weight_ih, const Tensor& weight_hh,
                                const Tensor& bias_ih = {}, const Tensor& bias_hh = {},
                                const Tensor& h = {}, const Tensor& c = {},
                                const Tensor& weight_hr = {}, CellKind kind = CellKind::lstm,
                                bool reverse = false,
                                const std::optional<std::vector<int64_t>>& batch_sizes = {});

// ---- dropout, and the activations rrelu and glu (dropout.cpp) -----------------------------------

/// Zeroes elements of x with probability p and scales the others by 1 / (1 - p); dropout_ works in
/// place. Without `training` the result is x itself.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);
const Tensor& dropout_(const Tensor& x, double p = 0.5, bool training = true);
/// Dropout of whole channels with 1, 2 or 3 spatial dimensions.
Tensor feature_dropout(const char* name, int spatial, const Tensor& x, double p = 0.5,
                       bool training = true);
/// Sets elements to the saturation value of selu; keeps mean and variance (Klambauer et al. 2017).
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);
/// leaky_relu with a slope from lower..upper per element, or with their mean (Xu et al. 2015).
Tensor rrelu(const Tensor& x, double lower = 1. / 8, double upper = 1. / 3, bool training = false);
/// One half of a dimension times the sigmoid of the other.
Tensor glu(const Tensor& x, Dim dim = -1);

// ---- rows of a table by ids (embedding.cpp) -----------------------------------------------------

/// Rows of weight by ids; the row `padding` gets no gradient.
Tensor embedding(const Index& ids, const Tensor& weight, std::optional<Position> padding = {});
enum class Bag { mean, sum, max };
constexpr std::array<const char*, 3> names_of(Bag) { return {"mean", "sum", "max"}; }
/// Sums, means or maxima of the rows of weight over bags of ids: the rows of 2-d ids, or parts of
/// 1-d ids, each of which begins at its offset (with `include_last` the last offset is the end of
/// the last bag). per_sample: factors for a sum. Empty bags are 0.
Tensor embedding_bag(const Index& ids, const Tensor& weight,
                     const std::optional<Index>& offsets = {}, Bag mode = Bag::mean,
                     const Tensor& per_sample = {}, bool include_last = false,
                     std::optional<Position> padding = {});
/// int64 zeros with a one at each id; default classes: the largest id.
Tensor one_hot(const Index& ids, std::optional<int64_t> classes = {});

// ---- pooling and resizing of images (pool.cpp) --------------------------------------------------

/// The sizes of windows: one number for all spatial dimensions, or one for each. An empty stride
/// equals the kernel's size.
struct PoolOptions {
  Shape kernel = {}, stride = {}, padding = {}, dilation = {};
  bool ceil = false;                   // includes windows that begin inside and end outside
  bool count_include_pad = true;       // an average divides by the size of the whole window
  std::optional<double> divisor = {};  // an average divides by this
  bool indices = true;                 // whether maxima have positions without a gradient too
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

enum class Interpolation { nearest, nearest_exact, linear, cubic };
/// Resizes dimension `dim`; `scale` (target by source, or 0) determines the sample positions
/// instead of the ratio of the sizes.
Tensor resample(const Tensor& x, int dim, int64_t size, double scale, Interpolation, bool corners);

// ---- images at arbitrary points (weighted_gather.cpp) ---------------------------------------------

enum class Sampling { nearest, linear, cubic };
constexpr std::array<const char*, 3> names_of(Sampling) {
  return {"nearest", "bilinear", "bicubic"};
}
/// The padding of an image: zeros, its border, its reflection.
enum class Beyond { zeros, border, reflection };
constexpr std::array<const char*, 3> names_of(Beyond) { return {"zeros", "border", "reflection"}; }
/// Samples x (n, c, [d,] h, w) at the points of grid (n, [d',] h', w', 2 or 3), whose x, y[, z] are
/// in -1..1: between the centres of the outermost pixels with `corners`, otherwise between their
/// outer edges. As torch.nn.functional.grid_sample.
Tensor grid_sample(const Tensor& x, const Tensor& grid, Sampling = Sampling::linear,
                   Beyond = Beyond::zeros, bool corners = false);
/// The sampling grid for an image of `size` (n, c, [d,] h, w) and maps theta (n, 2 x 3 or 3 x 4).
Tensor affine_grid(const Tensor& theta, const Shape& size, bool corners = false);

}  // namespace mt
