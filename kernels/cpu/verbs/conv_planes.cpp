// conv_planes.cpp -- depthwise convolutions on CPUs: planes are read in place, by registers of columns
//
// A load leaves out the elements beyond the ends of a row, by a mask, instead of reading a padded
// copy. The masks depend on the tap and the columns only: they are computed once for all planes and
// rows. Where rows are shorter than a register, a plane is one long row ("flat"), in which each
// register has its own masks.
#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/verbs/conv_tile.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t W = kWidth<float>, kMasks = 2048;  // 8 KB

/// What the calls for all planes have in common. A line is a register of columns in each row of the result. In a
/// gradient with stride 2 it is a register of even and one of odd columns, in every second row.
struct Lines {
  Axis h, w[2];
  int64_t in_row, out_row, in_plane, out_plane, a_row, a_plane, bias_plane;
};
/// A line of some planes, whose first window begins in row y of the input. Each register has `count` columns; of the n
/// registers of a flat plane only the last one.
struct Part {
  int64_t planes, y, n;
  const float *in, *a, *bias;
  const uint32_t* masks;
  float* out;
  int64_t count;
  void next_plane(const Lines& s) {
    in += s.in_plane, out += s.out_plane, a += s.a_plane, bias += s.bias_plane;
  }
};

MT_SIMD void store_columns(float* p, F32s v, int64_t count) {
  if (count >= W) store(p, v);
  else if (count > 0) store_first(p, v, int(count));
}

/// Windows are `stride` rows and columns apart. The kernel has these rows, and columns for one or two registers. A row
/// of the input is loaded once, for all the `open` sums of the windows that contain it.
template <int stride, int rows, int columns, int odd_columns = 0>
void run_line(const Lines& s, Part p) {
  constexpr int open = (rows + stride - 1) / stride, all = columns + odd_columns,
                registers = odd_columns > 0 ? 2 : 1;
  int64_t shift[all], at[all];
  uint32_t bits[all];
  MT_UNROLL for (int j = 0; j < all; ++j) {
    const int f = j >= columns, tap = f ? j - columns : j;
    shift[j] = s.w[f].shift + tap, at[j] = s.w[f].at + tap * s.w[f].at_step;
    bits[j] = p.masks[f * kMasks / 2 + tap];
  }
  for (; p.planes > 0; --p.planes, p.next_plane(s)) {
    F32s weight[rows][all], sum[registers][open] = {};
    MT_UNROLL for (int i = 0; i < rows; ++i) MT_UNROLL for (int j = 0; j < all; ++j) weight[i][j] =
        broadcast(p.a[i * s.a_row + at[j]]);
    const float* in = p.in;
    float* out = p.out;
    int64_t y = p.y;
    for (int64_t k = 1 - open; k < p.n; ++k) {
      F32s part[registers][open];
      MT_UNROLL for (int f = 0; f < registers; ++f) MT_UNROLL for (int o = 0; o < open; ++o)
          part[f][o] = broadcast(o == 0 ? *p.bias : 0.0f);
      MT_UNROLL for (int r = 0; r < stride; ++r, ++y, in += s.in_row) {
        if (y < 0 || y >= s.h.in) continue;
        __builtin_prefetch(in + s.in_plane);
        MT_UNROLL for (int j = 0; j < all; ++j) {
          const float* const from = in + shift[j];
          F32s x = load_where(from, mask_of(bits[j]));
          if constexpr (stride == 2)
            x = even_elements(x, load_where(from + W, mask_of(bits[j] >> W)));
          MT_UNROLL for (int i = r; i < rows; i += stride) part[j >= columns][i / stride] =
              fma(weight[i][j], x, part[j >= columns][i / stride]);
        }
      }
      MT_UNROLL for (int f = 0; f < registers; ++f) {
        F32s& done = part[f][open - 1];
        if constexpr (open > 1) done = add(sum[f][open - 2], done);
        MT_UNROLL for (int o = open - 2; o > 0; --o) sum[f][o] = add(sum[f][o - 1], part[f][o]);
        sum[f][0] = part[f][0];
      }
      if (k < 0) continue;
      F32s first = part[0][open - 1];
      if constexpr (registers == 2) {
        F32s second = part[1][open - 1];
        interleave(first, second);
        store_columns(out + W, second, p.count - W);
      }
      store_columns(out, first, p.count);
      __builtin_prefetch(out + s.out_plane, 1);
      out += s.out_row;
    }
  }
}

template <int size> void run_flat(const Lines& s, Part p) {
  for (; p.planes > 0; --p.planes, p.next_plane(s)) {
    F32s weight[size * size];
    MT_UNROLL for (int t = 0; t < size * size; ++t) weight[t] =
        broadcast(p.a[t / size * s.a_row + s.w[0].at + t % size * s.w[0].at_step]);
    const uint32_t* bits = p.masks;
    for (int64_t k = 0; k < p.n; ++k, bits += size * size) {
      const float* const in = p.in + s.w[0].shift + k * W;
      F32s sum = broadcast(*p.bias);
      MT_UNROLL for (int t = 0; t < size * size; ++t) sum =
          fma(weight[t], load_where(in + t / size * s.in_row + t % size, mask_of(bits[t])), sum);
      store_columns(p.out + k * W, sum, k < p.n - 1 ? W : p.count);
    }
  }
}

using Run = void (*)(const Lines&, Part);
/// The function for a gradient with stride 2 of an odd kernel: a phase has `half` taps or one more.
template <int half> Run spread_line(const Lines& s) {
  constexpr int more = half + 1;
  if (s.w[0].taps == half)
    return s.h.taps == half ? run_line<1, half, half, more> : run_line<1, more, half, more>;
  return s.h.taps == half ? run_line<1, half, more, half> : run_line<1, more, more, half>;
}

/// The axis with taps in the order of the elements that they read.
Axis ascending(Axis axis) {
  if (axis.shift_step < 0) {
    axis.shift = axis.lowest(), axis.shift_step = -axis.shift_step;
    axis.at += (axis.taps - 1) * axis.at_step, axis.at_step = -axis.at_step;
  }
  return axis;
}

/// A convolution, and the masks of a strip of its columns.
struct Planes {
  const Conv& c;
  const bool back = c.part == ConvPart::input, three = c.kernel[0] == 3;
  const int64_t phases = back ? c.stride[0] : 1;  // of the rows, and of the columns, of the result
  const Job<float> job = back ? job_of<float>(c, static_cast<const float*>(c.y),
                                              static_cast<float*>(c.x), 1, 1, c.out, c.size)
                              : job_from_x<float>(c, static_cast<float*>(c.y));
  const Axis h = axis(0, 0), w[2] = {axis(1, 0), axis(1, phases - 1)};
  const int64_t across = ceil_div(w->count, W), all = ceil_div(h.count * w->count, W);
  const bool flat = c.stride[0] == 1 && w->in == w->count && 3 * all <= 2 * h.count * across &&
                    all * area(c.kernel) <= kMasks;
  const int64_t registers = flat ? all : across;  // of a row
  uint32_t masks[kMasks] = {};

  /// One phase of an axis of the result.
  Axis axis(int d, int64_t phase) const {
    return ascending(back ? input_axis(c, d, phase) : job.axis[d]);
  }
  Run function(const Lines& s) const {
    if (flat) return three ? run_flat<3> : run_flat<5>;
    if (phases == 2) return three ? spread_line<1>(s) : spread_line<2>(s);
    if (c.stride[0] == 2) return three ? run_line<2, 3, 3> : run_line<2, 5, 5>;
    return three ? run_line<1, 3, 3> : run_line<1, 5, 5>;
  }

  // ---- masks ----

  /// Sets the bits of the elements [p, end) of a row or a flat plane.
  void set_bits(uint32_t* first, int64_t between, int64_t p, int64_t end) const {
    while (p < end) {
      const int64_t n = smaller(end - p, W - p % W);
      const uint64_t run = (uint64_t(1) << (n * w->stride - w->stride + 1)) - 1;
      first[p / W * between] |= uint32_t(run << p % W * w->stride);
      p += n;
    }
  }
  /// Computes the masks of the registers [from, to) of a row.
  void set_row_masks(int64_t from, int64_t to) {
    __builtin_memset(masks, 0, sizeof masks);
    for (int64_t f = 0; f < phases; ++f)
      for (int64_t j = 0; j < w[f].taps; ++j) {
        const Span span(smaller(w[f].count, to * W), w[f].shift + j, w[f].stride, w[f].in);
        set_bits(masks + f * kMasks / 2 + j, c.kernel[1], larger(span.begin - from * W, 0),
                 span.end - from * W);
      }
  }
  void set_flat_masks() {
    for (int64_t i = 0; i < h.taps; ++i)
      for (int64_t j = 0; j < w->taps; ++j) {
        const Span rows(h.count, h.shift + i, 1, h.in), columns(w->count, w->shift + j, 1, w->in);
        for (int64_t q = rows.begin; q < rows.end; ++q)
          set_bits(masks + i * w->taps + j, area(c.kernel), q * w->count + columns.begin,
                   q * w->count + columns.end);
      }
  }

  // ---- running ----

  /// Computes the registers [first, last) of the columns in planes whose weights are one after the other.
  void run_planes(const Lines& s, int64_t first, int64_t last, int64_t plane,
                  int64_t planes) const {
    const int64_t g = plane % c.groups;
    constexpr float zero = 0;
    Part part{planes,
              s.h.shift,
              flat ? registers : s.h.count,
              job.in + plane * job.plane + s.h.shift * s.in_row,
              job.a + g * job.a_row + s.h.at * c.kernel[1],
              s.bias_plane ? static_cast<const float*>(c.bias) + g : &zero,
              masks,
              job.out + plane * job.out_plane + s.h.start * job.out_width,
              h.count * w->count - (registers - 1) * W};
    const Run run = function(s);
    if (flat) return run(s, part);
    part.in += first * W * w->stride, part.out += first * W * phases;
    for (int64_t v = first; v < last && !mt_interrupted; ++v) {
      part.count = job.out_width - v * W * phases;
      run(s, part);
      part.in += W * w->stride, part.out += W * phases, part.masks += c.kernel[1];
    }
  }
  void run_registers(int64_t first, int64_t last) const {
    const int64_t planes = c.batch * c.groups, chunk = kGrain / 4 / (job.plane + job.out_plane) + 1;
    const double work = double(area(c.out)) * double(area(c.kernel) + 8) * double(planes);
    parallel_chunks(planes, chunk, work > 1e6, [&](int64_t from, int64_t to) {
      for (int64_t phase = 0; phase < phases; ++phase) {
        const Axis rows = axis(0, phase);
        const Lines s{rows,
                      {w[0], w[1]},
                      w->in,
                      rows.step * job.out_width,
                      job.plane,
                      job.out_plane,
                      rows.at_step * c.kernel[1],
                      job.a_row,
                      c.bias ? 1 : 0};
        for (int64_t e = from, n; e < to; e += n) {
          n = flat || registers == 1 ? smaller(to - e, c.groups - e % c.groups) : 1;
          run_planes(s, first, last, e, n);
        }
      }
    });
  }
  void run() {
    if (flat) return set_flat_masks(), run_registers(0, registers);
    const int64_t most = kMasks / 2 / c.kernel[1];
    for (int64_t first = 0; first < registers && !mt_interrupted; first += most) {
      const int64_t last = smaller(first + most, registers);
      set_row_masks(first, last), run_registers(first, last);
    }
  }
};

}  // namespace

bool conv_planes(const Conv& c) { return Planes{c}.run(), true; }

}  // namespace MT_ISA
}  // namespace mt
