// onednn_conv.cpp -- convolutions by oneDNN: chunks of the batch in its layouts, a thread per chunk
//
// A chunk of images is reordered to the layout of the primitive, convolved and reordered back, all
// by one thread and in its caches. If there are few chunks, the channels of the result are split
// too, and all chunks are reordered first. Weights of float32 are packed by weight_panels.h, which is
// two to three times as fast as oneDNN 2.6. Chunks, splits and the algorithm depend only on the
// shape; gradients of the weight are summed in the order of the chunks.
#include "kernels/cpu/libraries/onednn_conv.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>
#include <string_view>

#include "kernels/cpu/libraries/onednn.h"
#include "kernels/cpu/libraries/weight_panels.h"
#include "kernels/cpu/pool/counters.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt::onednn {
namespace {

constexpr int64_t kMinChannels = 16, kWinogradChannels = 64, kWinogradTiles = 32,
                  kMaxWinogradTiles = 256;
constexpr double kMinWork = 1e7;             // multiply-adds; creating a primitive takes 1 ms
constexpr double kMinDepthwiseWork = 3e5;    // the own kernel is ten times slower there
constexpr double kChunkWork = 4e6;           // of a chunk, unless the batch is split into 8
constexpr int64_t kChunkBytes = 512 * 1024;  // of a chunk's x and y: a part of L2
constexpr double kHeavyWeight = 1e6;         // bytes: few chunks, whose pieces read parts of it
constexpr size_t kPlans = 128;

int64_t aligned(size_t bytes) { return int64_t(bytes + 63) / 64 * 64; }

double work_of_image(const Conv& c) {
  return double(area(c.out)) * double(area(c.kernel)) * double(c.groups * c.inputs * c.outputs);
}

/// Whether it is a product of the weight and large plain images, which needs no other layout (1.1 to 2.4 times as fast
/// from 28 x 28 on; the gradient of the weight is not).
bool is_product(const Conv& c) {
  constexpr int64_t kMinArea = 256;
  return is_plain(c) && c.dtype == Dtype::f32 && c.groups == 1 && c.part != ConvPart::weight &&
         area(c.out) >= kMinArea;
}

/// Whether oneDNN is tried at all: whether the channels fill the vectors of its kernels.
bool suits(const Conv& c) {
  if (is_product(c) || is_by_planes(c)) return false;
  const bool depthwise = c.inputs == 1 && c.outputs == 1 && c.groups >= kMinChannels;
  const bool wide = c.inputs >= kMinChannels && c.outputs >= kMinChannels;
  return (c.dtype == Dtype::f32 || c.dtype == Dtype::bf16) && (depthwise || wide) &&
         c.dilation[0] > 0 && c.dilation[1] > 0 &&
         double(c.batch) * work_of_image(c) >= (depthwise ? kMinDepthwiseWork : kMinWork);
}

/// The largest divisor of n that is not greater than `most`.
int64_t divisor(int64_t n, int64_t most) {
  int64_t d = std::clamp<int64_t>(most, 1, n);
  while (n % d != 0) --d;
  return d;
}

/// The images of a chunk for 4 x 4 outputs of a 3 x 3 kernel with 6 x 6 products instead of 144 (Lavin and Gray 2016);
/// 0 if the tiles are too few to make up for transforming the weights, which the gradient of the weight does not need.
int64_t winograd_chunk(const Conv& c) {
  for (int d = 0; d < 2; ++d)
    if (c.kernel[d] != 3 || c.stride[d] != 1 || c.dilation[d] != 1) return 0;
  if (c.dtype == Dtype::bf16 || c.groups > 1 || std::min(c.inputs, c.outputs) < kWinogradChannels)
    return 0;
  const int64_t tiles = ((c.out[0] + 3) / 4) * ((c.out[1] + 3) / 4);
  if (double(area(c.out)) < 0.75 * 16 * double(tiles)) return 0;
  const double needed =
      c.part == ConvPart::weight
          ? kWinogradTiles
          : std::max(double(kWinogradTiles), 0.375 * std::sqrt(double(c.inputs * c.outputs)));
  const int64_t wanted = (kMaxWinogradTiles + tiles - 1) / tiles;
  for (const int64_t most : {std::max<int64_t>(c.batch / 2, 1), c.batch}) {
    const int64_t chunk = divisor(c.batch, std::min(wanted, most));
    if (double(chunk * tiles) >= needed) return chunk;
  }
  return 0;
}
/// The bytes of the weight; 0 if they stay in the caches of a thread.
double heavy_weight(const Conv& c) {
  const double bytes = c.groups == 1 ? 4 * double(c.inputs * c.outputs * area(c.kernel)) : 0;
  return bytes > kHeavyWeight ? bytes : 0;
}
int64_t direct_chunk(const Conv& c) {
  const double bytes =
      double(item_size(c.dtype)) * double(c.groups) *
      (double(c.inputs) * double(area(c.size)) + double(c.outputs) * double(area(c.out)));
  const double weight = heavy_weight(c);
  const double by_work =
      weight > 0 ? double(c.batch) : std::max(double(c.batch) / 8, kChunkWork / work_of_image(c));
  const double by_bytes = std::max(double(kChunkBytes), weight) / bytes;
  return divisor(c.batch, int64_t(std::min({by_bytes, by_work, 1e9})));
}

/// The number of sums over the chunks for the gradient of a weight.
int64_t weight_parts(const Conv& c, int64_t chunk) {
  return std::min(conv_parts(c), c.batch / chunk);
}

/// The number of parts that the channels of the result are split into, to get `wanted` pieces.
int64_t channel_cuts(const Conv& c, int64_t chunk, int64_t wanted, int64_t least) {
  const int64_t channels = c.part == ConvPart::input ? c.inputs : c.outputs,
                chunks = c.part == ConvPart::weight ? weight_parts(c, chunk) : c.batch / chunk;
  int64_t cuts = c.groups > 1 ? 1 : wanted / chunks;
  while (cuts > 1 && (channels % (16 * cuts) != 0 || channels / cuts < least ||
                      double(chunk) * work_of_image(c) / double(cuts) < kChunkWork))
    cuts /= 2;
  return std::max<int64_t>(cuts, 1);
}

// ---- plans --------------------------------------------------------------------------------------

/// The plan for convolutions of one shape: the primitive for a piece, which is a chunk of the batch
/// by a part of the result's channels, and the reorders between plain layouts and its own; a
/// reorder is empty if the layouts are equal.
struct Plan {
  int64_t chunk = 0;                      // images; 0: there is no primitive
  int64_t cuts = 1, parts = 1;            // parts: sums of the weight's gradient
  Conv piece{};                           // the sizes of one piece
  Primitive run, from_x, from_w, from_y;  // for the result it is the reorder back to plain
  int64_t x = 0, w = 0, y = 0;            // bytes of each in the primitive's layout; 0: plain
  WeightPanels panels{};                  // replace from_w if they have lanes
};

using Key = std::array<int64_t, 20>;
Key key_of(const Conv& c) {
  Key key{int64_t(c.part), c.batch, c.groups, c.inputs, c.outputs};
  key[17] = int64_t(c.dtype), key[18] = c.bias != nullptr, key[19] = c.flipped;
  for (int d = 0; d < 2; ++d) {
    const int64_t axis[] = {c.size[d],   c.kernel[d],   c.out[d],
                            c.stride[d], c.dilation[d], c.offset[d]};
    std::copy(axis, axis + 6, key.begin() + 5 + 6 * d);
  }
  return key;
}

/// The layouts of a piece of the arrays of `c`; `any`: only sizes. The gradient of a weight is summed in float32.
ConvLayouts layouts_of(const Conv& c, const Conv& piece, int64_t chunk, bool any) {
  const int64_t xs[] = {chunk, c.groups * piece.inputs, c.size[0], c.size[1]};
  const int64_t ys[] = {chunk, c.groups * piece.outputs, c.out[0], c.out[1]};
  const int64_t ws[] = {c.groups, piece.outputs, piece.inputs, c.kernel[0], c.kernel[1]};
  const int64_t taps = area(c.kernel), x_area = area(c.size), y_area = area(c.out);
  const int64_t x_strides[] = {c.groups * c.inputs * x_area, x_area, c.size[1], 1},
                y_strides[] = {c.groups * c.outputs * y_area, y_area, c.out[1], 1},
                w_strides[] = {c.inputs * c.outputs * taps, c.inputs * taps, taps, c.kernel[1], 1};
  const int skip = c.groups == 1;  // then the weight has no group dimension
  const Type type = c.dtype == Dtype::bf16 ? kBF16 : kF32;
  const int64_t one = 1;
  return {Layout(type, 4, xs, any ? nullptr : x_strides),
          Layout(type, 5 - skip, ws + skip, any ? nullptr : w_strides + skip),
          Layout(type, 4, ys, any ? nullptr : y_strides),
          c.bias ? Layout(type, 1, ys + 1, &one) : Layout(),
          any ? Layout(kF32, 5 - skip, ws + skip, nullptr) : Layout()};
}

/// `n` images with the channels of a position side by side.
Layout channels_last(int64_t n, int64_t channels, const int64_t* size) {
  const int64_t sizes[] = {n, channels, size[0], size[1]},
                strides[] = {area(size) * channels, 1, size[1] * channels, channels};
  return Layout(kF32, 4, sizes, strides);
}

Primitive primitive_for(const Conv& c, int64_t chunk, Algorithm algorithm) {
  ConvLayouts layouts = layouts_of(c, c, chunk, true);
  // This is 1.6 times as fast as the layouts that oneDNN 2.6 chooses (3 x 3, 28 to 128 pixels).
  if (algorithm == Algorithm::direct && c.part == ConvPart::weight && c.dtype == Dtype::f32 &&
      open()->avx512 && c.groups == 1 && c.stride[0] * c.stride[1] == 1 && area(c.kernel) > 1) {
    layouts.source = channels_last(chunk, c.inputs, c.size);
    layouts.result = channels_last(chunk, c.outputs, c.out);
  }
  int64_t before[2], after[2];
  for (int d = 0; d < 2; ++d) {
    before[d] = -c.offset[d];
    after[d] = (c.out[d] - 1) * c.stride[d] + (c.kernel[d] - 1) * c.dilation[d] + 1 - c.size[d] -
               before[d];
  }
  // Those for inference are up to twice as fast in oneDNN 2.6, but need Winograd's weights transformed by a slow
  // reorder.
  const bool inference =
      algorithm == Algorithm::direct && c.dtype == Dtype::f32 && area(c.kernel) > 1;
  const Pass pass = c.part == ConvPart::weight  ? Pass::weights
                    : c.part == ConvPart::input ? Pass::data
                    : inference                 ? Pass::inference
                                                : Pass::forward;
  return Primitive::convolution(pass, algorithm, layouts, {2, c.stride, c.dilation, before, after});
}

/// Sets the reorder between the plain and the primitive's layout; returns false if there is none.
bool set_reorder(const Layout& plain, const Layout& wanted, bool to_plain, Primitive& reorder,
                 int64_t& bytes) {
  if (!plain || !wanted) return false;
  if (plain == wanted) return true;
  reorder = to_plain ? Primitive::reorder(wanted, plain) : Primitive::reorder(plain, wanted);
  bytes = aligned(wanted.bytes());
  return bool(reorder);
}

/// The panels of a float32 weight of the layout `blocked`; without lanes if it has other blocks.
WeightPanels panels_of(const Conv& c, const Conv& piece, const Layout& blocked) {
  const onednn::Blocks b = blocked.blocks();
  if (c.groups > 1 || c.dtype != Dtype::f32 || b.count < 1 || b.count > 2) return {};
  const int64_t taps = area(c.kernel), lane = b.dim[b.count - 1], other = 1 - lane;
  const int64_t sizes[] = {piece.outputs, piece.inputs},
                strides[] = {c.flipped ? taps : c.inputs * taps,
                             c.flipped ? c.outputs * taps : taps};
  if (lane > 1 || (b.count == 2 && b.dim[0] != other) ||
      (c.kernel[0] > 1 && b.stride[2] != c.kernel[1] * b.stride[3]))
    return {};
  const WeightPanels p{sizes[lane],
                       sizes[other],
                       taps,
                       strides[lane],
                       strides[other],
                       c.flipped,
                       b.size[b.count - 1],
                       b.count == 2 ? b.size[0] : 1,
                       b.stride[lane],
                       b.stride[other],
                       b.stride[3]};
  const bool whole =
      p.lane_block % 16 == 0 && p.lanes % p.lane_block == 0 && p.others % p.other_block == 0;
  return whole ? p : WeightPanels{};
}

/// Sets the primitive, and how the work is split for it.
void choose(Plan& plan, const Conv& c, Algorithm algorithm, int64_t chunk, int64_t cuts) {
  plan.chunk = chunk, plan.cuts = cuts, plan.piece = c;
  (c.part == ConvPart::input ? plan.piece.inputs : plan.piece.outputs) /= cuts;
  plan.run = primitive_for(plan.piece, chunk, algorithm);
  // Own kernels are faster than reference loops and im2col with gemm.
  const std::string_view kernel = plan.run ? plan.run.kernel() : "";
  if (kernel.find("ref") != kernel.npos || kernel.find("gemm") != kernel.npos ||
      (c.dtype == Dtype::bf16 && !plan.run.gains_by_bf16()))
    plan.run = {};
}

Plan plan_for(const Conv& c) {
  Plan plan;
  if (const int64_t chunk = winograd_chunk(c))
    choose(plan, c, Algorithm::winograd, chunk, channel_cuts(c, chunk, 2, 32));
  if (const int64_t chunk = direct_chunk(c); !plan.run)
    choose(plan, c, Algorithm::direct, chunk,
           heavy_weight(c) > 0 ? channel_cuts(c, chunk, 16, 64)
                               : channel_cuts(c, chunk, 4, chunk < c.batch ? 32 : 16));
  if (!plan.run) return {};
  const ConvLayouts plain = layouts_of(c, plan.piece, plan.chunk, false);
  const bool output = c.part == ConvPart::output, input = c.part == ConvPart::input,
             weight = c.part == ConvPart::weight;
  const Argument x = input ? kSourceGradient : kSource, w = weight ? kWeightsGradient : kWeights,
                 y = output ? kResult : kResultGradient;
  if (!set_reorder(plain.source, plan.run.layout(x), input, plan.from_x, plan.x) ||
      !set_reorder(plain.weights, plan.run.layout(w), weight, plan.from_w, plan.w) ||
      !set_reorder(plain.result, plan.run.layout(y), output, plan.from_y, plan.y))
    return {};
  if (plan.w > 0) plan.panels = panels_of(c, plan.piece, plan.run.layout(w));
  if (weight) {
    plan.parts = weight_parts(c, plan.chunk);
    plan.w = aligned(plan.run.layout(w).bytes());  // the sums need them in any case
  }
  return plan;
}

std::shared_ptr<const Plan> wanted_plan(const Conv& c) {
  if (!suits(c) || !open() || (c.dtype == Dtype::bf16 && !open()->bf16)) return nullptr;
  const auto plan =
      kept<kPlans>(key_of(c), [&] { return std::make_shared<const Plan>(plan_for(c)); });
  return plan->chunk > 0 ? plan : nullptr;
}

// ---- running ------------------------------------------------------------------------------------

/// A call and its scratch memory: the weight of each split in oneDNN's layout, or the parts of its
/// gradient; if channels are split, the source of all chunks; then for each thread a chunk of x and
/// of y and, for the gradient of the weight, the gradient of one chunk. If there is one chunk, only one piece reads
/// or computes the weight of a split: then it is in the memory of the piece's thread, which stays in its caches.
struct Call {
  const Conv& c;
  const Plan& plan;
  const bool weight = c.part == ConvPart::weight, from_y = c.part == ConvPart::input;
  const int64_t chunks = c.batch / plan.chunk,
                weights = chunks == 1 ? 0 : plan.w * plan.cuts * plan.parts,
                flips =
                    c.flipped && plan.panels.lanes == 0
                        ? aligned(sizeof(float) * c.groups * c.inputs * c.outputs * area(c.kernel))
                        : 0,
                source = from_y ? plan.y : plan.x, sources = plan.cuts > 1 ? source *chunks : 0,
                each = plan.x + plan.y + (weight || chunks == 1 ? plan.w : 0);

  int64_t bytes() const { return weights + flips + sources + each * cpu_threads(); }
  char* scratch() const { return static_cast<char*>(c.scratch); }
  char* flipped_weight() const { return scratch() + weights; }
  char* source_at(int64_t k) const { return scratch() + weights + flips + k * source; }
  char* thread_scratch() const { return source_at(0) + sources + each * worker_number(); }
  float* thread_weight() const {
    return reinterpret_cast<float*>(thread_scratch() + plan.x + plan.y);
  }
  float* sum(int64_t part, int64_t cut) const {
    if (chunks == 1) return thread_weight();
    return reinterpret_cast<float*>(scratch() + (part * plan.cuts + cut) * plan.w);
  }

  // Chunk k of x and of y, the weight and the bias, starting with split j.
  void* at(const void* array, int64_t element) const {
    return static_cast<char*>(const_cast<void*>(array)) + element * item_size(c.dtype);
  }
  void* x(int64_t k, int64_t j) const {
    const int64_t channel =
        k * plan.chunk * c.groups * c.inputs + (from_y ? j : 0) * plan.piece.inputs;
    return at(c.x, channel * area(c.size));
  }
  void* y(int64_t k, int64_t j) const {
    const int64_t channel =
        k * plan.chunk * c.groups * c.outputs + (from_y ? 0 : j) * plan.piece.outputs;
    return at(c.y, channel * area(c.out));
  }
  void* w(int64_t j) const {
    const int64_t taps = area(c.kernel), row = c.flipped && flips == 0 ? taps : c.inputs * taps;
    return at(flips > 0 ? flipped_weight() : c.w,
              j * (from_y ? plan.piece.inputs * taps : plan.piece.outputs * row));
  }
  const void* bias(int64_t j) const { return at(c.bias, j * c.groups * plan.piece.outputs); }

  bool reorder_source(int64_t k, void* to) const {
    return from_y ? plan.from_y.run({{kSource, y(k, 0)}, {kResult, to}})
                  : plan.from_x.run({{kSource, x(k, 0)}, {kResult, to}});
  }
  /// Chunk k of the tensor that all splits read, in the primitive's layout.
  const void* source_of(int64_t k, bool& good) const {
    if (source == 0) return from_y ? y(k, 0) : x(k, 0);
    if (sources > 0) return source_at(k);
    good = reorder_source(k, thread_scratch()) && good;
    return thread_scratch();
  }
  /// Copies a flipped weight in the order that the others have.
  void flip_weight() const {
    const int64_t taps = area(c.kernel);
    const float* const from = static_cast<const float*>(c.w);
    float* to = reinterpret_cast<float*>(flipped_weight());
    for (int64_t g = 0; g < c.groups; ++g)
      for (int64_t o = 0; o < c.outputs; ++o)
        for (int64_t i = 0; i < c.inputs; ++i, to += taps) {
          const float* const kernel = from + ((g * c.inputs + i) * c.outputs + o) * taps;
          std::reverse_copy(kernel, kernel + taps, to);
        }
  }
  bool load_weight(int64_t j) const {
    if (plan.panels.lanes == 0) return plan.from_w.run({{kSource, w(j)}, {kResult, sum(0, j)}});
    pack_weight(plan.panels, static_cast<const float*>(w(j)), sum(0, j));
    return true;
  }
  bool load_shared() const {
    std::atomic<bool> good{true};
    if (flips > 0) flip_weight();
    if (!weight && plan.from_w && chunks > 1)
      parallel(plan.cuts, true, [&](int64_t j) {
        if (!load_weight(j)) good = false;
      });
    if (sources > 0)
      parallel(chunks, true, [&](int64_t k) {
        if (!reorder_source(k, source_at(k))) good = false;
      });
    return good;
  }

  /// Computes the result of chunk k and split j.
  bool run_piece(int64_t k, int64_t j) const {
    bool good = !plan.from_w || chunks > 1 || load_weight(j);
    const void *from = source_of(k, good), *by = plan.from_w ? sum(0, j) : w(j);
    const Primitive& to_plain = from_y ? plan.from_x : plan.from_y;
    void* const plain = from_y ? x(k, j) : y(k, j);
    void* const to = to_plain ? thread_scratch() + source : plain;
    const Data left{from_y ? kResultGradient : kSource, from}, right{kWeights, by},
        result{from_y ? kSourceGradient : kResult, to};
    good = good && (c.bias ? plan.run.run({left, right, {kBias, bias(j)}, result})
                           : plan.run.run({left, right, result}));
    return good && (!to_plain || to_plain.run({{kSource, to}, {kResult, plain}}));
  }

  /// Computes the gradient of the weight: part i of split j, over its chunks in order.
  bool run_part(int64_t i, int64_t j) const {
    bool good = true;
    const int64_t first = chunks * i / plan.parts, end = chunks * (i + 1) / plan.parts;
    char* const gradient = thread_scratch() + plan.x;
    for (int64_t k = first; k < end && good && !mt_interrupted; ++k) {
      const void *from = source_of(k, good), *by = y(k, j);
      if (plan.from_y)
        good = plan.from_y.run({{kSource, by}, {kResult, gradient}}) && good, by = gradient;
      float* const to = k > first ? thread_weight() : sum(i, j);
      good = good && plan.run.run({{kSource, from}, {kResultGradient, by}, {kWeightsGradient, to}});
      if (k > first && good) add_floats(sum(i, j), to, plan.w / 4);
    }
    return good;
  }
  static void add_floats(float* to, const float* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
  }

  bool store_weight(int64_t j) const {
    const Conv& p = plan.piece;
    if (plan.panels.lanes > 0) unpack_weight(plan.panels, static_cast<float*>(w(j)), sum(0, j));
    else if (plan.from_w) return plan.from_w.run({{kSource, sum(0, j)}, {kResult, w(j)}});
    else __builtin_memcpy(w(j), sum(0, j), 4 * c.groups * p.outputs * p.inputs * area(c.kernel));
    return true;
  }
  bool run_weights() const {
    std::atomic<bool> good{true};
    parallel(plan.parts * plan.cuts, true, [&](int64_t piece) {
      const int64_t j = piece % plan.cuts;
      if (!run_part(piece / plan.cuts, j) || (chunks == 1 && !store_weight(j))) good = false;
    });
    if (chunks == 1) return good;
    parallel_strips(plan.cuts * plan.w / 4, [&](int64_t from, int64_t to) {
      for (int64_t i = 1; i < plan.parts; ++i)
        add_floats(sum(0, 0) + from, sum(i, 0) + from, to - from);
    });
    parallel(plan.cuts, true, [&](int64_t j) {
      if (!store_weight(j)) good = false;
    });
    return good;
  }

  bool run() const {
    if (!load_shared()) return false;
    if (weight) return run_weights();
    std::atomic<bool> good{true};
    parallel(chunks * plan.cuts, true, [&](int64_t piece) {
      if (!run_piece(piece / plan.cuts, piece % plan.cuts)) good = false;
    });
    return good;
  }
};

}  // namespace

int64_t convolution_scratch(const Conv& c) {
  const auto plan = wanted_plan(c);
  return plan ? Call{c, *plan}.bytes() : 0;
}

bool convolve(const Conv& c) {
  const auto plan = c.scratch ? wanted_plan(c) : nullptr;
  if (!plan) return false;
  count_onednn();
  return Call{c, *plan}.run();
}

const char* convolution_kernel(const Conv& c) {
  const auto plan = wanted_plan(c);
  return plan ? plan->run.kernel() : "";
}

}  // namespace mt::onednn
