// onednn_conv.cpp -- convolutions by oneDNN: chunks of the batch in its layouts, one thread for each
//
// A chunk of images is brought into the layout that the primitive wants, convolved and brought back,
// all of it by one thread and within its caches. The chunks and the algorithm follow from the shape
// alone; gradients for the weight are added up in the order of the chunks.
#include "kernels/cpu/onednn_conv.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/work.h"

namespace mt::onednn {
namespace {

constexpr int64_t kLeastChannels = 16, kWinogradChannels = 64, kWinogradTiles = 128;
constexpr double kLeastWork = 2e6;           // multiply-adds; a primitive takes 0.5 ms to make
constexpr double kChunkWork = 4e6;           // of a chunk, if the batch is not cut into 8
constexpr int64_t kChunkBytes = 512 * 1024;  // of a chunk's x and y: a part of an L2
constexpr size_t kPlans = 128;

int64_t area(const int64_t (&size)[2]) { return size[0] * size[1]; }
int64_t aligned(size_t bytes) { return int64_t(bytes + 63) / 64 * 64; }

double work_of_image(const Conv& c) {
  return double(area(c.out)) * double(area(c.kernel)) * double(c.groups * c.inputs * c.outputs);
}

/// Whether oneDNN is asked at all: by what fills the vectors of its kernels.
bool suits(const Conv& c) {
  const bool depthwise = c.inputs == 1 && c.outputs == 1 && c.groups >= kLeastChannels;
  const bool wide = c.inputs >= kLeastChannels && c.outputs >= kLeastChannels;
  return c.dtype == Dtype::f32 && (depthwise || wide) && c.dilation[0] > 0 && c.dilation[1] > 0 &&
         double(c.batch) * work_of_image(c) >= kLeastWork;
}

/// The largest divisor of n that is at most `most`.
int64_t divisor(int64_t n, int64_t most) {
  int64_t d = std::clamp<int64_t>(most, 1, n);
  while (n % d != 0) --d;
  return d;
}

/// 4 x 4 outputs of a 3 x 3 kernel by 6 x 6 products instead of 144 (Lavin and Gray 2016), where
/// there are enough of such tiles in an image to be worth transforming the weights.
int64_t winograd_chunk(const Conv& c) {
  for (int d = 0; d < 2; ++d)
    if (c.kernel[d] != 3 || c.stride[d] != 1 || c.dilation[d] != 1) return 0;
  if (c.groups > 1 || std::min(c.inputs, c.outputs) < kWinogradChannels) return 0;
  const int64_t tiles = ((c.out[0] + 3) / 4) * ((c.out[1] + 3) / 4);
  if (double(area(c.out)) < 0.75 * 16 * double(tiles)) return 0;
  const int64_t wanted = (2 * kWinogradTiles + tiles - 1) / tiles;
  const int64_t chunk = divisor(c.batch, std::min(wanted, std::max<int64_t>(c.batch / 2, 1)));
  return chunk * tiles >= kWinogradTiles ? chunk : 0;
}
int64_t direct_chunk(const Conv& c) {
  const double bytes =
      4 * double(c.groups) *
      (double(c.inputs) * double(area(c.size)) + double(c.outputs) * double(area(c.out)));
  const double by_work = std::max(double(c.batch) / 8, kChunkWork / work_of_image(c));
  return divisor(c.batch, int64_t(std::min({double(kChunkBytes) / bytes, by_work, 1e9})));
}

// ---- plans --------------------------------------------------------------------------------------

/// What a convolution of one shape needs: the primitive for a chunk, and the reorders between plain
/// layouts and its own, none where they are the same.
struct Plan {
  int64_t chunk = 0;                      // images; 0: there is no primitive
  int64_t parts = 1;                      // sums of the weight's gradient
  Primitive run, from_x, from_w, from_y;  // of the result, its way home
  int64_t x = 0, w = 0, y = 0;            // bytes of each in the primitive's layout; 0: plain
};

using Key = std::array<int64_t, 18>;
Key key_of(const Conv& c) {
  Key key{int64_t(c.part), c.batch, c.groups, c.inputs, c.outputs};
  for (int d = 0; d < 2; ++d) {
    const int64_t axis[] = {c.size[d],   c.kernel[d],   c.out[d],
                            c.stride[d], c.dilation[d], c.offset[d]};
    std::copy(axis, axis + 6, key.begin() + 5 + 6 * d);
  }
  return key;
}

/// Contiguous, or the weight as it comes for `input`: (groups, inputs, outputs, kernel).
struct Plain {
  Layout x, w, y;
};
Plain plain_layouts(const Conv& c, int64_t chunk, bool any) {
  const int64_t xs[] = {chunk, c.groups * c.inputs, c.size[0], c.size[1]};
  const int64_t ys[] = {chunk, c.groups * c.outputs, c.out[0], c.out[1]};
  const int64_t ws[] = {c.groups, c.outputs, c.inputs, c.kernel[0], c.kernel[1]};
  const auto rows = [](const int64_t(&s)[4], int64_t(&to)[4]) {
    to[3] = 1, to[2] = s[3], to[1] = s[2] * s[3], to[0] = s[1] * s[2] * s[3];
  };
  const int64_t taps = area(c.kernel);
  const bool exchanged = c.part == ConvPart::input;
  int64_t x_strides[4], y_strides[4];
  rows(xs, x_strides), rows(ys, y_strides);
  const int64_t w_strides[] = {c.inputs * c.outputs * taps, exchanged ? taps : c.inputs * taps,
                               exchanged ? c.outputs * taps : taps, c.kernel[1], 1};
  const int skip = c.groups == 1;  // then the weight has no dimension for them
  return {Layout(kF32, 4, xs, any ? nullptr : x_strides),
          Layout(kF32, 5 - skip, ws + skip, any ? nullptr : w_strides + skip),
          Layout(kF32, 4, ys, any ? nullptr : y_strides)};
}

Primitive primitive_for(const Conv& c, int64_t chunk, Algorithm algorithm) {
  const Plain any = plain_layouts(c, chunk, true);
  int64_t before[2], after[2];
  for (int d = 0; d < 2; ++d) {
    before[d] = -c.offset[d];
    after[d] = (c.out[d] - 1) * c.stride[d] + (c.kernel[d] - 1) * c.dilation[d] + 1 - c.size[d] -
               before[d];
  }
  const Pass pass = c.part == ConvPart::output  ? Pass::forward
                    : c.part == ConvPart::input ? Pass::data
                                                : Pass::weights;
  return Primitive::convolution(pass, algorithm, any.x, any.w, any.y,
                                {2, c.stride, c.dilation, before, after});
}

/// Sets the way between the plain and the primitive's layout; false where there is none.
bool set_way(const Layout& plain, const Layout& wanted, bool home, Primitive& way, int64_t& bytes) {
  if (!plain || !wanted) return false;
  if (plain == wanted) return true;
  way = home ? Primitive::reorder(wanted, plain) : Primitive::reorder(plain, wanted);
  bytes = aligned(wanted.bytes());
  return bool(way);
}

Plan plan_for(const Conv& c) {
  Plan plan;
  if (const int64_t chunk = winograd_chunk(c)) {
    plan.run = primitive_for(c, chunk, Algorithm::winograd);
    if (plan.run) plan.chunk = chunk;
  }
  if (!plan.run) {
    plan.chunk = direct_chunk(c);
    plan.run = primitive_for(c, plan.chunk, Algorithm::direct);
  }
  const Plain plain = plain_layouts(c, plan.chunk, false);
  const bool output = c.part == ConvPart::output, input = c.part == ConvPart::input,
             weight = c.part == ConvPart::weight;
  if (!plan.run ||
      !set_way(plain.x, plan.run.layout(input ? kSourceGradient : kSource), input, plan.from_x,
               plan.x) ||
      !set_way(plain.w, plan.run.layout(weight ? kWeightsGradient : kWeights), weight, plan.from_w,
               plan.w) ||
      !set_way(plain.y, plan.run.layout(output ? kResult : kResultGradient), output, plan.from_y,
               plan.y))
    return {};
  if (weight) {
    plan.parts = std::min(conv_parts(c), c.batch / plan.chunk);
    plan.w = aligned(plan.run.layout(kWeightsGradient).bytes());  // parts are needed anyway
  }
  return plan;
}

/// The plan of this shape, made at its first use; the last kPlans are kept.
std::shared_ptr<const Plan> find_plan(const Conv& c) {
  struct Kept {
    Key key;
    std::shared_ptr<const Plan> plan;
  };
  static std::mutex guard;
  static std::list<Kept> all;  // the latest first
  const Key key = key_of(c);
  const std::lock_guard lock(guard);
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Kept& k) { return k.key == key; });
  if (found != all.end()) {
    all.splice(all.begin(), all, found);
  } else {
    all.push_front({key, std::make_shared<const Plan>(plan_for(c))});
    if (all.size() > kPlans) all.pop_back();
  }
  return all.front().plan;
}
std::shared_ptr<const Plan> wanted_plan(const Conv& c) {
  if (!suits(c) || !open()) return nullptr;
  std::shared_ptr<const Plan> plan = find_plan(c);
  return plan->chunk > 0 ? plan : nullptr;
}

// ---- running ------------------------------------------------------------------------------------

void add_bias(const Conv& c, float* y, int64_t images) {
  const float* bias = static_cast<const float*>(c.bias);
  const int64_t channels = c.groups * c.outputs, places = area(c.out);
  for (int64_t i = 0; i < images * channels; ++i, y += places) {
    const float add = bias[i % channels];
    for (int64_t p = 0; p < places; ++p) y[p] += add;
  }
}

/// The memory of one call: the weight in oneDNN's layout, or the parts of its gradient; then for
/// each thread a chunk of x and of y and, for the gradient, that of a chunk.
struct Room {
  const Plan& plan;
  int64_t each;
  explicit Room(const Plan& p, const Conv& c) : plan(p), each(p.x + p.y) {
    if (c.part == ConvPart::weight) each += p.w;
  }
  int64_t bytes() const { return plan.w * plan.parts + each * cpu_threads(); }
  char* mine(const Conv& c) const {
    return static_cast<char*>(c.scratch) + plan.w * plan.parts + each * worker_number();
  }
};

/// `plain` in the primitive's layout: brought to `room`, or as it is.
const void* bring(const Primitive& way, const void* plain, void* room, bool& good) {
  if (!way) return plain;
  good = way.run({{kSource, plain}, {kResult, room}}) && good;
  return room;
}

/// The first image of chunk k: where it begins in x, and in y.
float* x_of(const Conv& c, const Plan& plan, int64_t k) {
  return static_cast<float*>(c.x) + k * plan.chunk * c.groups * c.inputs * area(c.size);
}
float* y_of(const Conv& c, const Plan& plan, int64_t k) {
  return static_cast<float*>(c.y) + k * plan.chunk * c.groups * c.outputs * area(c.out);
}

bool run_chunk(const Conv& c, const Plan& plan, const Room& room, const void* w, int64_t k) {
  bool good = true;
  char *x = room.mine(c), *y = x + plan.x;
  float *plain_x = x_of(c, plan, k), *plain_y = y_of(c, plan, k);
  if (c.part == ConvPart::output) {
    void* to = plan.from_y ? static_cast<void*>(y) : plain_y;
    const void* from = bring(plan.from_x, plain_x, x, good);
    good = good && plan.run.run({{kSource, from}, {kWeights, w}, {kResult, to}});
    if (plan.from_y) good = good && plan.from_y.run({{kSource, y}, {kResult, plain_y}});
    if (good && c.bias) add_bias(c, plain_y, plan.chunk);
  } else {
    void* to = plan.from_x ? static_cast<void*>(x) : plain_x;
    const void* from = bring(plan.from_y, plain_y, y, good);
    good = good && plan.run.run({{kResultGradient, from}, {kWeights, w}, {kSourceGradient, to}});
    if (plan.from_x) good = good && plan.from_x.run({{kSource, x}, {kResult, plain_x}});
  }
  return good;
}

/// to (+)= from
void add_floats(float* to, const float* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes / 4; ++i) to[i] += from[i];
}

/// Part j of the weight's gradient: its chunks in their order.
bool run_part(const Conv& c, const Plan& plan, const Room& room, int64_t j) {
  bool good = true;
  const int64_t chunks = c.batch / plan.chunk, end = chunks * (j + 1) / plan.parts;
  char *x = room.mine(c), *y = x + plan.x, *one = y + plan.y;
  float* const sum = static_cast<float*>(c.scratch) + j * plan.w / 4;
  for (int64_t k = chunks * j / plan.parts, n = 0; k < end && good && !mt_interrupted; ++k, ++n) {
    const void* from_x = bring(plan.from_x, x_of(c, plan, k), x, good);
    const void* from_y = bring(plan.from_y, y_of(c, plan, k), y, good);
    void* to = n > 0 ? static_cast<void*>(one) : sum;
    good = good &&
           plan.run.run({{kSource, from_x}, {kResultGradient, from_y}, {kWeightsGradient, to}});
    if (n > 0 && good) add_floats(sum, reinterpret_cast<float*>(one), plan.w);
  }
  return good;
}

bool run_weights(const Conv& c, const Plan& plan, const Room& room) {
  std::atomic<bool> good{true};
  parallel(plan.parts, true, [&](int64_t j) {
    if (!run_part(c, plan, room, j)) good = false;
  });
  float* const sum = static_cast<float*>(c.scratch);
  parallel_strips(plan.w / 4, [&](int64_t from, int64_t to) {
    for (int64_t j = 1; j < plan.parts; ++j)
      add_floats(sum + from, sum + j * plan.w / 4 + from, 4 * (to - from));
  });
  if (plan.from_w) return good && plan.from_w.run({{kSource, sum}, {kResult, c.w}});
  if (good)
    __builtin_memcpy(c.w, sum, size_t(4 * c.groups * c.outputs * c.inputs * area(c.kernel)));
  return good;
}

}  // namespace

int64_t convolution_scratch(const Conv& c) {
  const auto plan = wanted_plan(c);
  return plan ? Room(*plan, c).bytes() : 0;
}

bool convolve(const Conv& c) {
  const auto plan = c.scratch ? wanted_plan(c) : nullptr;
  if (!plan) return false;
  const Room room(*plan, c);
  count_onednn();
  if (c.part == ConvPart::weight) return run_weights(c, *plan, room);
  bool good = true;
  const void* w = bring(plan->from_w, c.w, c.scratch, good);
  if (!good) return false;
  std::atomic<bool> all{true};
  parallel(c.batch / plan->chunk, true, [&](int64_t k) {
    if (!run_chunk(c, *plan, room, w, k)) all = false;
  });
  return all;
}

const char* convolution_kernel(const Conv& c) {
  const auto plan = wanted_plan(c);
  return plan ? plan->run.kernel() : "";
}

}  // namespace mt::onednn
