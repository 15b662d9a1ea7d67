// reduce.cpp -- the reduce verb on the CPU
//
// The order of additions depends on the shape alone: the reduced elements are cut into pieces of
// kPiece, a piece is joined in interleaved partial results (simd_reduce.h), and pieces are joined in their
// order. Threads take outputs or pieces; neither changes the order. Floats are summed in double, in
// long runs the sums of eight, so that 2^25 times 0.1f is still right.
#include <type_traits>

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/simd_reduce.h"
#include "kernels/table.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kPiece = 16384;
constexpr int64_t kBuffer = 512;   // elements gathered at a time where the reduced ones lie apart
constexpr int64_t kColumns = 256;  // outputs that are reduced side by side
constexpr int64_t kRows = 32;      // rows of columns that are joined at a time

// ---- rules: what a reduction keeps, how it joins a run, rows of columns, and what it writes ------

/// An entry of op::Reductions.
template <class Op, class Element> struct Simple {
  using T = Element;
  using State = typename op::Accumulator<Op, T>::type;
  static constexpr int64_t kWidth = 4 * kColumns;
  static State start() { return Op::template identity<State>(); }
  static State run(const T* x, int64_t n) { return join_run<Op>(x, n); }
  static State join(const State& a, const State& b) { return Op::join(a, b); }
  /// Joins rows of n elements to the states of their columns, each in the rows' order.
  static void columns(State* state, const T* x, int64_t rows, int64_t step, int64_t n) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4, x += 4 * step)
      for (int64_t j = 0; j < n; ++j) {
        State s = Op::join(state[j], op::enter<Op, State>(x[j]));
        s = Op::join(s, op::enter<Op, State>(x[step + j]));
        s = Op::join(s, op::enter<Op, State>(x[2 * step + j]));
        state[j] = Op::join(s, op::enter<Op, State>(x[3 * step + j]));
      }
    for (; i < rows; ++i, x += step)
      for (int64_t j = 0; j < n; ++j) state[j] = Op::join(state[j], op::enter<Op, State>(x[j]));
  }
  /// Writes the answers of n outputs, `step` apart from `at`.
  __attribute__((noinline)) static void write(const Reduce& r, int64_t at, int64_t step,
                                              const State* state, int64_t n) {
    const auto to = [&](auto* cell) {
      for (int64_t i = 0; i < n; ++i)
        cell[at + i * step] = math::convert<Pointee<decltype(cell)>>(state[i]);
    };
    if (r.out_dtype == Dtype::f32) to(static_cast<float*>(r.out));
    else if (r.out_dtype == Dtype::f64) to(static_cast<double*>(r.out));
    else if (r.out_dtype == Dtype::i64) to(static_cast<int64_t*>(r.out));
    else if (r.out_dtype == Dtype::i32) to(static_cast<int32_t*>(r.out));
    else if (r.out_dtype == Dtype::u8) to(static_cast<uint8_t*>(r.out));
    else to(static_cast<bool*>(r.out));
  }
  template <class P> struct PointeeOf;
  template <class U> struct PointeeOf<U*> { using type = U; };
  template <class P> using Pointee = typename PointeeOf<P>::type;
};

/// The mean and the sum of squared deviations from it: two passes over a run that is in the cache.
template <class Element> struct Moments {
  using T = Element;
  using State = op::WelfordState;
  static constexpr int64_t kWidth = kColumns;
  static State start() { return {0, 0, 0}; }
  static State run(const T* x, int64_t n) {
    const double mean = double(join_run<op::Sum, T, 1>(x, n)) / double(n);
    return {double(n), mean, deviations(x, mean, n)};
  }
  __attribute__((noinline)) static double deviations(const T* x, double mean, int64_t n) {
    using V = Pack<double>;
    constexpr int width = kPackBytes / 8;
    V part[4] = {};
    int64_t i = 0;
    for (; i + 4 * width <= n; i += 4 * width)
      for (int k = 0; k < 4; ++k) {
        const V d = widened<double>(x + i + k * width) - mean;
        part[k] += d * d;
      }
    double rest = 0;
    for (; i < n; ++i) rest += (double(x[i]) - mean) * (double(x[i]) - mean);
    const V all = (part[0] + part[1]) + (part[2] + part[3]);
    for (int l = 0; l < width; ++l) rest += all[l];
    return rest;
  }
  static State join(const State& a, const State& b) { return op::join(a, b); }
  static void columns(State* state, const T* x, int64_t rows, int64_t step, int64_t n) {
    double mean[kColumns] = {}, m2[kColumns] = {};
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) mean[j] += double(x[i * step + j]);
    for (int64_t j = 0; j < n; ++j) mean[j] /= double(rows);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const double d = double(x[i * step + j]) - mean[j];
        m2[j] += d * d;
      }
    for (int64_t j = 0; j < n; ++j) state[j] = join(state[j], {double(rows), mean[j], m2[j]});
  }
  static void write(const Reduce& r, int64_t at, int64_t step, const State* state, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const op::WelfordState& s = state[i];
      static_cast<T*>(r.out)[at + i * step] = T(op::variance(s, r.number));
      if (r.out2) static_cast<T*>(r.out2)[at + i * step] = T(op::mean(s));
    }
  }
};

/// log(sum(exp(x))).
template <class Element> struct LogSumExp {
  using T = Element;
  using State = op::LogSumExpState<T>;
  static constexpr int64_t kWidth = kColumns;
  static State start() { return {T(0), 0}; }
  static State run(const T* x, int64_t n) {
    const T offset = op::offset_for(join_run<op::Amax>(x, n));
    double sum = 0;
    T buffer[kExpRun];
    for (int64_t i = 0; i < n; i += kExpRun)
      sum += exp_run(x + i, offset, buffer, smaller(kExpRun, n - i));
    return {offset, sum};
  }
  static State join(const State& a, const State& b) { return op::join(a, b); }
  static void columns(State* state, const T* x, int64_t rows, int64_t step, int64_t n) {
    T most[kColumns];
    double sum[kColumns] = {};
    for (int64_t j = 0; j < n; ++j) most[j] = math::lowest<T>();
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) most[j] = op::Amax::join(most[j], x[i * step + j]);
    for (int64_t j = 0; j < n; ++j) most[j] = op::offset_for(most[j]);
    for (int64_t i = 0; i < rows; ++i) {
      T e[kColumns];
      for (int64_t j = 0; j < n; ++j) e[j] = math::exp(x[i * step + j] - most[j]);
      for (int64_t j = 0; j < n; ++j) sum[j] += double(e[j]);
    }
    for (int64_t j = 0; j < n; ++j) state[j] = join(state[j], {most[j], sum[j]});
  }
  static void write(const Reduce& r, int64_t at, int64_t step, const State* state, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(r.out)[at + i * step] = T(op::logarithm(state[i]));
  }
};

/// The first extreme and its position.
template <class T> struct ArgState {
  T value;
  int64_t at;
};

// ---- walking ------------------------------------------------------------------------------------

/// Calls `body(first, n, elements of the first, step)` for groups of outputs in one row, threads
/// taking them.
template <class T, class Body>
void each_output(const Reduce& r, int64_t outputs, int64_t elements, const Body& body) {
  constexpr int64_t kOutputs = 64;
  const int64_t row = r.kept > 0 ? r.kept_size[r.kept - 1] : 1;
  const int64_t step = r.kept > 0 ? r.kept_stride[r.kept - 1] : 0;
  parallel((outputs + kOutputs - 1) / kOutputs, outputs * elements > 2 * kGrain,
           [&](int64_t group) {
             const int64_t end = smaller(outputs, (group + 1) * kOutputs);
             for (int64_t o = group * kOutputs; o < end;) {
               const int64_t n = smaller(end - o, row - o % row);
               const T* x =
                   static_cast<const T*>(r.in) + offset_of(o, r.kept, r.kept_size, r.kept_stride);
               body(o, n, x, step);
               o += n;
             }
           });
}

/// Where the answers of outputs from `first` on lie, and how far apart they are in one row.
MT_HD int64_t out_at(const Reduce& r, int64_t first) {
  return offset_of(first, r.kept, r.kept_size, r.out_stride);
}
MT_HD int64_t out_step(const Reduce& r) { return r.kept > 0 ? r.out_stride[r.kept - 1] : 1; }

/// Whether outputs are neighbours in memory and the elements of one are not.
bool in_columns(const Reduce& r, int64_t elements) {
  return elements > 0 && r.kept > 0 && r.kept_stride[r.kept - 1] == 1 &&
         r.kept_size[r.kept - 1] >= 4 && !(r.reduced > 0 && r.reduced_stride[r.reduced - 1] == 1);
}

/// Calls `rows(x, number of rows, step)` for the reduced elements of columns that begin at x.
template <class T, class Rows>
void each_rows(const Reduce& r, const T* x, int64_t elements, const Rows& rows) {
  const int64_t inner = r.reduced > 0 ? r.reduced_size[r.reduced - 1] : 1;
  const int64_t step = r.reduced > 0 ? r.reduced_stride[r.reduced - 1] : 0;
  for (int64_t i = 0; i < elements && !mt_interrupted; i += inner) {
    const T* at = x + offset_of(i, r.reduced, r.reduced_size, r.reduced_stride);
    for (int64_t k = 0; k < inner && !mt_interrupted; k += kRows)
      rows(at + k * step, smaller(kRows, inner - k), step);
  }
}

template <class Rule> struct Reducer {
  using T = typename Rule::T;
  using State = typename Rule::State;

  /// The reduced elements [from, to) of one output; what is not contiguous passes through a buffer.
  __attribute__((noinline)) static State piece(const T* x, const Reduce& r, int64_t from,
                                               int64_t to) {
    const int last = r.reduced - 1;
    const int64_t row = last >= 0 ? r.reduced_size[last] : 1;
    const int64_t step = last >= 0 ? r.reduced_stride[last] : 1;
    State result = Rule::start();
    for (int64_t i = from; i < to;) {
      int64_t n = smaller(to - i, row - i % row);
      const T* at = x + offset_of(i, r.reduced, r.reduced_size, r.reduced_stride);
      T buffer[kBuffer];
      if (step != 1) {
        n = smaller(n, kBuffer);
        move_run(reinterpret_cast<char*>(buffer), 1, reinterpret_cast<const char*>(at), step, n,
                 sizeof(T));
        at = buffer;
      }
      result = Rule::join(result, Rule::run(at, n));
      i += n;
    }
    return result;
  }

  /// Whole rows are joined to a row of partial results, as wide as threads have work then: memory
  /// is read best from one end to the other.
  static void columns(const Reduce& r, int64_t outputs, int64_t elements) {
    const int64_t most = cpu_threads() == 1 ? Rule::kWidth : kColumns;
    const int64_t width = r.kept_size[r.kept - 1], tiles = (width + most - 1) / most;
    parallel(outputs / width * tiles, outputs * elements > 2 * kGrain, [&](int64_t tile) {
      const int64_t first = tile / tiles * width + tile % tiles * most;
      const int64_t n = smaller(most, width - tile % tiles * most);
      State state[Rule::kWidth];
      for (int64_t j = 0; j < n; ++j) state[j] = Rule::start();
      each_rows(
          r, static_cast<const T*>(r.in) + offset_of(first, r.kept, r.kept_size, r.kept_stride),
          elements,
          [&](const T* x, int64_t rows, int64_t step) { Rule::columns(state, x, rows, step, n); });
      Rule::write(r, out_at(r, first), out_step(r), state, n);
    });
  }

  /// A few outputs of many elements: threads share the pieces of one output.
  static bool long_outputs(const Reduce& r, int64_t outputs, int64_t elements) {
    const int64_t pieces = (elements + kPiece - 1) / kPiece;
    constexpr int64_t kMost = 4096;
    if (pieces < 2 || outputs >= 16) return false;
    for (int64_t o = 0; o < outputs; ++o) {
      const T* x = static_cast<const T*>(r.in) + offset_of(o, r.kept, r.kept_size, r.kept_stride);
      State total = Rule::start();
      for (int64_t begin = 0; begin < pieces && !mt_interrupted; begin += kMost) {
        State part[kMost];
        const int64_t n = smaller(kMost, pieces - begin);
        for (int64_t p = 0; p < n; ++p) part[p] = Rule::start();
        parallel(n, elements > 2 * kGrain, [&](int64_t p) {
          const int64_t from = (begin + p) * kPiece;
          part[p] = piece(x, r, from, smaller(elements, from + kPiece));
        });
        for (int64_t p = 0; p < n; ++p) total = Rule::join(total, part[p]);
      }
      Rule::write(r, out_at(r, o), 1, &total, 1);
    }
    return true;
  }

  static void reduce(const Reduce& r) {
    const int64_t outputs = count(r.kept, r.kept_size), elements = count(r.reduced, r.reduced_size);
    if (outputs == 0) return;
    if (in_columns(r, elements)) return columns(r, outputs, elements);
    if (long_outputs(r, outputs, elements)) return;
    const bool whole = r.reduced == 1 && r.reduced_stride[0] == 1 && elements <= kPiece;
    each_output<T>(r, outputs, elements, [&](int64_t first, int64_t n, const T* x, int64_t step) {
      State state[64];
      for (int64_t o = 0; o < n; ++o, x += step) {
        state[o] = Rule::start();
        if (whole) state[o] = Rule::join(state[o], Rule::run(x, elements));
        else
          for (int64_t from = 0; from < elements && !mt_interrupted; from += kPiece)
            state[o] = Rule::join(state[o], piece(x, r, from, smaller(elements, from + kPiece)));
      }
      Rule::write(r, out_at(r, first), out_step(r), state, n);
    });
  }
};

// ---- positions ----------------------------------------------------------------------------------

/// The position of the first largest or smallest element; a NaN counts as the extreme.
template <class Op, class T> struct Arg {
  /// Reduces a block first; looks for the position only if the block beats the best so far: most do not.
  static ArgState<T> line(const T* x, const Reduce& r, int64_t elements) {
    const int last = r.reduced - 1;
    const int64_t row = last >= 0 ? r.reduced_size[last] : 1;
    const int64_t step = last >= 0 ? r.reduced_stride[last] : 1;
    ArgState<T> best{*x, 0};
    for (int64_t i = 0; i < elements && best.value == best.value && !mt_interrupted;) {
      int64_t n = smaller(smaller(elements - i, row - i % row), kBuffer);
      const T* at = x + offset_of(i, r.reduced, r.reduced_size, r.reduced_stride);
      T buffer[kBuffer];
      if (step != 1) {
        move_run(reinterpret_cast<char*>(buffer), 1, reinterpret_cast<const char*>(at), step, n,
                 sizeof(T));
        at = buffer;
      }
      const T most = join_run<Op>(at, n);
      if (op::is_better<Op>(most, best.value)) {
        int64_t k = 0;
        while (!(at[k] == most || (most != most && at[k] != at[k]))) ++k;
        best = {at[k], i + k};
      }
      i += n;
    }
    return best;
  }

  static void columns(const Reduce& r, int64_t outputs, int64_t elements) {
    using Index = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
    const int64_t width = r.kept_size[r.kept - 1], tiles = (width + kColumns - 1) / kColumns;
    parallel(outputs / width * tiles, outputs * elements > 2 * kGrain, [&](int64_t tile) {
      const int64_t first = tile / tiles * width + tile % tiles * kColumns;
      const int64_t n = smaller(kColumns, width - tile % tiles * kColumns);
      const T* start =
          static_cast<const T*>(r.in) + offset_of(first, r.kept, r.kept_size, r.kept_stride);
      T best[kColumns];
      Index at[kColumns] = {};
      for (int64_t j = 0; j < n; ++j) best[j] = start[j];
      Index row = 0;
      each_rows(r, start, elements, [&](const T* x, int64_t rows, int64_t step) {
        for (int64_t i = 0; i < rows; ++i, ++row, x += step)
          for (int64_t j = 0; j < n; ++j) {
            const bool wins = op::is_better<Op>(x[j], best[j]);
            best[j] = wins ? x[j] : best[j];
            at[j] = wins ? row : at[j];
          }
      });
      for (int64_t j = 0; j < n; ++j)
        write(r, out_at(r, first) + j * out_step(r), {best[j], at[j]});
    });
  }

  static void write(const Reduce& r, int64_t at, ArgState<T> best) {
    if (r.out) static_cast<int64_t*>(r.out)[at] = best.at;
    if (r.out2) static_cast<T*>(r.out2)[at] = best.value;
  }

  static void reduce(const Reduce& r) {
    const int64_t outputs = count(r.kept, r.kept_size), elements = count(r.reduced, r.reduced_size);
    if (outputs == 0 || elements == 0) return;
    if (in_columns(r, elements) && elements < INT32_MAX) return columns(r, outputs, elements);
    each_output<T>(r, outputs, elements, [&](int64_t first, int64_t n, const T* x, int64_t step) {
      for (int64_t o = 0; o < n; ++o)
        write(r, out_at(r, first) + o * out_step(r), line(x + o * step, r, elements));
    });
  }
};

// ---- tables -------------------------------------------------------------------------------------

using Verb = void (*)(const Reduce&);
/// Reductions of bools take bool alone: the engine has asked each element first.
template <class Op, class T> constexpr Verb verb() {
  if constexpr (Op::info.boolean && sizeof(T) > sizeof(bool)) return nullptr;
  else if constexpr (Op::info.premap != op::Premap::identity &&
                     Op::info.premap != op::Premap::nonzero && !math::is_floating<T>)
    return nullptr;
  else return Reducer<Simple<Op, T>>::reduce;
}
struct Verbs {
  Verb of[kLoopDtypes];
};
template <class L> struct Table;
template <class... Op> struct Table<op::List<Op...>> {
  static constexpr Verbs row[] = {
      {{verb<Op, bool>(), verb<Op, uint8_t>(), verb<Op, int32_t>(), verb<Op, int64_t>(),
        verb<Op, float>(), verb<Op, double>()}}...};
};
template <class Op> constexpr Verbs arg_row() {
  return {{Arg<Op, bool>::reduce, Arg<Op, uint8_t>::reduce, Arg<Op, int32_t>::reduce,
           Arg<Op, int64_t>::reduce, Arg<Op, float>::reduce, Arg<Op, double>::reduce}};
}
template <template <class> class Rule> constexpr Verbs float_row() {
  return {{nullptr, nullptr, nullptr, nullptr, Reducer<Rule<float>>::reduce,
           Reducer<Rule<double>>::reduce}};
}
constexpr Verbs special[] = {arg_row<op::Amax>(), arg_row<op::Amin>(), float_row<Moments>(),
                             float_row<LogSumExp>()};

}  // namespace

void reduce(const Reduce& call) {
  const int dtype = static_cast<int>(call.dtype);
  Reduce r = call;
  int64_t* const kept[2] = {r.out_stride, r.kept_stride};
  r.kept = collapse(r.kept, r.kept_size, kept);
  int64_t* const reduced[1] = {r.reduced_stride};
  r.reduced = collapse(r.reduced, r.reduced_size, reduced);
  const Verbs& verbs = r.op >= kArgmax ? special[r.op - kArgmax] : Table<op::Reductions>::row[r.op];
  verbs.of[dtype](r);
}

}  // namespace MT_ISA
}  // namespace mt
