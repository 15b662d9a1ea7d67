// index.cpp -- the gather and scatter verbs on the CPU
#include "kernels/cpu/simd/blocks.h"
#include "kernels/cpu/verbs/copy_bytes.h"
#include "kernels/math/index_math.h"
#include "kernels/math/number.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

Positions positions_of(const Gather& g) { return {g.extent, g.first, g.back}; }

/// Clears the shared flag if a position is out of range.
void report(bool wrong, bool& ok) {
  if (wrong) __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
}

/// The rows of the last dimension: the offset of each operand.
struct Rows : RowWalk<3> {
  const int64_t &out = offset[0], &in = offset[1], &index = offset[2];
  Rows(const Gather& g, int64_t row)
      : RowWalk<3>(row, g.ndim - 1, g.size, {g.out_stride, g.in_stride, g.index_stride}) {}
};

/// The call with its dimensions merged to as few as possible, but at least one.
Gather collapsed(const Gather& call) {
  Gather g = call;
  int64_t* const stride[3] = {g.out_stride, g.in_stride, g.index_stride};
  g.ndim = collapse(g.ndim, g.size, stride);
  if (g.ndim == 0) {
    g.ndim = 1, g.size[0] = 1;
    g.out_stride[0] = g.in_stride[0] = g.index_stride[0] = 0;
  }
  return g;
}

// ---- gather -------------------------------------------------------------------------------------

/// Whether n positions are all in range and not negative, checked with vector operations.
inline bool all_in_range(const int64_t* index, int64_t n, const Positions p) {
  int64_t least = p.first, most = p.first;
  for (int64_t i = 0; i < n; ++i) {
    least = index[i] < least ? index[i] : least;
    most = index[i] > most ? index[i] : most;
  }
  return least >= p.first && most - p.first < p.extent;
}

/// Gathers a row whose elements have different positions.
template <class T>
bool gather_cells(T* out, int64_t os, const T* in, int64_t is, const int64_t* index, int64_t xs,
                  int64_t step, int64_t n, const Positions p) {
  constexpr int64_t kStrip = 1024;
  bool wrong = false;
  for (int64_t end = n, i = 0; i < end;) {
    n = smaller(end, i + kStrip);
    if (xs != 1 || !all_in_range(index + i, n - i, p)) {
      for (; i < n; ++i) out[i * os] = in[i * is + p.read(index[i * xs], wrong) * step];
    } else if (os == 1 && is == 0 && step == 1) {
      for (; i < n; ++i) out[i] = in[index[i] - p.first];
    } else {
      for (; i < n; ++i) out[i * os] = in[i * is + (index[i] - p.first) * step];
    }
  }
  return wrong;
}

/// Copies a row whose elements have the same position.
template <class T> void move_row(T* out, int64_t os, const T* in, int64_t is, int64_t n) {
  if (os == 1 && is == 1)
    copy_bytes(reinterpret_cast<char*>(out), reinterpret_cast<const char*>(in),
               n * int64_t(sizeof(T)));
  else
    for (int64_t i = 0; i < n; ++i) out[i * os] = in[i * is];
}

constexpr int64_t kOffsets = 512, kAhead = 4;

/// Gathers rows [from, to) if column j has the same position in all: the index is read only once.
template <class T> bool gather_columns(const Gather& g, int64_t from, int64_t to) {
  const int last = g.ndim - 1;
  const int64_t row = g.size[last], os = g.out_stride[last], is = g.in_stride[last];
  const Positions p = positions_of(g);
  bool wrong = false;
  int64_t offset[kOffsets];
  for (int64_t j = 0; j < row; j += kOffsets) {
    const int64_t n = smaller(kOffsets, row - j);
    for (int64_t i = 0; i < n; ++i)
      offset[i] = (j + i) * is + p.read(g.index[(j + i) * g.index_stride[last]], wrong) * g.step;
    Rows r(g, from);
    for (int64_t k = from; k < to; ++k, r.next()) {
      T* const out = static_cast<T*>(g.out) + r.out + j * os;
      const T* const in = static_cast<const T*>(g.in) + r.in;
      if (os == 1)
        for (int64_t i = 0; i < n; ++i) out[i] = in[offset[i]];
      else
        for (int64_t i = 0; i < n; ++i) out[i * os] = in[offset[i]];
    }
  }
  return wrong;
}

template <class T> bool gather_as(const Gather& g) {
  const int last = g.ndim - 1;
  const int64_t row = g.size[last], rows = count(last, g.size), total = rows * row;
  const int64_t os = g.out_stride[last], is = g.in_stride[last], xs = g.index_stride[last];
  bool same = xs != 0;  // every row has the same positions
  for (int d = 0; d < last; ++d) same &= g.index_stride[d] == 0;
  bool ok = true;
  // Pieces are whole rows, or parts of one row if it is long.
  const int64_t step = row >= kGrain ? kGrain : row;
  const int64_t parts = ceil_div(row, step), together = step >= kGrain ? 1 : kGrain / step;
  const int64_t groups = ceil_div(rows, together);
  const Positions p = positions_of(g);
  parallel(groups * parts, total > 2 * kGrain, [&](int64_t piece) {
    const int64_t from = piece / parts * together, to = smaller(rows, from + together);
    const int64_t j = piece % parts * step, n = smaller(step, row - j);
    if (same && parts == 1 && to - from >= 4) return report(gather_columns<T>(g, from, to), ok);
    bool wrong = false;
    Rows r(g, from);
    for (int64_t i = from; i < to; ++i, r.next()) {
      T* const out = static_cast<T*>(g.out) + r.out + j * os;
      const T* const in = static_cast<const T*>(g.in) + r.in + j * is;
      const int64_t* const index = g.index + r.index + j * xs;
      if (xs == 0) {
        if (last == 1 && i + kAhead < to) {  // short rows: the hardware does not prefetch them
          bool later = false;
          const int64_t k = p.read(index[kAhead * g.index_stride[0]], later);
          const char* const row_in = reinterpret_cast<const char*>(in + k * g.step);
          for (int64_t line = 0; line < smaller(n * int64_t(sizeof(T)), int64_t(512)); line += 64)
            __builtin_prefetch(row_in + line);
        }
        move_row(out, os, in + p.read(*index, wrong) * g.step, is, n);
      } else {
        wrong |= gather_cells(out, os, in, is, index, xs, g.step, n, p);
      }
    }
    report(wrong, ok);
  });
  return ok;
}

// ---- scatter ------------------------------------------------------------------------------------

/// Scatters a row whose elements have different positions; positions out of range are skipped.
template <ScatterReduce J, class T>
bool scatter_cells(T* out, int64_t os, const T* in, int64_t is, const int64_t* index, int64_t xs,
                   int64_t step, int64_t n, const Positions p) {
  constexpr int64_t kBlock = 64;
  bool wrong = false;
  auto put = [&](int64_t at, int64_t i, T x) {
    bool here = false;
    const int64_t k = p.read(at, here);
    wrong |= here;
    if (__builtin_expect(here, 0)) return;
    T& cell = out[i * os + k * step];
    cell = join<J>(cell, x);
  };
  const bool near = xs == 1 && is == 1 && os == 0 && step == 1;
  for (int64_t from = 0; from < n; from += kBlock) {
    const int64_t end = smaller(n, from + kBlock);
    if (near && all_in_range(index + from, end - from, p)) {
      for (int64_t i = from; i < end; ++i) {
        T& cell = out[index[i] - p.first];
        cell = join<J>(cell, in[i]);
      }
    } else {
      for (int64_t i = from; i < end; ++i) put(index[i * xs], i, in[i * is]);
    }
  }
  return wrong;
}

/// Scatters a row whose elements have the same position.
template <ScatterReduce J, class T>
void join_row(T* out, int64_t os, const T* in, int64_t is, int64_t n) {
  if (os == 1 && is == 1) {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = join<J>(out[i], in[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * os] = join<J>(out[i * os], in[i * is]);
  }
}

template <ScatterReduce J, class T> bool scatter_rows(const Gather& g) {
  const int last = g.ndim - 1;
  const int64_t n = g.size[last], rows = count(last, g.size), step = g.step;
  const int64_t os = g.out_stride[last], is = g.in_stride[last], xs = g.index_stride[last];
  const Positions p = positions_of(g);
  bool wrong = false;
  Rows r(g, 0);
  for (int64_t row = 0; row < rows && !mt_interrupted; ++row, r.next()) {
    T* const out = static_cast<T*>(g.out) + r.out;
    const T* const in = static_cast<const T*>(g.in) + r.in;
    const int64_t* const index = g.index + r.index;
    if (xs != 0 || os == 0) {
      in_strips(n, [&](int64_t i, int64_t end) {
        wrong |= scatter_cells<J>(out + i * os, os, in + i * is, is, index + i * xs, xs, step,
                                  end - i, p);
      });
      continue;
    }
    bool here = false;
    const int64_t k = p.read(*index, here);
    wrong |= here;
    if (here) continue;
    in_strips(n, [&](int64_t i, int64_t end) {
      join_row<J>(out + k * step + i * os, os, in + i * is, is, end - i);
    });
  }
  return wrong;
}

using ScatterLoop = bool (*)(const Gather&);
constexpr int64_t kStrip = 512;

/// Values for the same position are combined in the same order every time: threads split only a
/// dimension along which positions cannot be equal.
bool scatter_by(ScatterLoop scatter, const Gather& g) {
  const int64_t total = count(g.ndim, g.size), item = item_size(g.dtype);
  int cut = 0;
  while (cut < g.ndim && g.out_stride[cut] == 0) ++cut;
  int64_t pieces = 1;
  if (cut < g.ndim) {
    // Rows that are combined as a whole stay long: strips of a few elements cost a cache line each.
    const bool rows = cut == g.ndim - 1 && g.index_stride[cut] == 0;
    pieces = rows ? ceil_div(g.size[cut], kStrip) : g.size[cut];
    pieces = smaller(smaller(pieces, total / kGrain + 1), int64_t(64));
    if (rows && cpu_threads() == 1) pieces = 1;  // each element combines values in the same order
  }
  bool ok = true;
  parallel(pieces, total > 2 * kGrain, [&](int64_t piece) {
    Gather part = g;
    if (pieces > 1) {
      const int64_t from = g.size[cut] * piece / pieces;
      part.size[cut] = g.size[cut] * (piece + 1) / pieces - from;
      part.out = static_cast<char*>(g.out) + from * g.out_stride[cut] * item;
      part.in = static_cast<const char*>(g.in) + from * g.in_stride[cut] * item;
      part.index += from * g.index_stride[cut];
    }
    report(scatter(part), ok);
  });
  return ok;
}

ScatterLoop scatter_loop(ScatterReduce how, Dtype dtype) {
  return with_join(how, [&](auto as) {
    const auto loop = [as](auto x) -> ScatterLoop { return scatter_rows<as.value, decltype(x)>; };
    if constexpr (as.value == ScatterReduce::set) return with_item(dtype, loop);
    else return with_element(dtype, loop);
  });
}

}  // namespace

bool gather(const Gather& call) {
  if (count(call.ndim, call.size) == 0) return true;
  const Gather g = collapsed(call);
  return with_item(g.dtype, [&](auto x) { return gather_as<decltype(x)>(g); });
}

bool scatter(const Gather& call) {
  if (count(call.ndim, call.size) == 0) return true;
  const Gather g = collapsed(call);
  return scatter_by(scatter_loop(g.join, g.dtype), g);
}

bool ravel_index(const RavelIndex& l) {
  const int64_t total = count(l.ndim, l.size);
  bool ok = true;
  parallel_strips(total, [&](int64_t begin, int64_t end) {
    const int64_t row = l.ndim > 0 ? l.size[l.ndim - 1] : 1;
    const int64_t by = l.ndim > 0 ? l.index_stride[l.ndim - 1] : 0;
    const Positions p{l.extent, l.first, l.back};
    bool wrong = false;
    for (int64_t i = begin; i < end;) {
      const int64_t n = smaller(end - i, row - i % row);
      const int64_t* index = l.index + offset_of(i, l.ndim, l.size, l.index_stride);
      if (!l.out)
        for (int64_t j = 0; j < n; ++j) p.read(index[j * by], wrong);
      else if (l.add)
        for (int64_t j = 0; j < n; ++j) l.out[i + j] += p.read(index[j * by], wrong) * l.step;
      else
        for (int64_t j = 0; j < n; ++j) l.out[i + j] = p.read(index[j * by], wrong) * l.step;
      i += n;
    }
    report(wrong, ok);
  });
  return ok;
}

}  // namespace MT_ISA
}  // namespace mt
