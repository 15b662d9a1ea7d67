// scan.cpp -- the scan verb on the CPU: inclusive scans along lines
//
// A chain of additions is limited by the latency of one addition, so several lines run together, or
// eight elements of one line are scanned in registers first. Floats are summed in double.
#include "kernels/cpu/simd/simd_reduce.h"
#include "kernels/cpu/verbs/along_dim.h"
#include "kernels/table.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kTile = 256;  // adjacent lines that are scanned together
constexpr int kLines = 8;       // lines, or elements of one line, that are processed together

/// A position in a line, or in kLines of them.
template <class T> struct Iter {
  const T* in;
  T* out;
  int64_t* index;  // null: there is no second result
  static Iter line(const Scan& s, const AlongDim& l, int64_t line) {
    const int64_t to = out_at(l, line);
    return {static_cast<const T*>(s.in) + in_at(l, line), static_cast<T*>(s.out) + to,
            s.index ? s.index + to : nullptr};
  }
  Iter moved(int64_t in_by, int64_t out_by) const {
    return {in + in_by, out + out_by, index ? index + out_by : nullptr};
  }
};

/// The default scan, for any struct.
template <class Op, class T> struct Generic {
  using State = op::StateOf<Op, T>;
  static State start() { return Op::template identity<State>(); }

  /// Combines element i of a line with a state; writes the result `to` elements after the position.
  static State step(const Scan& s, const State& before, T x, int64_t i, const Iter<T>& place,
                    int64_t to) {
    const State state = Op::combine(before, op::enter<Op, State>(x, i, s.param));
    place.out[to] = T(Op::template finish<T>(state, op::ReduceCall{double(i + 1), s.param}));
    if constexpr (Op::needs_index) place.index[to] = Op::index(state);
    return state;
  }

  /// Scans adjacent lines, row after row.
  static void tile(const Scan& s, const AlongDim& l, int64_t first, int64_t n) {
    Iter<T> row = Iter<T>::line(s, l, first);
    State state[kTile];
    for (int64_t j = 0; j < n; ++j) state[j] = start();
    for (int64_t i = 0; i < l.n && !mt_interrupted; ++i, row = row.moved(l.in_step, l.out_step)) {
      const Iter<T> here = row;
      MT_INDEPENDENT
      for (int64_t j = 0; j < n; ++j) state[j] = step(s, state[j], here.in[j], i, here, j);
    }
  }

  /// Scans the elements [from, to) of kLines lines in lockstep, each from its own state.
  static void in_lockstep(const Scan& s, const Iter<T>* line, State* state, int64_t from,
                          int64_t to, const AlongDim& l) {
    State now[kLines];
    for (int k = 0; k < kLines; ++k) now[k] = state[k];
    for (int64_t i = from; i < to; ++i)
      for (int k = 0; k < kLines; ++k)
        now[k] = step(s, now[k], line[k].in[i * l.in_step], i, line[k], i * l.out_step);
    for (int k = 0; k < kLines; ++k) state[k] = now[k];
  }
  /// Scans the elements of one line from `begin` on, starting from a state.
  static void tail(const Scan& s, const Iter<T>& at, State now, int64_t begin, const AlongDim& l) {
    if (l.n < kLines) {
      for (int64_t i = begin; i < l.n; ++i)
        now = step(s, now, at.in[i * l.in_step], i, at, i * l.out_step);
      return;
    }
    in_strips(l.n - begin, [&](int64_t from, int64_t to) {
      State after = now;
      for (int64_t i = begin + from; i < begin + to; ++i)
        after = step(s, after, at.in[i * l.in_step], i, at, i * l.out_step);
      now = after;
    });
  }

  static void lines(const Scan& s, const AlongDim& l, int64_t first, int64_t n) {
    Iter<T> at = Iter<T>::line(s, l, first);
    const int64_t apart = l.ndim > 0 ? l.in_stride[l.ndim - 1] : 0;
    const int64_t out_apart = l.ndim > 0 ? l.out_stride[l.ndim - 1] : 0;
    for (; n >= kLines && l.n >= kLines; n -= kLines) {
      Iter<T> all[kLines];
      State state[kLines];
      for (int k = 0; k < kLines; ++k, at = at.moved(apart, out_apart))
        all[k] = at, state[k] = start();
      in_strips(l.n, [&](int64_t from, int64_t to) { in_lockstep(s, all, state, from, to, l); });
    }
    for (; n > 0; --n, at = at.moved(apart, out_apart)) tail(s, at, start(), 0, l);
  }
};

/// Specialized for structs with a faster scan.
template <class Op, class T> struct Fast : Generic<Op, T> {};

/// Eight states in packs of registers.
template <class Op, class State> struct EightStates {
  static constexpr int kWidth = kPackBytes / int(sizeof(State)), kCount = kLines / kWidth;
  using Lanes = std::make_integer_sequence<int, kWidth>;
  Pack<State> pack[kCount];

  template <int... L>
  static Pack<State> last_of(const Pack<State>& x, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(x, x, (L | (kWidth - 1))...);
  }
  /// Combines every second run of D lanes with the last lane before it.
  template <int D, int... L>
  static Pack<State> level(Pack<State> x, std::integer_sequence<int, L...>) {
    const Pack<State> none = Pack<State>{} + Op::template identity<State>();
    return Op::combine(
        __builtin_shufflevector(x, none, ((L & D) ? (L & ~(D - 1)) - 1 : kWidth + L)...), x);
  }
  template <int D> void level() {
    if constexpr (D < kWidth) {
      for (Pack<State>& p : pack) p = level<D>(p, Lanes{});
    } else {
      constexpr int run = D / kWidth;
      for (int k = 0; k < kCount; ++k)
        if (k & run) pack[k] = Op::combine(last_of(pack[(k & ~(run - 1)) - 1], Lanes{}), pack[k]);
    }
  }
  /// An inclusive scan of the eight, in an order that does not depend on the width of registers
  /// (Sklansky, Conditional-sum addition logic, 1960).
  void scan() { level<1>(), level<2>(), level<4>(); }
};

/// Sums and products of elements that are contiguous in memory, from either end.
template <class Op, class T>
requires(requires { typename Op::Total; }) struct Fast<Op, T> : Generic<Op, T> {
  using Base = Generic<Op, T>;
  using State = typename Base::State;
  using Group = EightStates<Op, State>;

  template <bool Back> static Group load(const T* in) {
    Group x;
    if constexpr (!Back && kPacks<typename Op::Total, State, T>) {
      for (int k = 0; k < Group::kCount; ++k)
        x.pack[k] = Op::premap(widened<State>(in + k * Group::kWidth));
    } else {
      State lane[kLines];
      for (int i = 0; i < kLines; ++i)
        lane[i] = op::enter<Op, State>(in[Back ? -i : i], i, nullptr);
      __builtin_memcpy(x.pack, lane, sizeof lane);
    }
    return x;
  }
  template <bool Back> static void store(const Group& x, T* out) {
    State lane[kLines];
    __builtin_memcpy(lane, x.pack, sizeof lane);
    for (int i = 0; i < kLines; ++i) out[Back ? -i : i] = T(lane[i]);
  }
  template <bool Back> static void line(const Scan& s, const Iter<T>& at, const AlongDim& l) {
    Pack<State> before = Pack<State>{} + Base::start();
    const int64_t whole = l.n / kLines * kLines;
    in_strips(whole, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; i += kLines) {
        Group x = load<Back>(at.in + (Back ? -i : i));
        x.scan();
        const Pack<State> total =
            Group::last_of(x.pack[Group::kCount - 1], typename Group::Lanes{});
        for (Pack<State>& p : x.pack) p = Op::combine(before, p);
        store<Back>(x, at.out + (Back ? -i : i));
        before = Op::combine(before, total);
      }
    });
    Base::tail(s, at, before[0], whole, l);
  }
  static void lines(const Scan& s, const AlongDim& l, int64_t first, int64_t n) {
    if (l.n < kLines || l.in_step != l.out_step || l.in_step * l.in_step != 1)
      return Base::lines(s, l, first, n);
    const auto run = l.in_step > 0 ? line<false> : line<true>;
    for (int64_t k = first; k < first + n; ++k) run(s, Iter<T>::line(s, l, k), l);
  }
};

/// Cumulative extremes, whose values and positions are kept in separate arrays.
template <class Op, class T>
requires(requires(T x) { Op::wins(x, x); }) struct Fast<Op, T> {
  static void tile(const Scan& s, const AlongDim& l, int64_t first, int64_t n) {
    const T* in = static_cast<const T*>(s.in) + in_at(l, first);
    T* out = static_cast<T*>(s.out) + out_at(l, first);
    int64_t* index = s.index + out_at(l, first);
    T best[kTile];
    int64_t at[kTile] = {};
    for (int64_t j = 0; j < n; ++j) best[j] = Op::template worst<T>();
    for (int64_t i = 0; i < l.n && !mt_interrupted;
         ++i, in += l.in_step, out += l.out_step, index += l.out_step) {
      MT_INDEPENDENT
      for (int64_t j = 0; j < n; ++j) {
        const bool is_new_extreme = Op::wins(in[j], best[j]);
        best[j] = is_new_extreme ? in[j] : best[j];
        at[j] = is_new_extreme ? i : at[j];
        out[j] = best[j];
        index[j] = at[j];
      }
    }
  }
  /// Most elements change nothing: kBlock of them are compared at once, and only a block with a new
  /// extreme is scanned element by element.
  static void line(const Iter<T>& at_line, const AlongDim& l) {
    const T* const in = at_line.in;
    T* const out = at_line.out;
    int64_t* const index = at_line.index;
    constexpr int64_t kBlock = 32;
    T best = Op::template worst<T>();
    int64_t at = 0;
    const bool near = l.in_step == 1 && l.out_step == 1;
    for (int64_t from = 0, end; from < l.n && !mt_interrupted; from = end) {
      end = smaller(l.n, from + kBlock);
      if (near && end - from == kBlock) {
        int winners = 0;
        for (int64_t i = 0; i < kBlock; ++i) winners |= Op::wins(in[from + i], best) ? 1 : 0;
        if (winners == 0) {
          for (int64_t i = 0; i < kBlock; ++i) out[from + i] = best;
          for (int64_t i = 0; i < kBlock; ++i) index[from + i] = at;
          continue;
        }
      }
      for (int64_t i = from; i < end; ++i) {
        const T x = in[i * l.in_step];
        const bool is_new_extreme = Op::wins(x, best);
        best = is_new_extreme ? x : best;
        at = is_new_extreme ? i : at;
        out[i * l.out_step] = best;
        index[i * l.out_step] = at;
      }
    }
  }
  static void lines(const Scan& s, const AlongDim& l, int64_t first, int64_t n) {
    for (int64_t k = first; k < first + n; ++k) line(Iter<T>::line(s, l, k), l);
  }
};

/// Sums blocks of exponentials relative to the maximum so far, then takes logarithms of all sums.
template <class T> struct Fast<op::Logcumsumexp, T> : Generic<op::Logcumsumexp, T> {
  using Base = Generic<op::Logcumsumexp, T>;
  static constexpr int64_t kBlock = 256;

  /// Replaces n elements x by the results after `before`; does nothing and returns false if a sum
  /// would lose small terms or is not finite.
  static bool block(double* x, int64_t n, double& before) {
    double most = before;
    int finite = 1;
    for (int64_t j = 0; j < n; ++j) {
      most = x[j] > most ? x[j] : most;
      finite &= int(x[j] - x[j] == 0);
    }
    if (!finite || !(most - (before > x[0] ? before : x[0]) < 600)) return false;
    double sum = math::exp(before - most);
    MT_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) x[j] = math::exp(x[j] - most);
    for (int64_t j = 0; j < n; ++j) x[j] = sum += x[j];
    MT_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) x[j] = most + math::log(x[j]);
    before = x[n - 1];
    return true;
  }
  static void lines(const Scan& s, const AlongDim& l, int64_t first, int64_t n) {
    for (int64_t k = first; k < first + n; ++k) {
      const Iter<T> at = Iter<T>::line(s, l, k);
      double before = Base::start(), x[kBlock];
      for (int64_t i = 0; i < l.n && !mt_interrupted; i += kBlock) {
        const int64_t here = smaller(kBlock, l.n - i);
        for (int64_t j = 0; j < here; ++j) x[j] = double(at.in[(i + j) * l.in_step]);
        if (block(x, here, before))
          for (int64_t j = 0; j < here; ++j) at.out[(i + j) * l.out_step] = T(x[j]);
        else
          for (int64_t j = i; j < i + here; ++j)
            before = Base::step(s, before, at.in[j * l.in_step], j, at, j * l.out_step);
      }
    }
  }
};

/// Scans n lines from `first` on: a function for adjacent lines, and one for others.
using Lines = void (*)(const Scan&, const AlongDim&, int64_t first, int64_t n);
struct ScanLoops {
  Lines tile, lines;
};

/// Bools are scanned as uint8.
struct Loops {
  using Loop = const ScanLoops*;
  template <class Op, class T>
  static constexpr ScanLoops scan_loops{Fast<Op, T>::tile, Fast<Op, T>::lines};
  template <class Op, class T> static constexpr Loop of() {
    if constexpr (!op::scans<Op, T>) return nullptr;
    else if constexpr (op::is_bool<T>) return &scan_loops<Op, uint8_t>;
    else return &scan_loops<Op, T>;
  }
};

}  // namespace

void scan(const Scan& s) {
  if (s.lines.n == 0 || count(s.lines.ndim, s.lines.size) == 0) return;
  const ScanLoops& scan_loops = *op::loop_of<Loops>(s.op, s.dtype, op::Scans{});
  const AlongDim l = collapsed(s.lines);
  const bool tiles = side_by_side(l);
  const Lines run = tiles ? scan_loops.tile : scan_loops.lines;
  each_lines(l, tiles || l.n < kLines ? kTile : kLines,
             [&](int64_t i, int64_t n) { run(s, l, i, n); });
}

}  // namespace MT_ISA
}  // namespace mt
