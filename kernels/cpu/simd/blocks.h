// blocks.h -- runs a loop for contiguous data over operands with any strides, block by block
//
// An elementwise loop is compiled once, for contiguous data. Here the flattened index space is
// divided into blocks; an operand that is contiguous in a block is passed directly, any other is
// first gathered into a small buffer (an output is scattered afterwards). The cost is one more pass
// through the L1 cache, but an operation needs only one loop, not one for each combination of
// strides.
#pragma once
#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/simd/transpose.h"
#include "kernels/cpu/verbs/copy_bytes.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {

/// Iterates over positions of some operands in row-major order without a division for each:
/// `offset[k]` is the offset of operand k.
template <int Operands> struct RowWalk {
  int ndim, used;
  const int64_t *size, *stride[Operands];
  int64_t at[kMaxDims], offset[Operands] = {};

  RowWalk(int64_t i, int dims, const int64_t* sizes, const int64_t* const (&strides)[Operands],
          int operands = Operands)
      : ndim(dims),
        used(operands),
        size(sizes) {
    for (int k = 0; k < used; ++k) stride[k] = strides[k];
    for (int d = ndim - 1; d >= 0; i /= size[d--]) {
      at[d] = i % size[d];
      for (int k = 0; k < used; ++k) offset[k] += at[d] * stride[k][d];
    }
  }
  void next() {
    for (int d = ndim - 1; d >= 0; at[d--] = 0) {
      for (int k = 0; k < used; ++k) offset[k] += stride[k][d];
      if (++at[d] < size[d]) return;
      for (int k = 0; k < used; ++k) offset[k] -= at[d] * stride[k][d];
    }
  }
};

/// Copies `rows` short rows of n elements with strides `to` and `from`. `Fetches`: cache lines are
/// prefetched some distance before they are written, as in copy_bytes.
template <bool Fetches = false, class U>
inline void move_rows(U* out, int64_t out_step, int64_t to, const U* in, int64_t in_step,
                      int64_t from, int64_t rows, int64_t n) {
  const int64_t bytes = n * int64_t(sizeof(U));
  const auto each = [&](const auto& move) __attribute__((always_inline)) {
    for (int64_t r = 0; r < rows; ++r, out += out_step, in += in_step) {
      char* const row = reinterpret_cast<char*>(out);
      for (int64_t at = 0; Fetches && at < bytes; at += 64)
        __builtin_prefetch(row + 16 * out_step * int64_t(sizeof(U)) + at, 1);
      move(row, reinterpret_cast<const char*>(in));
    }
  };
  if (to == 1 && from == 1)
    return each([&](char* to_row, const char* row) { copy_few(to_row, row, bytes); });
  if (to == 1 && from == 0)
    return each([&](char* to_row, const char*) { fill_few(to_row, *in, bytes); });
  if (to == 1 && from == -1)
    return each([&](char* to_row, const char* last) {
      reverse_few<U>(to_row, last - (bytes - int64_t(sizeof(U))), bytes);
    });
  for (int64_t r = 0; r < rows; ++r, out += out_step, in += in_step)
    for (int64_t k = 0; k < n; ++k) out[k * to] = in[k * from];
}

/// Iterates over the rows [first, end) of operands of at least two dimensions, in groups of evenly spaced rows:
/// calls `run(the offsets of the group's first row, number of rows)`; the row stride is stride[ndim - 2].
template <int Operands>
void each_group(int64_t first, int64_t end, int ndim, const int64_t* size,
                const int64_t* const (&stride)[Operands], const auto& run) {
  const int across = ndim - 2;
  RowWalk<Operands> walk(first / size[across], across, size, stride);
  int64_t within = first % size[across];
  for (int64_t rows; first < end; first += rows, walk.next(), within = 0) {
    rows = end - first < size[across] - within ? end - first : size[across] - within;
    int64_t offset[Operands];
    for (int k = 0; k < Operands; ++k) offset[k] = walk.offset[k] + within * stride[k][across];
    run(offset, rows);
  }
}

constexpr int64_t kBufferBytes = 4096;
// Inner dimensions below kShortRow are gathered across rows, and below kLongRepeat those of one repeated element: by
// rows, 1024 x 64 times a column takes 23 us instead of 15, and a part of the columns times as much 22 instead of 27.
constexpr int64_t kShortRow = 64, kLongRepeat = 129;
constexpr int64_t kRepeat = 64;  // copies of an element that is repeated in a row

using Two [[gnu::may_alias]] = uint16_t;  // an element of any type of this size
using Four [[gnu::may_alias]] = uint32_t;
using Eight [[gnu::may_alias]] = uint64_t;

template <class U>
inline void move_items(U* out, int64_t to, const U* in, int64_t from, int64_t n) {
  if (to == 1 && from == 0) {
    const U value = *in;
    for (int64_t i = 0; i < n; ++i) out[i] = value;
  } else if (to == 1 && from == 2) {  // compiled to shuffles
    for (int64_t i = 0; i < n; ++i) out[i] = in[i * 2];
  } else if (to == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = in[i * from];
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * to] = in[i * from];
  }
}
/// Calls f(U{}) for the unsigned integer U of `item` bytes.
template <class F> inline void by_size(int64_t item, const F& f) {
  if (item == 4) f(uint32_t{});
  else if (item == 8) f(uint64_t{});
  else if (item == 2) f(uint16_t{});
  else f(uint8_t{});
}
/// out[i * to] = in[i * from] for elements of `item` bytes.
inline void move_run(char* out, int64_t to, const char* in, int64_t from, int64_t n, int64_t item) {
  if (n == 0) return;
  if (to == 1 && from == 1) return void(__builtin_memcpy(out, in, n * item));
  by_size(item, [&]<class U>(U) {
    using Item [[gnu::may_alias]] = U;
    move_items(reinterpret_cast<Item*>(out), to, reinterpret_cast<const Item*>(in), from, n);
  });
}

/// An operand of a blocked loop.
struct Operand {
  char* data;
  int64_t item;  // bytes of an element
  int ndim;
  const int64_t *size, *stride;  // strides in elements
  bool flat;                     // contiguous through all dimensions
  int64_t period;                // elements after which they repeat: 1 for a scalar, 0 if never
  int64_t copied;                // elements of the repetitions in the buffer
  alignas(64) char buffer[kBufferBytes];

  void set(void* at, int64_t bytes, int dims, const int64_t* sizes, const int64_t* strides) {
    data = static_cast<char*>(at), item = bytes, ndim = dims, size = sizes, stride = strides;
    flat = dims == 0 || (dims == 1 && strides[0] == 1);
    int outer = 0;
    while (outer < dims && strides[outer] == 0) ++outer;
    period = outer > 0 ? count(dims - outer, sizes + outer) : 0;
    if (!flat && dims > 1) {
      int64_t expected = 1;
      flat = true;
      for (int d = dims - 1; d >= 0; expected *= sizes[d--]) flat &= strides[d] == expected;
    }
    copied = 0;
  }
  /// Whether the buffer contains enough repetitions for every block.
  bool periodic(bool one_row) const { return period == 1 || (!one_row && repeats_often()); }
  bool repeats_often() const { return period > 0 && 4 * period * item <= kBufferBytes; }
  /// Whether blocks should end at the end of a row.
  bool by_rows(bool takes_one) const {
    return !flat && size[ndim - 1] >= (repeated() ? kLongRepeat : kShortRow) &&
           (!repeats_often() || (takes_one && period == 1));
  }
  /// The largest number of elements of a block.
  int64_t longest(bool one_row) const {
    if (direct(one_row)) return kGrain;
    const int64_t all = kBufferBytes / item;
    return periodic(one_row) ? (all - period + 1) / 16 * 16 : all;
  }
  /// Whether the block is read or written without the buffer.
  bool direct(bool one_row) const { return flat || (one_row && stride[ndim - 1] == 1); }
  bool repeated() const { return !flat && stride[ndim - 1] == 0; }  // within a row

  /// Calls `run(first in block, offset, length)` for the elements [at, at + n), row by row.
  template <class Run> void rows(int64_t at, int64_t n, const Run& run) const {
    const int64_t row = size[ndim - 1];
    int64_t within = at % row, done = 0;
    for (RowWalk<1> walk(at / row, ndim - 1, size, {stride}); done < n; walk.next(), within = 0) {
      const int64_t length = smaller(n - done, row - within);
      run(done, walk.offset[0] + within * stride[ndim - 1], length);
      done += length;
    }
  }
  bool short_rows() const { return ndim > 1 && size[ndim - 1] < kLongRepeat; }
  /// Does this by groups of rows: `run(first in block, offset of the first row, rows, length)`.
  template <class Run> void groups(int64_t at, int64_t n, const Run& run) const {
    const int64_t row = size[ndim - 1], end = at + n;
    int64_t done = 0;
    const auto group = [&](int64_t offset, int64_t rows, int64_t length) {
      if (length > 0) run(done, offset, rows, length);
      done += rows * length;
    };
    const int64_t head = smaller(n, ceil_div(at, row) * row - at);
    group(offset_of(at, ndim, size, stride), 1, head);
    each_group<1>((at + head) / row, end / row, ndim, size, {stride},
                  [&](const int64_t(&offset)[1], int64_t rows) { group(offset[0], rows, row); });
    if (done < n) group(offset_of(at + done, ndim, size, stride), 1, n - done);
  }
  /// The address of the block's elements, made contiguous.
  char* read(int64_t at, int64_t n, bool one_row) {
    if (flat) return data + at * item;
    if (periodic(one_row)) {
      const int64_t first = at % period;
      if (copied < first + n) gather(0, copied = first + n);
      return buffer + first * item;
    }
    if (direct(one_row)) return data + offset_of(at, ndim, size, stride) * item;
    gather(at, n);
    return buffer;
  }
  void gather(int64_t at, int64_t n) {
    if (period == 1) return move_run(buffer, 1, data, 0, n, item);
    const int64_t step = stride[ndim - 1];
    if (short_rows())
      return by_size(item, [&]<class U>(U) {
        groups(at, n, [&](int64_t i, int64_t offset, int64_t many, int64_t length) {
          move_rows(reinterpret_cast<U*>(buffer) + i, length, 1,
                    reinterpret_cast<const U*>(data) + offset, stride[ndim - 2], step, many,
                    length);
        });
      });
    rows(at, n, [&](int64_t i, int64_t offset, int64_t length) {
      move_run(buffer + i * item, 1, data + offset * item, step, length, item);
    });
  }
  /// The address to which the block's results may be written contiguously; `store` then scatters
  /// them to their positions.
  char* target(int64_t at, bool one_row) {
    if (flat) return data + at * item;
    return direct(one_row) ? data + offset_of(at, ndim, size, stride) * item : buffer;
  }
  void store(const char* target, int64_t at, int64_t n) {
    if (target != buffer) return;
    const int64_t step = stride[ndim - 1];
    if (short_rows())
      return by_size(item, [&]<class U>(U) {
        groups(at, n, [&](int64_t i, int64_t offset, int64_t many, int64_t length) {
          move_rows(reinterpret_cast<U*>(data) + offset, stride[ndim - 2], step,
                    reinterpret_cast<const U*>(buffer) + i, length, 1, many, length);
        });
      });
    rows(at, n, [&](int64_t i, int64_t offset, int64_t length) {
      move_run(data + offset * item, step, buffer + i * item, 1, length, item);
    });
  }
};

/// Runs `loop` over n elements of a row from `data` on, where every operand is contiguous or one repeated
/// element; one of the latter is passed unchanged to a loop that `takes_one`, the others become a few copies.
template <int Operands, class Loop>
void run_row(Operand* operand, int used, char* (&data)[Operands], int64_t n, bool takes_one,
             const Loop& loop) {
  int64_t step[Operands] = {}, longest = n;
  int one = -1;
  for (int k = 0; k < used; ++k) {
    Operand& o = operand[k];
    step[k] = o.repeated() ? 0 : o.item;
    if (!o.repeated()) continue;
    if (takes_one && one < 0) {
      one = k - 1;
      continue;
    }
    longest = smaller(n, kRepeat);
    move_run(o.buffer, 1, data[k], 0, longest, o.item);
    data[k] = o.buffer;
  }
  for (int64_t done = 0;;) {
    loop(data, smaller(longest, n - done), one);
    if ((done += longest) >= n) return;
    for (int k = 0; k < used; ++k) data[k] += step[k] * longest;
  }
}

/// Copies a rectangle: out[r * out_row + i * to] = in[r * in_row + i * from], `item` bytes each.
inline void move_rectangle(char* out, int64_t out_row, int64_t to, const char* in, int64_t in_row,
                           int64_t from, int64_t rows, int64_t n, int64_t item,
                           const Prefetch& next) {
  if (to == 1 && in_row == 1) return transpose_items(out, out_row, in, from, rows, n, item, next);
  if (from == 1 && out_row == 1)
    return transpose_items(out, to, in, in_row, n, rows, item,
                           {next.input, out + 64 * to, to * item, item});
  for (int64_t r = 0; r < rows; ++r, out += out_row * item, in += in_row * item)
    move_run(out, to, in, from, n, item);
}

/// Iterates in tiles if some operands are contiguous along the last dimension and others along
/// another one. The loop runs `along` the dimension in which most operands are contiguous, row by
/// row `across` the tile; the other operands are transposed through buffers.
template <int Operands> struct Tiles {
  static constexpr int64_t kTileBytes = 16384;

  const Operand* const operand;
  const int used, ndim;
  const int64_t* const size;
  const bool large;  // the operands exceed the cache
  int along = -1, across = -1, one = -1;
  int64_t wide = 256, high;  // the largest tile: elements of a row, and rows
  int64_t span;              // elements of a row that one thread claims

  /// The number of operands that are contiguous along a dimension, times the loop's row length.
  int64_t gain(int dim) const {
    int64_t n = 0;
    for (int k = 0; k < used; ++k) {
      const int64_t step = operand[k].stride[ndim - 1];
      n += operand[k].stride[dim] == 1 && (dim == ndim - 1 || (step != 0 && step != 1));
    }
    return n * smaller<int64_t>(size[dim], 64);
  }
  Tiles(const Operand* operands, int many, int dims, const int64_t* sizes, bool takes_one)
      : operand(operands),
        used(many),
        ndim(dims),
        size(sizes),
        large(count(dims, sizes) > 2 * kGrain) {
    const int last = ndim - 1;
    int64_t most = 0;
    for (int d = 0; d < last; ++d)
      if (size[d] >= 4 && gain(d) > most) most = gain(across = d);
    if (across < 0 || size[last] < 4) return;
    along = last;
    if (most > gain(last)) along = across, across = last;
    for (int k = 0; k < used; ++k) {
      if (operand[k].stride[along] == 0 && takes_one && one < 0) one = k - 1;
      else if (in_buffer(k)) wide = smaller(wide, 512 / operand[k].item);
    }
    wide = smaller(wide, size[along]);
    high = smaller(size[across], kGrain / wide);
    for (int k = 0; k < used; ++k)
      if (in_buffer(k)) high = smaller(high, rows_in_buffer(operand[k].item));
    span = kGrain / high / wide * wide;
  }
  explicit operator bool() const { return along >= 0; }
  bool in_buffer(int k) const { return operand[k].stride[along] != 1 && (k == 0 || k != one + 1); }
  /// The rows that fit in a buffer: a whole number of cache lines of a transposed operand.
  int64_t rows_in_buffer(int64_t item) const {
    const int64_t line = 64 / item;
    return kTileBytes / item / wide / line * line;
  }

  /// The number of pieces, each of at most span x high positions.
  int64_t pieces() const {
    return count(ndim, size) / size[along] / size[across] * ceil_div(size[along], span) *
           ceil_div(size[across], high);
  }
  template <class Loop> void piece(int64_t i, const Loop& loop) const {
    const int64_t spans = ceil_div(size[along], span), groups = ceil_div(size[across], high);
    const int64_t begin = i % spans * span, end = smaller(size[along], begin + span);
    const int64_t first = i / spans % groups * high, rows = smaller(high, size[across] - first);
    char* data[Operands] = {};
    for (int k = 0; k < used; ++k)
      data[k] =
          operand[k].data +
          (begin * operand[k].stride[along] + first * operand[k].stride[across]) * operand[k].item;
    i /= groups * spans;
    for (int d = ndim - 1; d >= 0; --d) {
      if (d == along || d == across) continue;
      for (int k = 0; k < used; ++k)
        data[k] += i % size[d] * operand[k].stride[d] * operand[k].item;
      i /= size[d];
    }
    for (int64_t at = begin; at < end; at += wide) {
      tile(data, rows, smaller(wide, end - at), loop);
      for (int k = 0; k < used; ++k) data[k] += wide * operand[k].stride[along] * operand[k].item;
    }
  }
  template <class Loop>
  void tile(char* const* at, int64_t rows, int64_t n, const Loop& loop) const {
    alignas(64) char buffer[Operands][kTileBytes];
    char* data[Operands] = {};
    int64_t next[Operands] = {};  // bytes to the next row
    bool one_row = true;          // contiguous rows are processed as one
    for (int k = 0; k < used; ++k) {
      const Operand& o = operand[k];
      data[k] = at[k], next[k] = o.stride[across] * o.item;
      if (in_buffer(k)) data[k] = buffer[k], next[k] = n * o.item;
      one_row &= next[k] == (k > 0 && k == one + 1 ? 0 : n * o.item);
    }
    Prefetch fetch{large};
    if (!in_buffer(0)) fetch = {large, at[0], next[0], operand[0].item};
    for (int k = 1; k < used; ++k)
      if (const Operand& o = operand[k]; in_buffer(k))
        move_rectangle(buffer[k], n, 1, at[k], o.stride[across], o.stride[along], rows, n, o.item,
                       fetch);
    if (one_row) loop(data, rows * n, one);
    for (int64_t r = one_row ? rows : 0; r < rows; ++r) {
      loop(data, n, one);
      for (int k = 0; k < used; ++k) data[k] += next[k];
    }
    const Operand& o = operand[0];
    if (in_buffer(0))
      move_rectangle(at[0], o.stride[across], o.stride[along], buffer[0], n, 1, rows, n, o.item,
                     {large});
  }
};

/// The half of for_blocks that runs in tiles; returns false if no operand has to be transposed.
template <int Operands, class Prepare, class Loop>
bool in_tiles(int used, int ndim, const int64_t* size, int cost, bool takes_one,
              const Prepare& prepare, const Loop& loop) {
  if (ndim < 2) return false;
  Operand all[Operands];
  prepare(all);
  const Tiles<Operands> tiles(all, used, ndim, size, takes_one);
  if (!tiles) return false;
  parallel(tiles.pieces(), count(ndim, size) * cost > 2 * kGrain,
           [&](int64_t i) { tiles.piece(i, loop); });
  return true;
}

/// The other half: in the order of the output.
template <int Operands, class Prepare, class Loop>
void in_chunks(int used, int ndim, const int64_t* size, int cost, bool takes_one,
               const Prepare& prepare, const Loop& loop) {
  const int64_t total = count(ndim, size), row = ndim > 0 ? size[ndim - 1] : 1;
  parallel_chunks(total, kGrain, total * cost > 2 * kGrain, [&](int64_t begin, int64_t end) {
    Operand operand[Operands];
    prepare(operand);
    bool one_row = false;  // blocks end where a row ends
    for (int k = 0; k < used; ++k) one_row |= operand[k].by_rows(takes_one);
    int64_t longest = kGrain;
    for (int k = 0; k < used; ++k) longest = smaller(longest, operand[k].longest(one_row));
    bool by_rows = one_row && operand[0].direct(true);
    bool any_repeated = false;
    for (int k = 1; k < used; ++k) {
      any_repeated |= operand[k].repeated();
      by_rows &= operand[k].direct(true) || operand[k].repeated();
    }
    if (by_rows) {
      const int64_t* stride[Operands] = {};
      for (int k = 0; k < used; ++k) stride[k] = operand[k].stride;
      RowWalk<Operands> walk(begin / row, ndim - 1, size, stride, used);
      int64_t at = begin, within = at % row;
      for (int64_t n; at < end; at += n, walk.next(), within = 0) {
        n = smaller(end - at, row - within);
        char* data[Operands] = {};
        for (int k = 0; k < used; ++k) {
          const Operand& o = operand[k];
          data[k] = o.data + (walk.offset[k] + (o.repeated() ? 0 : within)) * o.item;
        }
        if (any_repeated) run_row<Operands>(operand, used, data, n, takes_one, loop);
        else loop(data, n, -1);
      }
      return;
    }
    for (int64_t at = begin; at < end;) {
      int64_t n = end - at;
      if (one_row) n = smaller(n, row - at % row);
      n = smaller(n, longest);
      char* data[Operands] = {};
      for (int k = 1; k < used; ++k) data[k] = operand[k].read(at, n, one_row);
      data[0] = operand[0].target(at, one_row);
      loop(data, n, -1);
      operand[0].store(data[0], at, n);
      at += n;
    }
  });
}

/// Runs `loop(pointers, n, one)` over all blocks, where `one` is the index of the input, from 0,
/// that is one element for the whole block, or -1. `prepare(operands)` sets `operands[0]`, the
/// output, and the inputs.
template <int Operands, class Prepare, class Loop>
void for_blocks(int used, int ndim, const int64_t* size, int cost, bool takes_one,
                const Prepare& prepare, const Loop& loop) {
  if (!in_tiles<Operands>(used, ndim, size, cost, takes_one, prepare, loop))
    in_chunks<Operands>(used, ndim, size, cost, takes_one, prepare, loop);
}

}  // namespace MT_ISA
}  // namespace mt
