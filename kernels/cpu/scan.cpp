// scan.cpp -- the scan verb on the CPU: sums, products and extremes so far
//
// A chain of additions is as slow as one addition after the other, so several lines run side by
// side, and a long line is cut into parts whose totals are found first. Floats are summed in double.
#include "kernels/cpu/along_dim.h"
#include "kernels/cpu/simd_reduce.h"
#include "kernels/scans.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kTile = 256;   // lines that lie side by side and run together
constexpr int kLines = 8;        // lines, or parts of one, that run together
constexpr int64_t kPart = 1040;  // a power of two apart, parts would share one place in the cache

template <class Op, class T> struct Running {
  using A = typename op::Accumulator<op::Sum, T>::type;

  /// Lines side by side: row after row.
  static void tile(const Scan& s, const AlongDim& l, int64_t first, int64_t n) {
    const T* in = static_cast<const T*>(s.in) + in_at(l, first);
    T* out = static_cast<T*>(s.out) + out_at(l, first);
    A state[kTile];
    for (int64_t j = 0; j < n; ++j) state[j] = Op::template identity<A>();
    for (int64_t i = 0; i < l.n && !mt_interrupted; ++i, in += l.in_step, out += l.out_step) {
      MT_INDEPENDENT
      for (int64_t j = 0; j < n; ++j) {
        state[j] = Op::join(state[j], A(in[j]));
        out[j] = T(state[j]);
      }
    }
  }

  /// kLines lines in lockstep, each from its own state.
  static void together(const T* const* in, T* const* out, A* state, int64_t n, int64_t in_step,
                       int64_t out_step) {
    A s[kLines];
    for (int k = 0; k < kLines; ++k) s[k] = state[k];
    for (int64_t i = 0; i < n; ++i)
      for (int k = 0; k < kLines; ++k) {
        s[k] = Op::join(s[k], A(in[k][i * in_step]));
        out[k][i * out_step] = T(s[k]);
      }
    for (int k = 0; k < kLines; ++k) state[k] = s[k];
  }
  static void alone(const T* in, T* out, A start, int64_t n, int64_t in_step, int64_t out_step) {
    in_strips(n, [&](int64_t from, int64_t to) {
      A s = start;
      for (int64_t i = from; i < to; ++i) {
        s = Op::join(s, A(in[i * in_step]));
        out[i * out_step] = T(s);
      }
      start = s;
    });
  }
  /// Whether a line is cut into parts: lines that begin a power of two apart would drive each other
  /// out of the cache.
  static bool cuts(const AlongDim& l) { return Op::cut && l.in_step == 1 && l.n >= 8 * kLines; }
  /// One line; where it is long, kLines parts of it at a time.
  static void line(const T* in, T* out, const AlongDim& l) {
    A s = Op::template identity<A>();
    int64_t i = 0;
    if constexpr (Op::cut) {
      const int64_t part = smaller(kPart, l.n / kLines);
      for (; cuts(l) && i + kLines * part <= l.n && !mt_interrupted; i += kLines * part) {
        const T* from[kLines];
        T* to[kLines];
        A state[kLines];
        for (int k = 0; k < kLines; ++k) {
          from[k] = in + i + k * part, to[k] = out + (i + k * part) * l.out_step;
          state[k] = s;
          s = Op::join(s, A(join_run<typename Op::Of, T, 1>(from[k], part)));
        }
        together(from, to, state, part, 1, l.out_step);
      }
    }
    alone(in + i * l.in_step, out + i * l.out_step, s, l.n - i, l.in_step, l.out_step);
  }

  static void lines(const Scan& s, const AlongDim& l, int64_t first, int64_t n) {
    const T* in = static_cast<const T*>(s.in) + in_at(l, first);
    T* out = static_cast<T*>(s.out) + out_at(l, first);
    const int64_t apart = l.ndim > 0 ? l.in_stride[l.ndim - 1] : 0;
    const int64_t out_apart = l.ndim > 0 ? l.out_stride[l.ndim - 1] : 0;
    if (n == kLines && !cuts(l)) {
      A state[kLines];
      for (A& s : state) s = Op::template identity<A>();
      return in_strips(l.n, [&](int64_t i, int64_t end) {
        const T* from[kLines];
        T* to[kLines];
        for (int k = 0; k < kLines; ++k) {
          from[k] = in + k * apart + i * l.in_step;
          to[k] = out + k * out_apart + i * l.out_step;
        }
        together(from, to, state, end - i, l.in_step, l.out_step);
      });
    }
    for (int64_t k = 0; k < n; ++k) line(in + k * apart, out + k * out_apart, l);
  }

  static void scan(const Scan& s) {
    const AlongDim l = collapsed(s.lines);
    if (side_by_side(l))
      return each_lines(l, kTile, [&](int64_t first, int64_t n) { tile(s, l, first, n); });
    each_lines(l, kLines, [&](int64_t first, int64_t n) { lines(s, l, first, n); });
  }
};

/// The extreme so far and the position of its last occurrence; the first NaN stays, and a later NaN
/// takes the position.
template <class T, bool Largest> struct Extremes {
  MT_HD static bool wins(T x, T best) { return wins_so_far<Largest>(x, best); }
  static T worst() { return worst_so_far<T, Largest>(); }

  static void tile(const Scan& s, const AlongDim& l, int64_t first, int64_t n) {
    const T* in = static_cast<const T*>(s.in) + in_at(l, first);
    T* out = static_cast<T*>(s.out) + out_at(l, first);
    int64_t* index = s.index + out_at(l, first);
    T best[kTile];
    int64_t at[kTile] = {};
    for (int64_t j = 0; j < n; ++j) best[j] = worst();
    for (int64_t i = 0; i < l.n && !mt_interrupted;
         ++i, in += l.in_step, out += l.out_step, index += l.out_step) {
      MT_INDEPENDENT
      for (int64_t j = 0; j < n; ++j) {
        const bool won = wins(in[j], best[j]);
        best[j] = won ? in[j] : best[j];
        at[j] = won ? i : at[j];
        out[j] = best[j];
        index[j] = at[j];
      }
    }
  }
  /// Most elements change nothing: kBlock of them are compared at once, and only a block that holds
  /// a new extreme is walked.
  static void line(const T* in, T* out, int64_t* index, const AlongDim& l) {
    constexpr int64_t kBlock = 32;
    T best = worst();
    int64_t at = 0;
    const bool near = l.in_step == 1 && l.out_step == 1;
    for (int64_t from = 0, end; from < l.n && !mt_interrupted; from = end) {
      end = smaller(l.n, from + kBlock);
      if (near && end - from == kBlock) {
        int winners = 0;
        for (int64_t i = 0; i < kBlock; ++i) winners |= wins(in[from + i], best) ? 1 : 0;
        if (winners == 0) {
          for (int64_t i = 0; i < kBlock; ++i) out[from + i] = best;
          for (int64_t i = 0; i < kBlock; ++i) index[from + i] = at;
          continue;
        }
      }
      for (int64_t i = from; i < end; ++i) {
        const T x = in[i * l.in_step];
        const bool won = wins(x, best);
        best = won ? x : best;
        at = won ? i : at;
        out[i * l.out_step] = best;
        index[i * l.out_step] = at;
      }
    }
  }
  static void scan(const Scan& s) {
    const AlongDim l = collapsed(s.lines);
    if (side_by_side(l))
      return each_lines(l, kTile, [&](int64_t first, int64_t n) { tile(s, l, first, n); });
    each_lines(l, kLines, [&](int64_t first, int64_t n) {
      for (int64_t k = first; k < first + n; ++k)
        line(static_cast<const T*>(s.in) + in_at(l, k), static_cast<T*>(s.out) + out_at(l, k),
             s.index + out_at(l, k), l);
    });
  }
};

using Verb = void (*)(const Scan&);
template <class Op> constexpr Verb verb(Dtype d) {
  return d == Dtype::f32   ? Running<Op, float>::scan
         : d == Dtype::f64 ? Running<Op, double>::scan
                           : Running<Op, int64_t>::scan;
}
template <bool Largest> constexpr Verb extreme(Dtype d) {
  return d == Dtype::f32   ? Extremes<float, Largest>::scan
         : d == Dtype::f64 ? Extremes<double, Largest>::scan
         : d == Dtype::i64 ? Extremes<int64_t, Largest>::scan
         : d == Dtype::i32 ? Extremes<int32_t, Largest>::scan
                           : Extremes<uint8_t, Largest>::scan;
}

}  // namespace

void scan(const Scan& s) {
  if (s.lines.n == 0 || count(s.lines.ndim, s.lines.size) == 0) return;
  switch (s.op) {
    case ScanOp::sum: return verb<SumSoFar>(s.dtype)(s);
    case ScanOp::prod: return verb<ProdSoFar>(s.dtype)(s);
    case ScanOp::logaddexp:
      return s.dtype == Dtype::f32 ? Running<LogAdd, float>::scan(s)
                                   : Running<LogAdd, double>::scan(s);
    case ScanOp::max: return extreme<true>(s.dtype)(s);
    case ScanOp::min: return extreme<false>(s.dtype)(s);
  }
}

}  // namespace MT_ISA
}  // namespace mt
