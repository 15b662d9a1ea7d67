// conv_tile.h -- the input of a convolution with contiguous taps, and the register tile that sums them
//
// The input for a block of output positions, of one image and group, is copied to scratch memory in
// which each tap (a channel and a position in the kernel) is contiguous. The layout is either
// shared, padded with zeros and with one plane for each phase of the stride, so that taps overlap
// and no element is copied twice; or it has one row for each tap (im2col).
#pragma once
#include "kernels/conv.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {

constexpr int64_t kScratch = 192 * 1024;  // bytes of copied input for a block: a part of L2
constexpr int64_t kTaps = 1024;           // taps that are summed before the result is stored

/// One spatial axis of a job: position q in [0, count) of the result is at start + q * step; tap j
/// reads the input at q * stride + shift + j * shift_step and the kernel at `at` + j * at_step.
struct Axis {
  int64_t in, count, start, step, stride;
  int64_t taps, shift, shift_step, at, at_step;
  int64_t lowest() const { return shift_step < 0 ? shift + (taps - 1) * shift_step : shift; }
  int64_t reach() const { return (taps - 1) * (shift_step < 0 ? -shift_step : shift_step); }
  /// The distance of tap j from the lowest tap.
  int64_t above(int64_t j) const { return shift + j * shift_step - lowest(); }
  int64_t phases() const { return smaller(stride, reach() + 1); }
  /// The number of elements of a phase that `n` positions read.
  int64_t run(int64_t n) const { return n + reach() / stride; }
};

/// out[m, q] = bias[m] + sum over channels and taps of a[m, tap] * in[channel, q, tap].
template <class T> struct Job {
  Axis axis[2];
  int64_t channels, rows;  // input planes, output planes
  const T* in;
  T* out;
  const T* a;
  int64_t a_row, a_channel, kernel[2];
  const T* bias;
  int64_t plane, out_plane, out_width;
  int64_t taps() const { return axis[0].taps * axis[1].taps; }
  /// The offset of tap (i, j) of a channel in `a`.
  int64_t tap(int64_t channel, int64_t i, int64_t j) const {
    const Axis &h = axis[0], &w = axis[1];
    return channel * a_channel + (h.at + i * h.at_step) * kernel[1] + w.at + j * w.at_step;
  }
};

/// The offsets of the taps of one chunk, in the weights and in the copied input.
struct Taps {
  int64_t n;
  int64_t a[kTaps], b[kTaps];
  template <class T, class F> MT_SIMD void each(const T* weights, const T* in, const F& f) const {
    for (int64_t t = 0; t < n; ++t) f(weights + a[t], in + b[t]);
  }
};

/// A block of positions of a job.
struct Block {
  int64_t first[2], size[2];
  int64_t pitch;  // the row stride of positions in the copied input
  /// Block k of the blocks of `most` positions that cover all; pitch is that of the shared layout.
  Block(const Axis* axis, const int64_t* most, int64_t k) {
    const int64_t across = ceil_div(axis[1].count, most[1]), at[] = {k / across, k % across};
    for (int d = 0; d < 2; ++d) {
      first[d] = at[d] * most[d];
      size[d] = smaller(most[d], axis[d].count - first[d]);
    }
    pitch = axis[1].run(size[1]);
  }
  static int64_t count(const Axis* axis, const int64_t* most) {
    return ceil_div(axis[0].count, most[0]) * ceil_div(axis[1].count, most[1]);
  }
};

// ---- laying out the input -----------------------------------------------------------------------

/// The indices i of the n positions first + i * stride that are in [0, size): `begin` to `end`.
struct Span {
  int64_t begin, end;
  Span(int64_t from, int64_t to) : begin(from), end(to) {}
  Span(int64_t n, int64_t first, int64_t stride, int64_t size) {
    begin = smaller(first < 0 ? ceil_div(-first, stride) : 0, n);
    end = larger(begin, smaller(first < size ? (size - 1 - first) / stride + 1 : 0, n));
  }
};

template <class T> inline void copy_run(T* to, const T* from, int64_t n) {
  constexpr int W = simd::kWidth<T>;
  for (; n >= W; n -= W, to += W, from += W) simd::store(to, simd::load(from));
  if (n > 0) simd::store_first(to, simd::load_first(from, int(n)), int(n));
}

/// to[i] = in[first + i * stride] for i in [0, n), zero outside the span.
template <class T>
inline void lay_run(T* to, int64_t n, const T* in, int64_t first, int64_t stride, Span span) {
  int64_t i = 0;
  for (; i < span.begin; ++i) to[i] = T(0);
  if (stride == 1) copy_run(to + i, in + first + i, span.end - i);
  else
    for (; i < span.end; ++i) to[i] = in[first + i * stride];
  for (i = span.end; i < n; ++i) to[i] = T(0);
}

/// The number of elements of a shared layout of `channels` planes for a block of positions. It is a
/// double, since large strides and dilations exceed 2^63.
inline double shared_size(const Axis* axis, int64_t channels, int64_t rows, int64_t columns) {
  return double(channels) * double(axis[0].phases()) * double(axis[1].phases()) *
         double(axis[0].run(rows)) * double(axis[1].run(columns));
}

/// Writes the shared layout: [channel][phase][phase][row][column].
template <class T>
inline void lay_shared(const Job<T>& job, const Block& block, int64_t channel, int64_t channels,
                       T* to, Taps& taps) {
  const Axis &h = job.axis[0], &w = job.axis[1];
  const int64_t height = h.run(block.size[0]), width = w.run(block.size[1]);
  const int64_t top = block.first[0] * h.stride + h.lowest(),
                left = block.first[1] * w.stride + w.lowest();
  const int64_t plane = h.phases() * w.phases() * height * width;
  T* at = to;
  for (int64_t c = 0; c < channels; ++c) {
    const T* in = job.in + (channel + c) * job.plane;
    for (int64_t ph = 0; ph < h.phases(); ++ph)
      for (int64_t pw = 0; pw < w.phases(); ++pw) {
        const Span span(width, left + pw, w.stride, w.in);
        for (int64_t i = 0; i < height; ++i, at += width) {
          const int64_t y = top + ph + i * h.stride;
          if (y >= 0 && y < h.in) lay_run(at, width, in + y * w.in, left + pw, w.stride, span);
          else __builtin_memset(at, 0, width * sizeof(T));
        }
      }
  }
  taps.n = 0;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < h.taps; ++i)
      for (int64_t j = 0; j < w.taps; ++j) {
        const int64_t y = h.above(i), x = w.above(j);
        taps.a[taps.n] = job.tap(channel + c, i, j);
        taps.b[taps.n++] = c * plane + (y % h.stride * w.phases() + x % w.stride) * height * width +
                           y / h.stride * width + x / w.stride;
      }
}

/// Writes im2col: one row of positions for each tap of [tap, tap + n), counted over the channels.
template <class T>
inline void lay_columns(const Job<T>& job, const Block& block, int64_t tap, int64_t n, T* to,
                        Taps& taps) {
  const Axis &h = job.axis[0], &w = job.axis[1];
  const int64_t positions = block.size[0] * block.size[1];
  taps.n = n;
  for (int64_t t = 0; t < n; ++t) {
    const int64_t c = (tap + t) / job.taps(), i = (tap + t) / w.taps % h.taps,
                  j = (tap + t) % w.taps;
    taps.a[t] = job.tap(c, i, j);
    taps.b[t] = t * positions;
    const T* in = job.in + c * job.plane;
    const int64_t left = block.first[1] * w.stride + w.shift + j * w.shift_step;
    const Span span(block.size[1], left, w.stride, w.in);
    for (int64_t p = 0; p < block.size[0]; ++p) {
      const int64_t y = (block.first[0] + p) * h.stride + h.shift + i * h.shift_step;
      T* at = to + t * positions + p * block.size[1];
      if (y >= 0 && y < h.in) lay_run(at, block.size[1], in + y * w.in, left, w.stride, span);
      else __builtin_memset(at, 0, block.size[1] * sizeof(T));
    }
  }
}

/// A job whose axes are not set, from planes of size `in_size` to planes of size `out_size`.
template <class T>
inline Job<T> job_of(const Conv& c, const T* in, T* out, int64_t rows, int64_t inner,
                     const int64_t* in_size, const int64_t* out_size) {
  Job<T> job;
  job.channels = inner, job.rows = rows;
  job.plane = area(in_size), job.out_plane = area(out_size), job.out_width = out_size[1];
  job.in = in, job.out = out, job.a = static_cast<const T*>(c.w), job.bias = nullptr;
  const int64_t taps = area(c.kernel);
  const bool by_columns = c.part == ConvPart::input || c.flipped;
  job.a_row = by_columns ? taps : inner * taps, job.a_channel = by_columns ? rows * taps : taps;
  job.kernel[0] = c.kernel[0], job.kernel[1] = c.kernel[1];
  return job;
}

/// The job that sums over x, for the output and for the gradient of the weight.
template <class T> inline Job<T> job_from_x(const Conv& c, T* out) {
  Job<T> job = job_of(c, static_cast<const T*>(c.x), out, c.outputs, c.inputs, c.size, c.out);
  for (int d = 0; d < 2; ++d)
    job.axis[d] = {c.size[d],
                   c.out[d],
                   0,
                   1,
                   c.stride[d],
                   c.kernel[d],
                   c.offset[d],
                   c.dilation[d],
                   c.flipped ? c.kernel[d] - 1 : 0,
                   c.flipped ? -1 : 1};
  return job;
}

/// Position i of x receives a gradient from y at (i - offset - k * dilation) / stride if that is an
/// integer: one job for each remainder of i by the stride, with the taps of that remainder.
inline Axis input_axis(const Conv& c, int d, int64_t remainder) {
  const int64_t s = c.stride[d];
  Axis axis{c.out[d], (c.size[d] - remainder + s - 1) / s, remainder, s, 1, 0, 0, 0, 0, 1};
  int64_t second = -1;
  for (int64_t k = 0; k < c.kernel[d] && second < 0; ++k) {
    const int64_t distance = remainder - c.offset[d] - k * c.dilation[d];
    if (distance % s != 0) continue;
    if (axis.taps++ == 0) axis.at = k, axis.shift = distance / s;
    else second = k, axis.at_step = k - axis.at, axis.shift_step = distance / s - axis.shift;
  }
  if (second >= 0) axis.taps = (c.kernel[d] - 1 - axis.at) / axis.at_step + 1;
  return axis;
}

/// Computes the gradient of the weight (conv_weights.cpp).
bool conv_weight(const Conv&);
/// Computes what is_by_planes() (conv_planes.cpp).
bool conv_planes(const Conv&);

// ---- the register tile ---------------------------------------------------------------------------

namespace {

using namespace simd;

// Arrays of vectors are kept in registers only if the loops over them are unrolled early.
#define MT_UNROLL _Pragma("GCC unroll 16")

/// R rows of the result by V registers of columns: `steps.each(a, b, f)` multiplies elements of a, one
/// per row, by registers of b. Tail: the only register has `last` valid columns. `bias` may be null.
template <class T, class Steps, int R, int V, bool Tail>
__attribute__((noinline)) void tile(const Steps& steps, const T* a, int64_t a_row, const T* b,
                                    const T* bias, T* to, int64_t to_row, bool add_to, int last) {
  constexpr int W = kWidth<T>;
  Vector<T> sum[R][V];
  MT_UNROLL for (int r = 0; r < R; ++r) {
    const Vector<T> start = broadcast(bias ? bias[r] : T(0));
    MT_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = start;
  }
  steps.each(
      a, b, [&](const T* x, const T* y) __attribute__((always_inline)) {
        Vector<T> in[V];
        MT_UNROLL for (int v = 0; v < V; ++v) in[v] =
            Tail ? load_first(y + v * W, last) : load(y + v * W);
        MT_UNROLL for (int r = 0; r < R; ++r) {
          const Vector<T> scale = broadcast(x[r * a_row]);
          MT_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = fma(scale, in[v], sum[r][v]);
        }
      });
  MT_UNROLL for (int r = 0; r < R; ++r) MT_UNROLL for (int v = 0; v < V; ++v) {
    T* at = to + r * to_row + v * W;
    store(at, add_to ? add(sum[r][v], load(at)) : sum[r][v]);
  }
}

template <class T, class Steps>
using Tile = void (*)(const Steps&, const T*, int64_t, const T*, const T*, T*, int64_t, bool, int);

/// The tile function for `rows` <= R rows and registers_for(rows) registers of columns.
template <class T, class Steps, int R, int (*registers_for)(int), bool Tail = false>
Tile<T, Steps> tile_for(int64_t rows) {
  if constexpr (R > 1)
    if (rows < R) return tile_for<T, Steps, R - 1, registers_for, Tail>(rows);
  return tile<T, Steps, R, registers_for(R), Tail>;
}
template <int V> constexpr int always(int) { return V; }

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
