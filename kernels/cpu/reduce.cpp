// reduce.cpp -- the reduce verb on the CPU
//
// The order of additions depends on the shape alone: the reduced elements are cut into pieces of
// kPiece, a piece is joined in interleaved partial results (simd_reduce.h), and pieces are joined in their
// order. Threads take outputs or pieces; neither changes the order. Floats are summed in double, in
// long runs the sums of eight, so that 2^25 times 0.1f is still right.
#include <type_traits>

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/program.h"
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

// ---- parts of the loop ----------------------------------------------------------------------------

using op::StateOf;

/// How any struct is reduced.
template <class Op, class T> struct Generic {
  using State = StateOf<Op, T>;
  static constexpr int64_t kWidth =
      kColumns;  // columns that are reduced side by side by one thread
  /// The state of n neighbours, of which the first is element `at`.
  static State run(const T* x, int64_t n, int64_t at, const double* param) {
    State s = Op::template identity<State>();
    for (int64_t i = 0; i < n; ++i) s = Op::combine(s, op::enter<Op, State>(x[i], at + i, param));
    return s;
  }
  /// Joins rows of n elements, each element `at` of its column, to the states of their columns.
  static void columns(State* state, const T* x, int64_t rows, int64_t step, int64_t n, int64_t at,
                      const double* param) {
    for (int64_t i = 0; i < rows; ++i, x += step)
      for (int64_t j = 0; j < n; ++j)
        state[j] = Op::combine(state[j], op::enter<Op, State>(x[j], at + i, param));
  }
};

/// A faster way for some structs.
template <class Op, class T> struct Fast : Generic<Op, T> {};

/// States that are numbers, in vectors.
template <class Op, class T>
requires(Op::maps) struct Fast<Op, T> {
  using State = StateOf<Op, T>;
  static constexpr int64_t kWidth = 4 * kColumns;
  static State run(const T* x, int64_t n, int64_t, const double*) { return join_run<Op>(x, n); }
  static void columns(State* state, const T* x, int64_t rows, int64_t step, int64_t n, int64_t,
                      const double*) {
    const auto in = [&](int64_t i) { return op::enter<Op, State>(x[i], 0, nullptr); };
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4, x += 4 * step)
      for (int64_t j = 0; j < n; ++j) {
        State s = Op::combine(state[j], in(j));
        s = Op::combine(s, in(step + j));
        s = Op::combine(s, in(2 * step + j));
        state[j] = Op::combine(s, in(3 * step + j));
      }
    for (; i < rows; ++i, x += step)
      for (int64_t j = 0; j < n; ++j) state[j] = Op::combine(state[j], in(j));
  }
};

/// Two passes over a run that is in the cache: the mean, then deviations from it.
template <class T> struct Fast<op::Var, T> {
  using State = op::Moments;
  static constexpr int64_t kWidth = kColumns;
  static State run(const T* x, int64_t n, int64_t, const double*) {
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
  static void columns(State* state, const T* x, int64_t rows, int64_t step, int64_t n, int64_t,
                      const double*) {
    double mean[kColumns] = {}, m2[kColumns] = {};
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) mean[j] += double(x[i * step + j]);
    for (int64_t j = 0; j < n; ++j) mean[j] /= double(rows);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const double d = double(x[i * step + j]) - mean[j];
        m2[j] += d * d;
      }
    for (int64_t j = 0; j < n; ++j)
      state[j] = op::combine(state[j], {double(rows), mean[j], m2[j]});
  }
};

/// The largest element first, then exponentials in vectors.
template <class T> struct Fast<op::LogSumExp, T> {
  using State = StateOf<op::LogSumExp, T>;
  static constexpr int64_t kWidth = kColumns;
  static State run(const T* x, int64_t n, int64_t, const double*) {
    const T offset = op::offset_for(join_run<op::Amax>(x, n));
    double sum = 0;
    T buffer[kExpRun];
    for (int64_t i = 0; i < n; i += kExpRun)
      sum += exp_run(x + i, offset, buffer, smaller(kExpRun, n - i));
    return {offset, sum};
  }
  static void columns(State* state, const T* x, int64_t rows, int64_t step, int64_t n, int64_t,
                      const double*) {
    T most[kColumns];
    double sum[kColumns] = {};
    for (int64_t j = 0; j < n; ++j) most[j] = math::lowest<T>();
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) most[j] = op::Amax::combine(most[j], x[i * step + j]);
    for (int64_t j = 0; j < n; ++j) most[j] = op::offset_for(most[j]);
    for (int64_t i = 0; i < rows; ++i) {
      T e[kColumns];
      for (int64_t j = 0; j < n; ++j) e[j] = math::exp(x[i * step + j] - most[j]);
      for (int64_t j = 0; j < n; ++j) sum[j] += double(e[j]);
    }
    for (int64_t j = 0; j < n; ++j)
      state[j] = op::LogSumExp::combine(state[j], State{most[j], sum[j]});
  }
};

/// p log(p) of a run in vectors.
template <class T> struct Fast<op::Entropy, T> : Generic<op::Entropy, T> {
  static op::EntropyState run(const T* x, int64_t n, int64_t, const double*) {
    double product = 0, terms[kBuffer];
    for (int64_t i = 0; i < n; i += kBuffer) {
      const int64_t here = smaller(kBuffer, n - i);
      MT_INDEPENDENT
      for (int64_t j = 0; j < here; ++j) {
        const double p = double(x[i + j]), log = math::log(p);
        terms[j] = p == 0 ? 0 : p * log;
      }
      product += join_run<op::Sum>(terms, here);
    }
    return {double(join_run<op::Sum, T, 1>(x, n)), product};
  }
};

// ---- walking ------------------------------------------------------------------------------------

/// The first element of an output.
template <class T> const T* in_at(const Reduce& r, int64_t output) {
  return static_cast<const T*>(r.in) + offset_of(output, r.kept, r.kept_size, r.kept_stride);
}

/// Calls `body(run, n, i)` for runs of the reduced elements [from, to) of the output that begins at x,
/// the first of a run being element i, until it is false; what is not contiguous passes through a
/// buffer, the others in runs of `most`.
template <class T, class Body>
void each_run(const Reduce& r, const T* x, int64_t from, int64_t to, int64_t most,
              const Body& body) {
  const int last = r.reduced - 1;
  const int64_t row = last >= 0 ? r.reduced_size[last] : 1;
  const int64_t step = last >= 0 ? r.reduced_stride[last] : 1;
  for (int64_t i = from, n; i < to; i += n) {
    n = smaller(smaller(to - i, row - i % row), step == 1 ? most : kBuffer);
    const T* at = x + offset_of(i, r.reduced, r.reduced_size, r.reduced_stride);
    T buffer[kBuffer];
    if (step != 1) {
      move_run(reinterpret_cast<char*>(buffer), 1, reinterpret_cast<const char*>(at), step, n,
               sizeof(T));
      at = buffer;
    }
    if (!body(at, n, i)) return;
  }
}

/// Calls `body(first, n, elements of the first, step)` for groups of outputs in one row, threads
/// taking them.
template <class T, class Body>
void each_output(const Reduce& r, int64_t outputs, int64_t elements, const Body& body) {
  constexpr int64_t kOutputs = 64;
  const int64_t row = r.kept > 0 ? r.kept_size[r.kept - 1] : 1;
  const int64_t step = r.kept > 0 ? r.kept_stride[r.kept - 1] : 0;
  parallel_chunks(outputs, kOutputs, outputs * elements > 2 * kGrain, [&](int64_t o, int64_t end) {
    while (o < end) {
      const int64_t n = smaller(end - o, row - o % row);
      const T* x = in_at<T>(r, o);
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

/// Calls `rows(x, number of rows, step, number of the first)` for the reduced elements [from, to) of
/// columns that begin at x.
template <class T, class Rows>
void each_rows(const Reduce& r, const T* x, int64_t from, int64_t to, const Rows& rows) {
  const int64_t inner = r.reduced > 0 ? r.reduced_size[r.reduced - 1] : 1;
  const int64_t step = r.reduced > 0 ? r.reduced_stride[r.reduced - 1] : 0;
  for (int64_t i = from, n; i < to && !mt_interrupted; i += n) {
    n = smaller(smaller(kRows, to - i), inner - i % inner);
    rows(x + offset_of(i, r.reduced, r.reduced_size, r.reduced_stride), n, step, i);
  }
}

template <class Op, class T> struct Reducer {
  using Way = Fast<Op, T>;
  using State = StateOf<Op, T>;
  static constexpr int64_t kWidth = Way::kWidth;
  static State start() { return Op::template identity<State>(); }

  /// Writes the results of n outputs, `step` apart from `at`.
  __attribute__((noinline)) static void write(const Reduce& r, int64_t elements, int64_t at,
                                              int64_t step, const State* state, int64_t n) {
    using Out = op::ResultType<Op, T>;
    const op::ReduceCall call{double(elements), r.param};
    if (!Op::two_results || r.out)
      for (int64_t i = 0; i < n; ++i)
        static_cast<Out*>(r.out)[at + i * step] =
            math::convert<Out>(Op::template finish<T>(state[i], call));
    if constexpr (Op::two_results)
      for (int64_t i = 0; r.out2 && i < n; ++i)
        static_cast<T*>(r.out2)[at + i * step] = Op::template second<T>(state[i]);
  }

  /// The reduced elements [from, to) of one output.
  __attribute__((noinline)) static State piece(const T* x, const Reduce& r, int64_t from,
                                               int64_t to) {
    State result = start();
    each_run(r, x, from, to, kPiece, [&](const T* run, int64_t n, int64_t i) {
      result = Op::combine(result, Way::run(run, n, i, r.param));
      return true;
    });
    return result;
  }

  /// Rows [from, to) of n columns, from `first` on, joined to a row of partial results.
  static void join_rows(const Reduce& r, int64_t first, int64_t n, int64_t from, int64_t to,
                        State* state) {
    for (int64_t j = 0; j < n; ++j) state[j] = start();
    each_rows(r, in_at<T>(r, first), from, to,
              [&](const T* x, int64_t rows, int64_t step, int64_t at) {
                Way::columns(state, x, rows, step, n, at, r.param);
              });
  }

  /// Threads take tiles of columns or, where these are few, cuts of a tile's rows, whose results are
  /// joined in their order. Memory is read best from one end to the other, so tiles are wide.
  static void columns(const Reduce& r, int64_t outputs, int64_t elements) {
    constexpr int64_t kCuts = 8, kLeast = 64;  // rows of a cut
    const int64_t width = r.kept_size[r.kept - 1], tiles = ceil_div(width, kWidth);
    const int64_t all = outputs / width * tiles;
    const auto first_of = [&](int64_t tile) {
      return tile / tiles * width + tile % tiles * kWidth;
    };
    const auto width_of = [&](int64_t tile) {
      return smaller(kWidth, width - tile % tiles * kWidth);
    };
    const bool spread = outputs * elements > 2 * kGrain;
    if (!spread || all >= kCuts || elements < kCuts * kLeast)
      return parallel(all, spread, [&](int64_t tile) {
        State state[kWidth];
        const int64_t first = first_of(tile), n = width_of(tile);
        join_rows(r, first, n, 0, elements, state);
        write(r, elements, out_at(r, first), out_step(r), state, n);
      });
    for (int64_t tile = 0; tile < all; ++tile) {
      State state[kCuts][kWidth];
      const int64_t first = first_of(tile), n = width_of(tile);
      parallel(kCuts, true, [&](int64_t cut) {
        join_rows(r, first, n, elements * cut / kCuts, elements * (cut + 1) / kCuts, state[cut]);
      });
      for (int64_t cut = 1; cut < kCuts; ++cut)
        for (int64_t j = 0; j < n; ++j) state[0][j] = Op::combine(state[0][j], state[cut][j]);
      write(r, elements, out_at(r, first), out_step(r), state[0], n);
    }
  }

  /// A few outputs of many elements: threads share the pieces of one output.
  static bool long_outputs(const Reduce& r, int64_t outputs, int64_t elements) {
    const int64_t pieces = ceil_div(elements, kPiece);
    constexpr int64_t kMost = 4096;
    if (pieces < 2 || outputs >= 16) return false;
    for (int64_t o = 0; o < outputs; ++o) {
      const T* x = in_at<T>(r, o);
      State total = start();
      for (int64_t begin = 0; begin < pieces && !mt_interrupted; begin += kMost) {
        State part[kMost];
        const int64_t n = smaller(kMost, pieces - begin);
        for (int64_t p = 0; p < n; ++p) part[p] = start();
        parallel(n, elements > 2 * kGrain, [&](int64_t p) {
          const int64_t from = (begin + p) * kPiece;
          part[p] = piece(x, r, from, smaller(elements, from + kPiece));
        });
        for (int64_t p = 0; p < n; ++p) total = Op::combine(total, part[p]);
      }
      write(r, elements, out_at(r, o), 1, &total, 1);
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
        state[o] = start();
        if (whole) state[o] = Op::combine(state[o], Way::run(x, elements, 0, r.param));
        else
          for (int64_t from = 0; from < elements && !mt_interrupted; from += kPiece)
            state[o] = Op::combine(state[o], piece(x, r, from, smaller(elements, from + kPiece)));
      }
      write(r, elements, out_at(r, first), out_step(r), state, n);
    });
  }
};

/// Contiguous rows of at most kPiece elements, for programs by rows.
static_assert(kLongestRow <= kPiece);
template <class Op, class T>
void reduce_rows(const char* x, int64_t n, int64_t rows, char* out, const double* param) {
  using R = Reducer<Op, T>;
  const op::ReduceCall call{double(n), param};
  for (int64_t i = 0; i < rows; ++i, x += n * int64_t(sizeof(T))) {
    const auto row = R::Way::run(reinterpret_cast<const T*>(x), n, 0, param);
    reinterpret_cast<T*>(out)[i] =
        math::convert<T>(Op::template finish<T>(Op::combine(R::start(), row), call));
  }
}

// ---- positions ----------------------------------------------------------------------------------

/// Where the extreme of n elements is first, or the first NaN if that is the extreme. kBlock elements
/// are compared at once.
template <class T> int64_t place_of(const T* x, T extreme, int64_t n) {
  constexpr int64_t kBlock = 32;
  const bool nan = extreme != extreme;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    int found = 0;
    for (int64_t j = i; j < i + kBlock; ++j)
      found |= int(x[j] == extreme) | (int(nan) & int(x[j] != x[j]));
    if (found) break;
  }
  while (!(x[i] == extreme || (nan && x[i] != x[i]))) ++i;
  return i;
}

/// The position of the first largest or smallest element; a NaN counts as the extreme.
template <class Op, class T> struct Position {
  /// Reduces a block first; looks for the position only if the block beats the best so far: most do not.
  static op::ArgState<T> line(const T* x, const Reduce& r, int64_t elements) {
    op::ArgState<T> best{*x, 0};
    each_run(r, x, 0, elements, kBuffer, [&](const T* run, int64_t n, int64_t i) {
      const T most = join_run<typename Op::Value>(run, n);
      if (op::is_better<Op>(most, best.value)) {
        const int64_t k = place_of(run, most, n);
        best = {run[k], i + k};
      }
      return best.value == best.value && !mt_interrupted;
    });
    return best;
  }

  static void columns(const Reduce& r, int64_t outputs, int64_t elements) {
    using Index = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
    const int64_t width = r.kept_size[r.kept - 1], tiles = ceil_div(width, kColumns);
    parallel(outputs / width * tiles, outputs * elements > 2 * kGrain, [&](int64_t tile) {
      const int64_t first = tile / tiles * width + tile % tiles * kColumns;
      const int64_t n = smaller(kColumns, width - tile % tiles * kColumns);
      const T* start = in_at<T>(r, first);
      T best[kColumns];
      Index at[kColumns] = {};
      for (int64_t j = 0; j < n; ++j) best[j] = start[j];
      Index row = 0;
      each_rows(r, start, 0, elements, [&](const T* x, int64_t rows, int64_t step, int64_t) {
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

  static void write(const Reduce& r, int64_t at, op::ArgState<T> best) {
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

struct Loops {
  using Loop = void (*)(const Reduce&);
  template <class Op, class T> static constexpr Loop of() {
    if constexpr (!op::accepts<T>(Op::info.takes)) return nullptr;
    else if constexpr (Op::needs_index && Op::extreme != 0) return Position<Op, T>::reduce;
    else return Reducer<Op, T>::reduce;
  }
};

struct RowLoops {
  using Loop = RowReduction;
  template <class Op, class T> static constexpr Loop of() {
    if constexpr (!op::accepts<T>(Op::info.takes) || Op::needs_index) return nullptr;
    else return reduce_rows<Op, T>;
  }
};

}  // namespace

RowReduction row_reduction(int reduction, Dtype dtype) {
  return op::loop_of<RowLoops>(reduction, dtype, op::Reductions{});
}

void reduce(const Reduce& call) {
  Reduce r = call;
  int64_t* const kept[2] = {r.out_stride, r.kept_stride};
  r.kept = collapse(r.kept, r.kept_size, kept);
  int64_t* const reduced[1] = {r.reduced_stride};
  r.reduced = collapse(r.reduced, r.reduced_size, reduced);
  op::loop_of<Loops>(r.op, r.dtype, op::Reductions{})(r);
}

}  // namespace MT_ISA
}  // namespace mt
