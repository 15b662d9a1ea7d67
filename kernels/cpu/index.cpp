// index.cpp -- the gather and scatter verbs on the CPU
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/verbs.h"
#include "kernels/number.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// How positions are read: `at(i)` counts from 0; `wrong` remembers that one was not there.
struct Positions {
  int64_t extent, first, back;
  bool wrong = false;
  explicit Positions(const Gather& g) : extent(g.extent), first(g.first), back(g.back) {}
  explicit Positions(const Locate& l) : extent(l.extent), first(l.first), back(l.back) {}

  /// Whether position i is there; `k` is it counted from 0, or 0.
  MT_HD bool read(int64_t i, int64_t& k) {
    k = i + (i < 0 ? back : -first);
    const bool there = uint64_t(k) < uint64_t(extent);
    wrong |= !there;
    k = there ? k : 0;
    return there;
  }
  /// Tells the others; one of them at most decides.
  void report(bool& fine) const {
    if (wrong) __atomic_store_n(&fine, false, __ATOMIC_RELAXED);
  }
};

/// Walks rows of the last dimension without a division for each: where each operand is.
struct Rows {
  int outer;  // dimensions above the rows
  int64_t at[kMaxDims], out, in, index;
  const Gather& g;

  Rows(const Gather& call, int64_t row) : outer(call.ndim - 1), out(0), in(0), index(0), g(call) {
    for (int d = outer - 1; d >= 0; --d) {
      at[d] = row % g.size[d], row /= g.size[d];
      out += at[d] * g.out_stride[d], in += at[d] * g.in_stride[d];
      index += at[d] * g.index_stride[d];
    }
  }
  void next() {
    for (int d = outer - 1; d >= 0; --d) {
      out += g.out_stride[d], in += g.in_stride[d], index += g.index_stride[d];
      if (++at[d] < g.size[d]) return;
      out -= at[d] * g.out_stride[d], in -= at[d] * g.in_stride[d];
      index -= at[d] * g.index_stride[d];
      at[d] = 0;
    }
  }
};

/// A call with at least one dimension, and as few as possible.
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

template <class T> void gather_row(const Gather& g, const Rows& r, int64_t j, int64_t n, Positions& p) {
  const int last = g.ndim - 1;
  const int64_t os = g.out_stride[last], is = g.in_stride[last], xs = g.index_stride[last];
  T* out = static_cast<T*>(g.out) + r.out + j * os;
  const T* in = static_cast<const T*>(g.in) + r.in + j * is;
  const int64_t* index = g.index + r.index + j * xs;
  const int64_t step = g.step;
  int64_t k;
  if (xs == 0) {  // one position for the whole row
    p.read(*index, k);
    in += k * step;
    if (os == 1 && is == 1) __builtin_memcpy(out, in, size_t(n) * sizeof(T));
    else
      for (int64_t i = 0; i < n; ++i) out[i * os] = in[i * is];
  } else if (xs == 1 && os == 1 && is == 0) {
    for (int64_t i = 0; i < n; ++i) p.read(index[i], k), out[i] = in[k * step];
  } else {
    for (int64_t i = 0; i < n; ++i) p.read(index[i * xs], k), out[i * os] = in[i * is + k * step];
  }
}

template <class T> bool gather_as(const Gather& g) {
  const int64_t row = g.size[g.ndim - 1], rows = count(g.ndim - 1, g.size), total = rows * row;
  bool fine = true;
  // Pieces are whole rows, or parts of one where it is long.
  const int64_t step = row >= kGrain ? kGrain : row;
  const int64_t parts = (row + step - 1) / step, together = step >= kGrain ? 1 : kGrain / step;
  const int64_t groups = (rows + together - 1) / together;
  parallel(groups * parts, total > 2 * kGrain, [&](int64_t piece) {
    const int64_t group = piece / parts, j = piece % parts * step;
    const int64_t last = smaller(rows, (group + 1) * together);
    Positions p(g);
    Rows r(g, group * together);
    for (int64_t i = group * together; i < last; ++i, r.next())
      gather_row<T>(g, r, j, smaller(step, row - j), p);
    p.report(fine);
  });
  return fine;
}

// ---- scatter ------------------------------------------------------------------------------------

template <Join J, class T> MT_HD T join(T cell, T x) {
  if constexpr (J == Join::set) return x;
  else if constexpr (J == Join::add) return static_cast<T>(cell + x);
  else if constexpr (J == Join::mul) return static_cast<T>(cell * x);
  else if constexpr (J == Join::max) return x > cell || x != x ? x : cell;  // NaN stays
  else return x < cell || x != x ? x : cell;
}

template <Join J, class T> void scatter_rows(const Gather& g, Positions& p) {
  const int last = g.ndim - 1;
  const int64_t n = g.size[last], rows = count(last, g.size), step = g.step;
  const int64_t os = g.out_stride[last], is = g.in_stride[last], xs = g.index_stride[last];
  Rows r(g, 0);
  for (int64_t row = 0; row < rows; ++row, r.next()) {
    T* out = static_cast<T*>(g.out) + r.out;
    const T* in = static_cast<const T*>(g.in) + r.in;
    const int64_t* index = g.index + r.index;
    int64_t k;
    if (xs == 0 && os != 0) {
      if (!p.read(*index, k)) continue;
      out += k * step;
      if (os == 1 && is == 1) {
        MT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) out[i] = join<J>(out[i], in[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) out[i * os] = join<J>(out[i * os], in[i * is]);
      }
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      if (!p.read(index[i * xs], k)) continue;
      T& cell = out[i * os + k * step];
      cell = join<J>(cell, in[i * is]);
    }
  }
}

/// Values that meet are joined in the same order every time: only a dimension along which they
/// cannot meet is spread over threads.
template <Join J, class T> bool scatter_as(const Gather& g) {
  const int64_t total = count(g.ndim, g.size);
  int cut = 0;
  while (cut < g.ndim && g.out_stride[cut] == 0) ++cut;
  int64_t pieces = 1;
  if (cut < g.ndim) pieces = smaller(smaller(g.size[cut], total / kGrain + 1), int64_t(64));
  bool fine = true;
  parallel(pieces, total > 2 * kGrain, [&](int64_t piece) {
    Gather part = g;
    if (pieces > 1) {
      const int64_t from = g.size[cut] * piece / pieces;
      part.size[cut] = g.size[cut] * (piece + 1) / pieces - from;
      part.out = static_cast<T*>(g.out) + from * g.out_stride[cut];
      part.in = static_cast<const T*>(g.in) + from * g.in_stride[cut];
      part.index += from * g.index_stride[cut];
    }
    Positions p(g);
    scatter_rows<J, T>(part, p);
    p.report(fine);
  });
  return fine;
}

template <class T> bool scatter_join(const Gather& g) {
  switch (g.join) {
    case Join::set: return scatter_as<Join::set, T>(g);
    case Join::add: return scatter_as<Join::add, T>(g);
    case Join::mul: return scatter_as<Join::mul, T>(g);
    case Join::max: return scatter_as<Join::max, T>(g);
    default: return scatter_as<Join::min, T>(g);
  }
}

}  // namespace

bool gather(const Gather& call) {
  if (count(call.ndim, call.size) == 0) return true;
  const Gather g = collapsed(call);
  switch (item_size(g.dtype)) {
    case 1: return gather_as<uint8_t>(g);
    case 4: return gather_as<uint32_t>(g);
    default: return gather_as<uint64_t>(g);
  }
}

bool scatter(const Gather& call) {
  if (count(call.ndim, call.size) == 0) return true;
  const Gather g = collapsed(call);
  switch (g.dtype) {
    case Dtype::b8: return scatter_join<bool>(g);
    case Dtype::u8: return scatter_join<uint8_t>(g);
    case Dtype::i32: return scatter_join<int32_t>(g);
    case Dtype::i64: return scatter_join<int64_t>(g);
    case Dtype::f32: return scatter_join<float>(g);
    default: return scatter_join<double>(g);
  }
}

bool locate(const Locate& l) {
  const int64_t total = count(l.ndim, l.size);
  bool fine = true;
  parallel((total + kGrain - 1) / kGrain, total > 2 * kGrain, [&](int64_t piece) {
    const int64_t end = smaller(total, (piece + 1) * kGrain);
    const int64_t row = l.ndim > 0 ? l.size[l.ndim - 1] : 1;
    const int64_t by = l.ndim > 0 ? l.index_stride[l.ndim - 1] : 0;
    Positions p(l);
    int64_t k;
    for (int64_t i = piece * kGrain; i < end;) {
      const int64_t n = smaller(end - i, row - i % row);
      const int64_t* index = l.index + offset_of(i, l.ndim, l.size, l.index_stride);
      if (!l.out)
        for (int64_t j = 0; j < n; ++j) p.read(index[j * by], k);
      else if (l.add)
        for (int64_t j = 0; j < n; ++j) p.read(index[j * by], k), l.out[i + j] += k * l.step;
      else
        for (int64_t j = 0; j < n; ++j) p.read(index[j * by], k), l.out[i + j] = k * l.step;
      i += n;
    }
    p.report(fine);
  });
  return fine;
}

}  // namespace MT_ISA
}  // namespace mt
