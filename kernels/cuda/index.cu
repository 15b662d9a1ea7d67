// index.cu -- the gather, scatter and ravel_index verbs on CUDA
//
// Scatter combines values for the same position in their order, independent of scheduling. A "line"
// is one position in the dimensions along which values cannot collide; the other dimensions are
// "inside" it. With few values per line, one thread combines them sequentially. With many, their
// target positions are sorted, and one thread combines a run of values for the same cell;
// contiguous lines that fit in the shared memory of a block are sorted there.
#include "kernels/cuda/block_sort.h"
#include "kernels/cuda/radix_sort.h"
#include "kernels/math/index_math.h"
#include "kernels/math/number.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

Positions positions_of(const Gather& g) { return {g.extent, g.first, g.back}; }

// ---- gather and ravel_index ---------------------------------------------------------------------

struct Cells {
  int64_t n;
  int ndim;
  int64_t size[kMaxDims];
  int64_t stride[3][kMaxDims];  // of out, of in, of the index
  void* out;
  const void* in;
  const int64_t* index;
  int64_t step;
  Positions positions;
};

template <class T>
__global__ void gather_cells(const __grid_constant__ Cells c, cuda::BoundsCheck check) {
  for (const int64_t i : cuda::turns(c.n)) {
    int64_t at[3];
    cuda::offsets_of<3>(i, c.ndim, c.size, c.stride, at);
    const int64_t raw_index = c.index[at[2]];
    bool wrong = false;
    const int64_t k = c.positions.read(raw_index, wrong);
    if (wrong) cuda::report_out_of_bounds(check, raw_index);
    static_cast<T*>(c.out)[at[0]] = static_cast<const T*>(c.in)[at[1] + k * c.step];
  }
}

/// Converts a call to lines of 16 bytes if rows are contiguous; returns whether they are.
bool convert_to_lines(Cells& c, int64_t item) {
  const int64_t each = 16 / item, last = c.ndim - 1;
  if (last < 0 || c.stride[0][last] != 1 || c.stride[1][last] != 1 || c.stride[2][last] != 0)
    return false;
  bool fits = (reinterpret_cast<uintptr_t>(c.out) | reinterpret_cast<uintptr_t>(c.in)) % 16 == 0 &&
              c.size[last] % each == 0 && c.step % each == 0;
  for (int d = 0; d < last; ++d) fits &= c.stride[0][d] % each == 0 && c.stride[1][d] % each == 0;
  if (!fits) return false;
  c.n /= each, c.size[last] /= each, c.step /= each;
  for (int d = 0; d < last; ++d) c.stride[0][d] /= each, c.stride[1][d] /= each;
  return true;
}

__global__ void locate_cells(const __grid_constant__ RavelIndex l, int64_t n,
                             cuda::BoundsCheck check) {
  const Positions positions{l.extent, l.first, l.back};
  for (const int64_t i : cuda::turns(n)) {
    const int64_t raw_index = l.index[offset_of(i, l.ndim, l.size, l.index_stride)];
    bool wrong = false;
    const int64_t k = positions.read(raw_index, wrong) * l.step;
    if (wrong) cuda::report_out_of_bounds(check, raw_index);
    if (l.out) l.out[i] = l.add ? l.out[i] + k : k;
  }
}

// ---- scatter ------------------------------------------------------------------------------------

struct ScatterJob {
  int outer, inner;  // numbers of dimensions
  int64_t lines, inside;
  int64_t outer_size[kMaxDims], inner_size[kMaxDims];
  int64_t outer_stride[3][kMaxDims];  // of out, of in, of the index
  int64_t inner_stride[2][kMaxDims];  // of in, of the index
  bool shared;                        // all lines have the same positions
  void* out;
  const void* in;
  const int64_t* index;
  int64_t step;
  Positions positions;

  /// The number of positions to read, and the offset in the index of the i-th one.
  MT_HD int64_t read() const { return shared ? inside : lines * inside; }
  __device__ int64_t index_at(int64_t i) const {
    const int64_t line = shared ? 0 : i / inside;
    return index_at(line, i - line * inside);
  }
  __device__ int64_t index_at(int64_t line, int64_t m) const {
    return offset_of(line, outer, outer_size, outer_stride[2]) +
           offset_of(m, inner, inner_size, inner_stride[1]);
  }
};

ScatterJob scatter_job(const Gather& g) {
  ScatterJob s;
  s.outer = s.inner = 0;
  s.shared = true;
  for (int d = 0; d < g.ndim; ++d) {
    if (g.size[d] == 1) continue;
    if (g.out_stride[d] != 0) {
      const int k = s.outer++;
      s.outer_size[k] = g.size[d], s.outer_stride[0][k] = g.out_stride[d];
      s.outer_stride[1][k] = g.in_stride[d], s.outer_stride[2][k] = g.index_stride[d];
      s.shared &= g.index_stride[d] == 0;
    } else {
      const int k = s.inner++;
      s.inner_size[k] = g.size[d];
      s.inner_stride[0][k] = g.in_stride[d], s.inner_stride[1][k] = g.index_stride[d];
    }
  }
  int64_t* const outer[3] = {s.outer_stride[0], s.outer_stride[1], s.outer_stride[2]};
  int64_t* const inner[2] = {s.inner_stride[0], s.inner_stride[1]};
  s.outer = collapse(s.outer, s.outer_size, outer);
  s.inner = collapse(s.inner, s.inner_size, inner);
  s.lines = count(s.outer, s.outer_size), s.inside = count(s.inner, s.inner_size);
  s.out = g.out, s.in = g.in, s.index = g.index, s.step = g.step;
  s.positions = positions_of(g);
  return s;
}

/// Scatters with one thread for each line.
template <ScatterReduce J, class T>
__global__ void scatter_lines(const __grid_constant__ ScatterJob s, cuda::BoundsCheck check) {
  for (const int64_t line : cuda::turns(s.lines)) {
    int64_t at[3];
    cuda::offsets_of<3>(line, s.outer, s.outer_size, s.outer_stride, at);
    T* const out = static_cast<T*>(s.out) + at[0];
    const T* const in = static_cast<const T*>(s.in) + at[1];
    for (int64_t m = 0; m < s.inside; ++m) {
      int64_t inside[2];
      cuda::offsets_of<2>(m, s.inner, s.inner_size, s.inner_stride, inside);
      bool wrong = false;
      const int64_t raw_index = s.index[at[2] + inside[1]], k = s.positions.read(raw_index, wrong);
      if (wrong) {
        cuda::report_out_of_bounds(check, raw_index);
        continue;
      }
      T& cell = out[k * s.step];
      cell = join<J>(cell, in[inside[0]]);
    }
  }
}

/// entry[i]: the target cell of value i (in the bits from `shift` on), and i. Values out of bounds
/// are sorted after all cells.
__global__ void list_cells(const __grid_constant__ ScatterJob s, uint64_t* entry, int shift,
                           int64_t cells, cuda::BoundsCheck check) {
  const int64_t extent = s.positions.extent;
  for (const int64_t i : cuda::turns(s.read())) {
    bool wrong = false;
    const int64_t raw_index = s.index[s.index_at(i)], k = s.positions.read(raw_index, wrong);
    if (wrong) cuda::report_out_of_bounds(check, raw_index);
    const int64_t cell = wrong ? cells : s.shared ? k : i / s.inside * extent + k;
    entry[i] = uint64_t(cell) << shift | uint64_t(i);
  }
}

/// Combines each run of entries with the same cell (per line if lines share them) in one thread.
template <ScatterReduce J, class T>
__global__ void combine_runs(const __grid_constant__ ScatterJob s, const uint64_t* entry, int shift,
                             int64_t cells) {
  constexpr int kAhead = 8;  // values loaded at once
  const int64_t extent = s.positions.extent;
  const int64_t n = s.read(), turns = s.shared ? s.lines : 1;
  const uint64_t below = (uint64_t(1) << shift) - 1;
  for (const int64_t i : cuda::turns(n * turns)) {
    const int64_t begin = i / turns;
    const uint64_t cell = entry[begin] >> shift;
    if (int64_t(cell) == cells || (begin > 0 && entry[begin - 1] >> shift == cell)) continue;
    const int64_t line = s.shared ? i - begin * turns : int64_t(cell) / extent;
    const int64_t k = s.shared ? int64_t(cell) : int64_t(cell) - line * extent;
    int64_t at[3];
    cuda::offsets_of<3>(line, s.outer, s.outer_size, s.outer_stride, at);
    const T* const in = static_cast<const T*>(s.in) + at[1];
    const int64_t before = s.shared ? 0 : line * s.inside;
    T& out = static_cast<T*>(s.out)[at[0] + k * s.step];
    T sum = out;
    for (int64_t j = begin; j < n;) {
      T x[kAhead];
      int together = 0;
      for (int a = 0; a < kAhead; ++a) {
        const bool same = j + a < n && entry[j + a] >> shift == cell;
        const int64_t m = same ? int64_t(entry[j + a] & below) - before : 0;
        x[a] = in[offset_of(m, s.inner, s.inner_size, s.inner_stride[0])];
        together += same;
      }
      for (int a = 0; a < kAhead; ++a) sum = a < together ? join<J>(sum, x[a]) : sum;
      j += together;
      if (together < kAhead) break;
    }
    out = sum;
  }
}

/// The `lines` full lines in a tile of a block, whose cells are numbered consecutively. The
/// positions in a tile are the lowest `shift` bits of a word, cells the bits below `top`.
struct TilePlan {
  int64_t lines;
  int shift, top;
};

template <class Tile, class T>
__global__ void scatter_tiles(const __grid_constant__ ScatterJob s, const TilePlan t,
                              ScatterReduce how, cuda::BoundsCheck check) {
  uint32_t* const word = cuda::shared_memory<uint32_t>();
  T* const value = reinterpret_cast<T*>(word + Tile::kWords);
  const uint32_t inside = uint32_t(s.inside), extent = uint32_t(s.positions.extent),
                 none = uint32_t(t.lines) * extent, below = (1u << t.shift) - 1;
  for (int64_t first = blockIdx.x * t.lines; first < s.lines; first += gridDim.x * t.lines) {
    const uint32_t n = uint32_t(smaller(t.lines, s.lines - first)) * inside;
    for (uint32_t i = threadIdx.x; i < Tile::kWords; i += Tile::kThreads) {
      uint32_t cell = none;
      if (i < n) {
        const uint32_t line = i / inside;
        const int64_t raw_index = s.index[s.index_at(first + line, i - line * inside)];
        bool wrong = false;
        const int64_t k = s.positions.read(raw_index, wrong);
        if (wrong) cuda::report_out_of_bounds(check, raw_index);
        else cell = line * extent + uint32_t(k);
      }
      word[i] = cell << t.shift | i;
    }
    cuda::sort_in_block<Tile>(word, t.shift, t.top);
    for (uint32_t i = threadIdx.x; i < n; i += Tile::kThreads) {
      const uint32_t line = i / inside;
      value[i] = static_cast<const T*>(
          s.in)[offset_of(first + line, s.outer, s.outer_size, s.outer_stride[1]) +
                offset_of(i - line * inside, s.inner, s.inner_size, s.inner_stride[0])];
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += Tile::kThreads) {
      const uint32_t cell = word[i] >> t.shift;
      if (cell == none || (i > 0 && word[i - 1] >> t.shift == cell)) continue;
      const uint32_t line = cell / extent;
      T& out =
          static_cast<T*>(s.out)[offset_of(first + line, s.outer, s.outer_size, s.outer_stride[0]) +
                                 int64_t(cell - line * extent) * s.step];
      T sum = out;
      for (uint32_t j = i; j < n && word[j] >> t.shift == cell; ++j)
        sum = with_join(how, [&](auto as) { return join<as.value>(sum, value[word[j] & below]); });
      out = sum;
    }
    __syncthreads();
  }
}

/// Returns false if the lines are unsuitable for tiles.
template <class T>
bool start_tiles(const ScatterJob& s, ScatterReduce how, cuda::BoundsCheck check) {
  const bool along = s.inner == 1 && s.inner_stride[0][0] == 1 && s.inner_stride[1][0] == 1;
  if (!along || s.positions.extent == 0 || s.inside < 32 || s.inside > cuda::kMaxInTile ||
      (s.shared && s.lines > 1))
    return false;
  bool fits = false;
  cuda::with_tile(s.inside, [&](auto tile) {
    using Tile = decltype(tile);
    TilePlan t;
    t.shift = cuda::bits_for(Tile::kWords);
    const int64_t cells = ((int64_t(1) << (32 - t.shift)) - 1) / s.positions.extent;
    t.lines = smaller(smaller(Tile::kWords / s.inside, cells), s.lines);
    fits = t.lines > 0;
    if (!fits) return;
    t.top = t.shift + cuda::bits_for(t.lines * s.positions.extent + 1);
    const int64_t blocks = (s.lines + t.lines - 1) / t.lines;
    const size_t words = Tile::kWords * (sizeof(uint32_t) + sizeof(T)),
                 room = Tile::template room<uint32_t>();
    cuda::launch_blocks("scatter", scatter_tiles<Tile, T>,
                        unsigned(smaller<int64_t>(blocks, 1 << 20)), Tile::kThreads,
                        words > room ? words : room, s, t, how, check);
  });
  return fits;
}

template <ScatterReduce J, class T>
bool by_lines(const ScatterJob& s, const cuda::BoundsCheck& check) {
  cuda::launch("scatter", scatter_lines<J, T>, cuda::blocks_for(s.lines, 64), 64, s, check);
  return cuda::bounds_ok(check);
}

template <ScatterReduce J, class T> bool scatter_as(const ScatterJob& s) {
  const cuda::BoundsCheck check = cuda::new_bounds_check();
  if (start_tiles<T>(s, J, check)) return cuda::bounds_ok(check);
  // By lines, each value waits for the previous one; the sort has a cost per position.
  if (s.inside <= 256 || s.lines >= (s.shared ? 65536 : 2048)) return by_lines<J, T>(s, check);
  const int64_t n = s.read();
  int64_t cells = s.positions.extent;
  if (!s.shared && __builtin_mul_overflow(s.lines, cells, &cells)) return by_lines<J, T>(s, check);
  const int shift = cuda::bits_for(n), top = shift + cuda::bits_for(cells + 1);
  if (shift > 63 || top > 64) return by_lines<J, T>(s, check);
  const cuda::Scratch scratch(size_t(n) * 2 * sizeof(uint64_t));
  uint64_t* const entry = scratch.as<uint64_t>();
  if (!entry) return true;  // the error is recorded
  cuda::launch_each("scatter", list_cells, n, s, entry, shift, cells, check);
  const uint64_t* const sorted = cuda::radix_sort("scatter", entry, entry + n, n, shift, top);
  cuda::launch("scatter", combine_runs<J, T>, cuda::blocks_for(n * (s.shared ? s.lines : 1), 64),
               64, s, sorted, shift, cells);
  return cuda::bounds_ok(check);
}

template <class T> bool scatter_by(const ScatterJob& s, ScatterReduce how) {
  return with_join(how, [&](auto as) { return scatter_as<as.value, T>(s); });
}

template <class T> void gather_as(const Cells& c, const cuda::BoundsCheck& check) {
  cuda::launch_each("gather", gather_cells<T>, c.n, c, check);
}

}  // namespace

bool gather(const Gather& g) {
  Cells c;
  c.n = count(g.ndim, g.size);
  if (c.n == 0) return true;
  for (int d = 0; d < g.ndim; ++d) {
    c.size[d] = g.size[d], c.stride[0][d] = g.out_stride[d];
    c.stride[1][d] = g.in_stride[d], c.stride[2][d] = g.index_stride[d];
  }
  int64_t* const stride[3] = {c.stride[0], c.stride[1], c.stride[2]};
  c.ndim = collapse(g.ndim, c.size, stride);
  c.out = g.out, c.in = g.in, c.index = g.index, c.step = g.step;
  c.positions = positions_of(g);
  const cuda::BoundsCheck check = cuda::new_bounds_check();
  if (convert_to_lines(c, item_size(g.dtype))) gather_as<cuda::Group<uint64_t, 2>>(c, check);
  else with_item(g.dtype, [&](auto x) { gather_as<decltype(x)>(c, check); });
  return cuda::bounds_ok(check);
}

bool scatter(const Gather& g) {
  if (count(g.ndim, g.size) == 0) return true;
  const ScatterJob s = scatter_job(g);
  if (!is_storage_only(g.dtype))
    return with_element(g.dtype, [&](auto x) { return scatter_by<decltype(x)>(s, g.join); });
  return item_size(g.dtype) == 1
             ? scatter_as<ScatterReduce::set, uint8_t>(s)  // storage only: copied as bytes
             : scatter_as<ScatterReduce::set, uint16_t>(s);
}

bool ravel_index(const RavelIndex& l) {
  const int64_t n = count(l.ndim, l.size);
  if (n == 0) return true;
  const cuda::BoundsCheck check = cuda::new_bounds_check();
  cuda::launch_each("locate", locate_cells, n, l, n, check);
  return cuda::bounds_ok(check);
}

}  // namespace MT_ISA
}  // namespace mt
