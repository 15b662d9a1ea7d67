// conv.cpp -- convolution on CPUs: tiles of outputs in registers, with the input laid out so that
// each tap is a pointer
//
// A work item is one image, one group and one block of output positions. Its input is copied into a
// layout of conv_tile.h: shared, or columns if the waste at the ends of short rows would cost
// more. The gradient of the input is the same job, run once per phase of the stride.

#include "kernels/cpu/libraries/onednn_conv.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/verbs/conv_tile.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// Rows of the tallest tile. The rest of the 16 registers, or of the 32 of AVX-512, is for
/// positions, except for some that hold inputs and weights.
constexpr bool kHas32Registers = sizeof(F32s) == 64;
constexpr int kTall = kHas32Registers ? 8 : 6;
constexpr int columns_beside(int rows) {
  return rows == 1 ? 8 : kHas32Registers ? (rows <= 6 ? 4 : 3) : rows == 2 ? 4 : rows == 3 ? 3 : 2;
}

/// What the tiles of one chunk of taps have in common.
template <class T> struct Chunk {
  const Job<T>& job;
  const Block& block;
  const Taps& taps;
  const T* b;
  bool first, slack;  // slack: b may be read past the last position
};

/// Stores the positions [q, q + n) of a tile into the result, without those between two rows.
template <class T>
__attribute__((noinline)) void store_rows(const Chunk<T>& c, int64_t row0, int64_t rows, int64_t q,
                                          int64_t n, const T* from, int64_t from_row) {
  const Axis &h = c.job.axis[0], &w = c.job.axis[1];
  for (int64_t i = 0; i < n;) {
    const int64_t y = (q + i) / c.block.pitch, x = (q + i) % c.block.pitch;
    const int64_t length = smaller(n - i, c.block.pitch - x);
    const int64_t valid = smaller(length, c.block.size[1] - x);
    T* to = c.job.out + row0 * c.job.out_plane +
            (h.start + (c.block.first[0] + y) * h.step) * c.job.out_width + w.start +
            (c.block.first[1] + x) * w.step;
    for (int64_t r = 0; r < rows; ++r) {
      T* cell = to + r * c.job.out_plane;
      const T* value = from + r * from_row + i;
      if (w.step == 1 && c.first) {
        copy_run(cell, value, valid);
      } else if (w.step == 1) {
        MT_INDEPENDENT for (int64_t k = 0; k < valid; ++k) cell[k] += value[k];
      } else {
        for (int64_t k = 0; k < valid; ++k)
          cell[k * w.step] = c.first ? value[k] : cell[k * w.step] + value[k];
      }
    }
    i += length;
  }
}

/// Computes the rows [row, row + rows) of the result at all positions of the block.
template <class T> void compute_rows(const Chunk<T>& c, int64_t row, int64_t rows) {
  constexpr int W = kWidth<T>;
  const Job<T>& job = c.job;
  const Axis &h = job.axis[0], &w = job.axis[1];
  const int64_t total = (c.block.size[0] - 1) * c.block.pitch + c.block.size[1];
  const bool flat = w.step == 1 && h.step == 1 && c.block.pitch == job.out_width &&
                    c.block.size[1] == job.out_width;
  const T *a = job.a + row * job.a_row, *bias = c.first && job.bias ? job.bias + row : nullptr;
  alignas(64) T buffer[4 * kTall * W];
  const int wide = columns_beside(int(rows));
  const Tile<T, Taps> full = tile_for<T, Taps, kTall, columns_beside>(rows);
  for (int64_t q = 0, n; q < total && !mt_interrupted; q += n) {
    const int64_t left = total - q;
    Tile<T, Taps> run = full;
    int v = wide, last = W;
    if (left < v * W && (!c.slack || left <= W)) {
      run = left >= W ? tile_for<T, Taps, kTall, always<1>>(rows)
                      : tile_for<T, Taps, kTall, always<1>, true>(rows);
      v = 1, last = int(smaller(left, int64_t(W)));
    }
    n = smaller(left, int64_t(v) * W);
    const int64_t y = q / c.block.pitch, x = q % c.block.pitch;
    if (n == v * W && w.step == 1 && (flat || x + n <= c.block.size[1])) {
      T* to = job.out + row * job.out_plane +
              (h.start + (c.block.first[0] + y) * h.step) * job.out_width + w.start +
              c.block.first[1] + x;
      run(c.taps, a, job.a_row, c.b + q, bias, to, job.out_plane, !c.first, last);
    } else {
      run(c.taps, a, job.a_row, c.b + q, bias, buffer, v * W, false, last);
      store_rows(c, row, rows, q, n, buffer, v * W);
    }
  }
}

/// Computes all rows, in groups that fill the registers.
template <class T> void all_rows(const Chunk<T>& c, int64_t from, int64_t to) {
  for (int64_t i = from; i < to;) {
    const int64_t left = to - i, rows = ceil_div(left, ceil_div(left, int64_t(kTall)));
    compute_rows(c, i, rows);
    i += rows;
  }
}

// ---- the layout and the blocks depend only on the shape, never on the number of threads ---------

struct Plan {
  enum { direct, shared, columns } layout;
  int64_t block[2];    // positions
  int64_t chunk;       // channels (shared, direct) or taps (columns) at a time
  int64_t row_pieces;  // the rows are split too if there are few blocks
};

template <class T> Plan plan_for(const Job<T>& job, int64_t images) {
  const Axis &h = job.axis[0], &w = job.axis[1];
  constexpr int64_t room = kScratch / int64_t(sizeof(T)) - 8 * kWidth<T>;
  Plan plan{
      Plan::shared, {h.count, w.count}, smaller(job.channels, kTaps / larger(job.taps(), 1)), 1};
  const auto inside = [](const Axis& x) {
    return x.stride == 1 && x.lowest() >= 0 && x.lowest() + x.reach() + x.count <= x.in;
  };
  if (plan.chunk > 0 && inside(h) && inside(w) && w.count * 2 > w.in) {
    plan.layout = Plan::direct;
  } else {
    int64_t& rows = plan.block[0];
    while (plan.chunk > 0 && (w.run(w.count) > room / 8 ||
                              shared_size(job.axis, plan.chunk, rows, w.count) > double(room))) {
      if (rows > 8) rows = (rows + 1) / 2;
      else if (plan.chunk > 1) plan.chunk = (plan.chunk + 1) / 2;
      else if (rows > 1) rows = (rows + 1) / 2;
      else plan.chunk = 0;
    }
    // One row per tap costs a copy; the shared layout costs multiplications past the ends of rows.
    const double waste = double(w.run(w.count)) / double(w.count) - 1;
    if (plan.chunk == 0 || waste * double(job.rows) > 8) {
      plan.layout = Plan::columns;
      plan.block[1] = smaller(w.count, int64_t(256));
      plan.block[0] = larger(smaller(h.count, 256 / plan.block[1]), 1);
      plan.chunk = smaller(smaller(job.channels * job.taps(), kTaps),
                           room / (plan.block[0] * plan.block[1]));
    }
  }
  if (images * Block::count(job.axis, plan.block) < 8 && job.rows >= 96)
    plan.row_pieces = ceil_div(job.rows, int64_t(48));
  return plan;
}

/// Computes the rows [from, to) of one block, one chunk of taps after the other.
template <class T>
void run_block(const Job<T>& job, const Plan& plan, const Block& where, int64_t from, int64_t to) {
  alignas(64) T scratch[kScratch / sizeof(T)];
  Block block = where;
  Taps taps;
  const int64_t all = plan.layout == Plan::columns ? job.channels * job.taps() : job.channels;
  for (int64_t at = 0; at < all; at += plan.chunk) {
    const int64_t n = smaller(plan.chunk, all - at);
    const T* b = scratch;
    if (plan.layout == Plan::columns) {
      block.pitch = block.size[1];
      lay_columns(job, block, at, n, scratch, taps);
    } else if (plan.layout == Plan::shared) {
      lay_shared(job, block, at, n, scratch, taps);
    } else {
      const Axis &h = job.axis[0], &w = job.axis[1];
      block.pitch = w.in;
      b = job.in + at * job.plane;
      taps.n = 0;
      for (int64_t c = 0; c < n; ++c)
        for (int64_t i = 0; i < h.taps; ++i)
          for (int64_t j = 0; j < w.taps; ++j) {
            taps.a[taps.n] = job.tap(at + c, i, j);
            taps.b[taps.n++] =
                c * job.plane + (h.shift + i * h.shift_step) * w.in + w.shift + j * w.shift_step;
          }
    }
    all_rows(Chunk<T>{job, block, taps, b, at == 0, plan.layout != Plan::direct}, from, to);
  }
}

/// Runs the job for every image and group.
template <class T> void run_jobs(const Job<T>& first, int64_t images, int64_t groups) {
  const Axis &h = first.axis[0], &w = first.axis[1];
  if (h.count <= 0 || w.count <= 0) return;
  const Plan plan = plan_for(first, images * groups);
  const int64_t per_image = Block::count(first.axis, plan.block) * plan.row_pieces,
                entries = images * groups;
  // Loading and storing an element costs as much as 8 terms.
  const double work = double(h.count) * double(w.count) * double(first.rows) *
                      double(first.channels * first.taps() + 8) * double(entries);
  parallel(entries * per_image, work > 1e6, [&](int64_t piece) {
    const int64_t e = piece / per_image, g = e % groups;
    const int64_t part = piece % plan.row_pieces, block = piece % per_image / plan.row_pieces;
    Job<T> job = first;
    job.in += e * job.channels * job.plane, job.out += e * job.rows * job.out_plane;
    job.a += g * job.rows * job.channels * area(job.kernel);
    if (job.bias) job.bias += g * job.rows;
    run_block(job, plan, Block(first.axis, plan.block, block), job.rows * part / plan.row_pieces,
              job.rows * (part + 1) / plan.row_pieces);
  });
}

// ---- the three parts ----------------------------------------------------------------------------

/// y = w . x, or x = w' . y: (rows x inner) times (inner x positions).
template <class T>
bool one_by_one(const Conv& c, const T* in, T* out, int64_t rows, int64_t inner) {
  Matmul m;
  m.dtype = c.dtype;
  m.m = rows, m.k = inner, m.n = area(c.out);
  m.a = c.w, m.b = in, m.c = out;
  const bool by_columns = c.part == ConvPart::input || c.flipped;
  m.a_row = by_columns ? 1 : inner, m.a_col = by_columns ? rows : 1;
  m.b_row = m.c_row = m.n, m.b_col = m.c_col = 1;
  m.batch_dims = 2;
  m.batch_size[0] = c.batch, m.batch_size[1] = c.groups;
  m.a_batch[0] = 0, m.a_batch[1] = rows * inner;
  m.b_batch[0] = c.groups * inner * m.n, m.b_batch[1] = inner * m.n;
  m.c_batch[0] = c.groups * rows * m.n, m.c_batch[1] = rows * m.n;
  m.accumulate = c.part == ConvPart::output && c.bias;
  if (m.accumulate) {
    const T* bias = static_cast<const T*>(c.bias);
    parallel(c.batch * c.groups * rows, c.batch * c.groups * rows * m.n > 2 * kGrain,
             [&](int64_t i) {
               for (int64_t p = 0; p < m.n; ++p) out[i * m.n + p] = bias[i % (c.groups * rows)];
             });
  }
  return matmul(m);
}

template <class T> bool output_part(const Conv& c) {
  const T* x = static_cast<const T*>(c.x);
  T* y = static_cast<T*>(c.y);
  if (is_plain(c)) return one_by_one(c, x, y, c.outputs, c.inputs);
  Job<T> job = job_from_x(c, y);
  job.bias = static_cast<const T*>(c.bias);
  run_jobs(job, c.batch, c.groups);
  return true;
}

template <class T> bool input_part(const Conv& c) {
  T* x = static_cast<T*>(c.x);
  const T* y = static_cast<const T*>(c.y);
  if (is_plain(c)) return one_by_one(c, y, x, c.inputs, c.outputs);
  Job<T> job = job_of(c, y, x, c.inputs, c.outputs, c.out, c.size);
  const int64_t total = c.batch * c.groups * c.inputs * job.out_plane;
  if (c.stride[0] > 1 || c.stride[1] > 1)
    parallel_strips(total, [&](int64_t from, int64_t to) {
      __builtin_memset(x + from, 0, (to - from) * sizeof(T));
    });
  for (int64_t i = 0; i < smaller(c.stride[0], c.size[0]); ++i)
    for (int64_t j = 0; j < smaller(c.stride[1], c.size[1]); ++j) {
      job.axis[0] = input_axis(c, 0, i), job.axis[1] = input_axis(c, 1, j);
      if (job.taps() > 0) run_jobs(job, c.batch, c.groups);
    }
  return true;
}

template <class T> bool conv_as(const Conv& c) {
  return c.part == ConvPart::output  ? output_part<T>(c)
         : c.part == ConvPart::input ? input_part<T>(c)
                                     : conv_weight(c);
}

}  // namespace

bool conv(const Conv& c) {
  if (is_by_planes(c)) return conv_planes(c);
  return onednn::convolve(c) || (c.dtype == Dtype::f64   ? conv_as<double>(c)
                                 : c.dtype == Dtype::f32 ? conv_as<float>(c)
                                                         : false);
}

}  // namespace MT_ISA
}  // namespace mt
