// conv_weights.cpp -- the gradient of the weight of a convolution on CPUs
//
// With enough channels, each tap of the kernel is a matrix product, channels of x by outputs of y,
// summed over positions. A tile of it stays in registers for all positions of a block: rows of the
// shared layout scale registers of y's outputs, which were transposed before. With few channels,
// im2col blocks are multiplied by the matmul kernels.
#include "kernels/cpu/libraries/openblas.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/verbs/conv_tile.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// The positions of a block in the shared layout, and in y's outputs, `panel` for each position.
struct Strip {
  const Block& block;
  int64_t panel;
  template <class T, class F> MT_SIMD void each(const T* x, const T* y, const F& f) const {
    const int64_t columns = block.size[1], pitch = block.pitch, step = panel;
    for (int64_t p = block.size[0]; p > 0; --p, x += pitch) {
      const T* a = x;
      for (int64_t q = columns; q > 0; --q, ++a, y += step) f(a, y);
    }
  }
};

/// to[position][output] = y[output][position] for the first n of W outputs, zero for the others.
template <class T>
void pack_outputs(const T* y, int64_t plane, int64_t n, int64_t positions, T* to, int64_t to_row) {
  constexpr int W = kWidth<T>, L = kLane<T>;
  int64_t p = 0;
  if (n == W)
    for (; p + L <= positions; p += L) {
      Vector<T> r[L];
      MT_UNROLL for (int i = 0; i < L; ++i) r[i] = load_lanes(y + p + i * plane, L * plane);
      transpose_lanes(r);
      MT_UNROLL for (int i = 0; i < L; ++i) store(to + (p + i) * to_row, r[i]);
    }
  for (; p < positions; ++p)
    for (int64_t j = 0; j < W; ++j) to[p * to_row + j] = j < n ? y[j * plane + p] : T(0);
}

// ---- the plan, which depends only on the shape --------------------------------------------------

constexpr int64_t kRoom = 96 * 1024;  // bytes of x's block, and of y's: together a part of L2

template <class T> struct Plan {
  Job<T> job;
  int64_t block[2];       // positions
  int64_t channels;       // of x that are copied at a time; 0: they would need too much memory
  int64_t panel, panels;  // outputs of a tile, and how many tiles of y are packed at once
  int64_t padded;         // outputs of a group, rounded up to whole panels
  int64_t parts, cuts;    // pieces of the batch, and of the channels
};

template <class T> Plan<T> plan_for(const Conv& c) {
  constexpr int W = kWidth<T>;
  constexpr int64_t room = kRoom / int64_t(sizeof(T));
  Plan<T> plan;
  plan.job = job_from_x<T>(c, nullptr);
  plan.block[1] = smaller(c.out[1], int64_t(256));
  plan.block[0] = larger(smaller(c.out[0], 256 / plan.block[1]), 1);
  plan.channels = smaller(c.inputs, kTaps / plan.job.taps());
  while (plan.channels > 0 &&
         shared_size(plan.job.axis, plan.channels, plan.block[0], plan.block[1]) > double(room))
    plan.channels = plan.channels == 1 ? 0 : (plan.channels + 1) / 2;
  plan.panel = c.outputs > W ? 2 * W : W;
  plan.padded = ceil_div(c.outputs, plan.panel) * plan.panel;
  plan.panels = larger(room / (area(plan.block) * plan.panel), 1);
  plan.parts = conv_parts(c);
  plan.cuts = c.groups * plan.parts >= 8 ? 1 : ceil_div(c.inputs, int64_t(48));
  return plan;
}

/// Computes a block of one image: `channels` of x, already copied, by all outputs.
template <class T>
void run_block(const Plan<T>& plan, const Conv& c, const Block& block, const Taps& taps,
               const T* x_block, int64_t plane, int64_t channels, const T* y, T* packed, T* sums) {
  constexpr int W = kWidth<T>;
  constexpr int most = sizeof(F32s) == 64 ? 12 : 6;
  const int64_t positions = area(block.size), columns = block.size[1], places = area(c.out);
  const int64_t kernel = plan.job.taps(), tiles = ceil_div(channels, int64_t(most));
  for (int64_t first = 0; first < c.outputs; first += plan.panels * plan.panel) {
    const int64_t end = smaller(first + plan.panels * plan.panel, c.outputs);
    for (int64_t o = first; o < end; o += plan.panel) {
      T* panel = packed + (o - first) * positions;
      for (int64_t v = 0; v < plan.panel; v += W) {
        const int64_t n = larger(smaller(c.outputs - o - v, int64_t(W)), 0);
        const T* from = y + smaller(o + v, c.outputs - 1) * places;
        if (columns == c.out[1]) pack_outputs(from, places, n, positions, panel + v, plan.panel);
        else
          for (int64_t p = 0; p < block.size[0]; ++p)
            pack_outputs(from + p * c.out[1], places, n, columns,
                         panel + p * columns * plan.panel + v, plan.panel);
      }
    }
    for (int64_t i = 0; i < tiles && !mt_interrupted; ++i) {
      const int64_t from = channels * i / tiles, rows = channels * (i + 1) / tiles - from;
      const Tile<T, Strip> run = plan.panel > W ? tile_for<T, Strip, most, always<2>>(rows)
                                                : tile_for<T, Strip, most, always<1>>(rows);
      for (int64_t o = first; o < end; o += plan.panel)
        for (int64_t k = 0; k < kernel; ++k)
          run({block, plan.panel}, x_block + from * plane + taps.b[k], plane,
              packed + (o - first) * positions, nullptr,
              sums + (k * c.inputs + from) * plan.padded + o, plan.padded, true, W);
    }
  }
}

/// Processes the images [image, last) of a group, and its channels [channel, end).
template <class T>
void run_piece(const Plan<T>& plan, const Conv& c, int64_t g, int64_t image, int64_t last,
               int64_t channel, int64_t end, T* sums) {
  alignas(64) T x_block[kRoom / sizeof(T) + 8 * kWidth<T>];
  alignas(64) T packed[kRoom / sizeof(T) + 256 * 2 * kWidth<T>];
  const int64_t kernel = plan.job.taps();
  for (int64_t k = 0; k < kernel; ++k)
    __builtin_memset(sums + (k * c.inputs + channel) * plan.padded, 0,
                     (end - channel) * plan.padded * sizeof(T));
  Taps taps;
  Job<T> job = plan.job;
  for (; image < last && !mt_interrupted; ++image) {
    const int64_t entry = image * c.groups + g;
    job.in = plan.job.in + entry * c.inputs * job.plane;
    const T* y = static_cast<const T*>(c.y) + entry * c.outputs * area(c.out);
    for (int64_t k = 0; k < Block::count(job.axis, plan.block) && !mt_interrupted; ++k) {
      const Block block(job.axis, plan.block, k);
      const int64_t plane = job.axis[0].phases() * job.axis[1].phases() *
                            job.axis[0].run(block.size[0]) * block.pitch;
      for (int64_t at = channel; at < end; at += plan.channels) {
        const int64_t n = smaller(plan.channels, end - at);
        lay_shared(job, block, at, n, x_block, taps);
        run_block(plan, c, block, taps, x_block, plane, n,
                  y + block.first[0] * c.out[1] + block.first[1], packed, sums + at * plan.padded);
      }
    }
  }
}

/// w[group, output, channel, tap] = the sum of all parts.
template <class T> void add_parts(const Plan<T>& plan, const Conv& c, const T* sums) {
  T* w = static_cast<T*>(c.w);
  const int64_t kernel = plan.job.taps(), part = kernel * c.inputs * plan.padded;
  parallel(c.groups * c.inputs, c.groups * part * plan.parts > 2 * kGrain, [&](int64_t i) {
    const int64_t g = i / c.inputs, channel = i % c.inputs;
    for (int64_t o = 0; o < c.outputs; ++o)
      for (int64_t k = 0; k < kernel; ++k) {
        const T* from = sums + g * plan.parts * part + (k * c.inputs + channel) * plan.padded + o;
        T sum = from[0];
        for (int64_t j = 1; j < plan.parts; ++j) sum += from[j * part];
        w[((g * c.outputs + o) * c.inputs + channel) * kernel + k] = sum;
      }
  });
}

template <class T> void by_tiles(const Plan<T>& plan, const Conv& c) {
  T* sums = static_cast<T*>(c.scratch);
  const int64_t part = plan.job.taps() * c.inputs * plan.padded, each = plan.parts * plan.cuts;
  const double work = double(area(c.out)) * double(part) * double(c.batch * c.groups);
  parallel(c.groups * each, work > 1e6, [&](int64_t piece) {
    const int64_t g = piece / each, j = piece % each / plan.cuts, cut = piece % plan.cuts;
    run_piece(plan, c, g, c.batch * j / plan.parts, c.batch * (j + 1) / plan.parts,
              c.inputs * cut / plan.cuts, c.inputs * (cut + 1) / plan.cuts,
              sums + (g * plan.parts + j) * part);
  });
  add_parts(plan, c, sums);
}

// ---- columns ------------------------------------------------------------------------------------

constexpr int64_t kFew = 1024;  // weights of at most this size sum their gradient in kParts parts
constexpr int64_t kParts = 8;

/// Uses im2col blocks and matmul kernels: a group's taps are split into pieces, each of which runs
/// over all images and blocks in order; the gradient of a small weight is the sum of several parts.
template <class T> bool by_columns(const Conv& c) {
  const T* y = static_cast<const T*>(c.y);
  T* w = static_cast<T*>(c.w);
  const Job<T> job = job_from_x<T>(c, nullptr);
  const int64_t taps = c.inputs * job.taps(), places = area(c.out);
  constexpr int64_t room = kScratch / int64_t(sizeof(T));
  const int64_t columns = smaller(c.out[1], int64_t(512)),
                positions[] = {larger(smaller(c.out[0], 512 / columns), 1), columns};
  const int64_t most = smaller(smaller(taps, room / area(positions)), kTaps);
  const int64_t cuts = ceil_div(taps, smaller(most, int64_t(96)));
  const int64_t per_image = Block::count(job.axis, positions), blocks = c.batch * per_image;
  const int64_t all = c.groups * c.outputs * taps;
  const int64_t parts = all > kFew ? 1 : larger(smaller(blocks / 4, kParts), 1);
  const double work = double(taps) * double(places) * double(c.batch * c.groups * c.outputs);
  if (work > 8e6) openblas::open();  // before threads start: some pieces may call it
  alignas(64) T sums[kParts * kFew];
  bool good = true;
  parallel(c.groups * cuts * parts, work > 1e6, [&](int64_t piece) {
    alignas(64) T scratch[room];
    Taps table;
    const int64_t part = piece % parts, g = piece / parts / cuts, cut = piece / parts % cuts;
    const int64_t tap = taps * cut / cuts, n = taps * (cut + 1) / cuts - tap;
    Matmul m;
    m.dtype = c.dtype, m.batch_dims = 0, m.accumulate = false;
    m.m = c.outputs, m.n = n;
    m.a_row = places, m.a_col = 1, m.b_col = 0, m.b_row = 1;
    m.c = (parts > 1 ? sums + part * all : w) + g * c.outputs * taps + tap;
    m.c_row = taps, m.c_col = 1;
    const int64_t end = blocks * (part + 1) / parts;
    for (int64_t i = blocks * part / parts; i < end && !mt_interrupted; ++i) {
      const int64_t entry = i / per_image * c.groups + g;
      const Block block(job.axis, positions, i % per_image);
      Job<T> mine = job;
      mine.in += entry * c.inputs * job.plane;
      lay_columns(mine, block, tap, n, scratch, table);
      m.k = area(block.size);
      m.a = y + entry * c.outputs * places + block.first[0] * c.out[1] + block.first[1];
      m.b = scratch, m.b_col = m.k;
      if (!matmul(m)) __atomic_store_n(&good, false, __ATOMIC_RELAXED);
      m.accumulate = true;
    }
  });
  for (int64_t i = 0; parts > 1 && i < all; ++i) {
    w[i] = sums[i];
    for (int64_t part = 1; part < parts; ++part) w[i] += sums[part * all + i];
  }
  return good;
}

template <class T> bool weight_as(const Conv& c) {
  if (c.scratch) {
    const Plan<T> plan = plan_for<T>(c);
    if (plan.channels > 0) return by_tiles(plan, c), true;
  }
  return by_columns<T>(c);
}

}  // namespace

bool conv_weight(const Conv& c) {
  return c.dtype == Dtype::f64 ? weight_as<double>(c) : weight_as<float>(c);
}

}  // namespace MT_ISA
}  // namespace mt
