// reduce.cpp -- the reduce verb on the CPU
//
// The order of additions depends only on the shape: the reduced elements are split into pieces of
// kPiece, a piece is reduced in interleaved partial results (simd_reduce.h), and pieces are
// combined in order. Threads split outputs or pieces; neither changes the order. Floats are summed
// in double, in long runs as sums of eight, so that 2^25 times 0.1f is still exact enough. Elements
// of a storage-only dtype are converted through a buffer.
#include <type_traits>

#include "kernels/cpu/interpret/program.h"
#include "kernels/cpu/simd/simd_reduce.h"
#include "kernels/cpu/simd/storage_types.h"
#include "kernels/moments.h"
#include "kernels/table.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kPiece = 16384;
constexpr int64_t kBuffer = 512;   // elements gathered at a time if they are not contiguous
constexpr int64_t kColumns = 256;  // outputs that are reduced together
constexpr int64_t kLong = 512;     // from this number of elements on, floats are summed in eights

// ---- parts of the loop ----------------------------------------------------------------------------

using op::StateOf;

/// The default reduction, for any struct.
template <class Op, class T> struct Generic {
  using State = StateOf<Op, T>;
  /// The number of columns that one thread reduces together, and of their rows at a time.
  static constexpr int64_t kWidth = kColumns, kRows = 32;
  /// The number of elements of a storage-only dtype that are converted at a time.
  static constexpr int64_t kConverted = kPiece;
  /// The state of n consecutive elements, the first of which has index `at`.
  static State run(const T* x, int64_t n, int64_t at, const double* param) {
    State s = Op::template identity<State>();
    for (int64_t i = 0; i < n; ++i) s = Op::combine(s, op::enter<Op, State>(x[i], at + i, param));
    return s;
  }
  /// Combines rows of n elements with the states of their columns; the first row has index `at`.
  static void columns(State* state, const T* x, int64_t rows, int64_t step, int64_t n, int64_t at,
                      const double* param) {
    for (int64_t i = 0; i < rows; ++i, x += step)
      for (int64_t j = 0; j < n; ++j)
        state[j] = Op::combine(state[j], op::enter<Op, State>(x[j], at + i, param));
  }
};

/// Specialized for structs with a faster reduction.
template <class Op, class T> struct Fast : Generic<Op, T> {};

/// States that are numbers, reduced with vectors.
template <class Op, class T>
requires(Op::maps) struct Fast<Op, T> : Generic<Op, T> {
  using State = StateOf<Op, T>;
  static constexpr int64_t kWidth = 4 * kColumns, kRows = 512, kConverted = 4096;
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
  /// Combines rows in any order; floats are added in groups of eight, as in long runs.
  static void long_columns(State* state, const T* x, int64_t rows, int64_t step, int64_t n) {
    constexpr int64_t fold = kFold<Op, T>;
    int64_t i = 0;
    if constexpr (fold > 1)
      for (; i + 8 <= rows; i += 8, x += 8 * step)
        for (int64_t j = 0; j < n; ++j) {
          const auto two = [&](int64_t k) {
            return Op::combine(Op::premap(x[k * step + j]), Op::premap(x[(k + 1) * step + j]));
          };
          const T eight = Op::combine(Op::combine(two(0), two(2)), Op::combine(two(4), two(6)));
          state[j] = Op::combine(state[j], State(eight));
        }
    columns(state, x, rows - i, step, n, 0, nullptr);
  }
};

/// Two passes over a run that is in the cache: the mean, then the deviations from it.
template <class T> struct Fast<op::Var, T> : Generic<op::Var, T> {
  using State = op::Moments;
  static State run(const T* x, int64_t n, int64_t, const double*) {
    return deviations(x, double(join_run<op::Sum, T, 1>(x, n)) / double(n), n);
  }
  __attribute__((noinline)) static State deviations(const T* x, double mean, int64_t n) {
    using V = Pack<double>;
    constexpr int width = kPackBytes / 8;
    V part[4] = {}, sum[4] = {};
    int64_t i = 0;
    for (; i + 4 * width <= n; i += 4 * width)
      for (int k = 0; k < 4; ++k) {
        const V d = widened<double>(x + i + k * width) - mean;
        part[k] += d * d;
        if constexpr (op::kRoundedMean<T>) sum[k] += d;
      }
    double rest = 0, left = 0;
    for (; i < n; ++i) {
      const double d = double(x[i]) - mean;
      rest += d * d, left += d;
    }
    const V all = (part[0] + part[1]) + (part[2] + part[3]);
    const V off = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int l = 0; l < width; ++l) rest += all[l], left += off[l];
    return op::moments<T>(double(n), mean, left, rest);
  }
  static void columns(State* state, const T* x, int64_t rows, int64_t step, int64_t n, int64_t,
                      const double*) {
    double mean[kColumns] = {}, m2[kColumns] = {}, sum[kColumns] = {};
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) mean[j] += double(x[i * step + j]);
    for (int64_t j = 0; j < n; ++j) mean[j] /= double(rows);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const double d = double(x[i * step + j]) - mean[j];
        m2[j] += d * d;
        if constexpr (op::kRoundedMean<T>) sum[j] += d;
      }
    for (int64_t j = 0; j < n; ++j)
      state[j] = op::combine(state[j], op::moments<T>(double(rows), mean[j], sum[j], m2[j]));
  }
};

/// Computes the maximum first, then exponentials with vectors.
template <class T> struct Fast<op::LogSumExp, T> : Generic<op::LogSumExp, T> {
  using State = StateOf<op::LogSumExp, T>;
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

/// Sums p log(p) of a run in vectors.
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

/// The index of the first element that equals the extreme, or of the first NaN if that is the
/// extreme. kBlock elements are compared at once.
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

/// The position of the first maximum or minimum; a NaN counts as the extreme.
template <class Op, class T>
requires(Op::needs_index) struct Fast<Op, T> : Generic<Op, T> {
  using State = op::ArgState<T>;
  static constexpr int64_t kRows = 512, kShort = 16;
  /// Reduces a block first; finds the position only if the block beats the best so far, which is rare.
  static State run(const T* x, int64_t n, int64_t at, const double*) {
    State best{*x, at};
    if (n < kShort) {
      for (int64_t i = 1; i < n; ++i) {
        const bool wins = op::is_better<Op>(x[i], best.value);
        best = {wins ? x[i] : best.value, wins ? at + i : best.at};
      }
      return best;
    }
    for (int64_t i = 0; i < n && best.value == best.value; i += kBuffer) {
      const int64_t here = smaller(kBuffer, n - i);
      const T most = join_run<typename Op::Value>(x + i, here);
      if (!op::is_better<Op>(most, best.value)) continue;
      const int64_t k = i + place_of(x + i, most, here);
      best = {x[k], at + k};
    }
    return best;
  }
  static void columns(State* state, const T* x, int64_t rows, int64_t step, int64_t n, int64_t at,
                      const double*) {
    using Row = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
    T best[kColumns];
    Row row[kColumns];  // of the best; -1: not in these rows
    for (int64_t j = 0; j < n; ++j) {
      const bool first = state[j].at < 0;
      best[j] = first ? x[j] : state[j].value;
      row[j] = first ? 0 : -1;
    }
    for (Row i = 0; i < rows; ++i, x += step)
      for (int64_t j = 0; j < n; ++j) {
        const bool wins = op::is_better<Op>(x[j], best[j]);
        best[j] = wins ? x[j] : best[j];
        row[j] = wins ? i : row[j];
      }
    for (int64_t j = 0; j < n; ++j)
      if (row[j] >= 0) state[j] = {best[j], at + row[j]};
  }
};

// ---- the functions that the walk calls ------------------------------------------------------------

/// The loops of a reduction of one dtype, for `ReducedWalk`, which knows only sizes and these functions.
struct ReduceLoops {
  int64_t state, width, rows, converted;  // bytes of a state; elements at a time in each dimension
  void (*start)(void* state, int64_t n);
  /// Reduces n consecutive elements at each of several places, `step` apart, to a state each.
  void (*runs)(void* state, const char* x, int64_t places, int64_t step, int64_t n, int64_t at,
               const double* param);
  /// Combines rows of n elements with the states of their columns; the first row has index `at`.
  void (*columns)(void* state, const char* x, int64_t rows, int64_t step, int64_t n, int64_t at,
                  const double* param);
  /// Reduces many rows, in any order; null if the order matters.
  void (*long_columns)(void* state, const char* x, int64_t rows, int64_t step, int64_t n);
  /// Combines n states with n others.
  void (*join)(void* state, const void* more, int64_t n);
  /// Writes the results of n outputs, `step` apart, starting with `at`.
  void (*write)(const Reduce& r, int64_t elements, int64_t at, int64_t step, const void* state,
                int64_t n);
};
constexpr int64_t kMaxStateBytes = 24, kTileBytes = 8192;

template <class Op, class T> struct Reducer {
  using Way = Fast<Op, T>;
  using State = StateOf<Op, T>;
  static_assert(sizeof(State) <= kMaxStateBytes && sizeof(State) * Way::kWidth <= kTileBytes);

  static void start(void* state, int64_t n) {
    for (int64_t i = 0; i < n; ++i) static_cast<State*>(state)[i] = Op::template identity<State>();
  }
  /// Runs that are shorter than a pack, in the order of join_run: calls would take most of the time.
  __attribute__((noinline)) static void short_runs(State* s, const T* x, int64_t places,
                                                   int64_t step, int64_t n) {
    const State start = Op::template identity<State>();
    for (int64_t i = 0; i < places; ++i, x += step) {
      State rest = start;
      for (int64_t k = 0; k < n; ++k)
        rest = Op::combine(rest, op::enter<Op, State>(x[k], 0, nullptr));
      s[i] = Op::combine(s[i], Op::combine(start, rest));
    }
  }
  static void runs(void* state, const char* x, int64_t places, int64_t step, int64_t n, int64_t at,
                   const double* param) {
    State* const s = static_cast<State*>(state);
    const T* from = reinterpret_cast<const T*>(x);
    if constexpr (kPacks<Op, State, T>)
      if (n < kPackBytes / int(sizeof(State))) return short_runs(s, from, places, step, n);
    for (int64_t i = 0; i < places; ++i, from += step)
      s[i] = Op::combine(s[i], Way::run(from, n, at, param));
  }
  static void columns(void* state, const char* x, int64_t rows, int64_t step, int64_t n, int64_t at,
                      const double* param) {
    Way::columns(static_cast<State*>(state), reinterpret_cast<const T*>(x), rows, step, n, at,
                 param);
  }
  static constexpr auto long_columns() {
    using Run = void (*)(void*, const char*, int64_t, int64_t, int64_t);
    if constexpr (!Op::maps) return Run(nullptr);
    else
      return Run([](void* state, const char* x, int64_t rows, int64_t step, int64_t n) {
        Way::long_columns(static_cast<State*>(state), reinterpret_cast<const T*>(x), rows, step, n);
      });
  }
  static void join(void* state, const void* more, int64_t n) {
    State* const s = static_cast<State*>(state);
    for (int64_t i = 0; i < n; ++i) s[i] = Op::combine(s[i], static_cast<const State*>(more)[i]);
  }
  static void write(const Reduce& r, int64_t elements, int64_t at, int64_t step, const void* state,
                    int64_t n) {
    using Out = op::ResultType<Op, T>;
    const State* const s = static_cast<const State*>(state);
    const op::ReduceCall call{double(elements), r.param};
    if (!Op::two_results || r.out)
      for (int64_t i = 0; i < n; ++i)
        static_cast<Out*>(r.out)[at + i * step] =
            math::convert<Out>(Op::template finish<T>(s[i], call));
    if constexpr (Op::two_results)
      for (int64_t i = 0; r.out2 && i < n; ++i)
        static_cast<T*>(r.out2)[at + i * step] = Op::template second<T>(s[i]);
  }
  static constexpr ReduceLoops loops{sizeof(State), Way::kWidth, Way::kRows, Way::kConverted,
                                     start,         runs,        columns,    long_columns(),
                                     join,          write};
};

// ---- walking ------------------------------------------------------------------------------------

struct ReducedWalk {
  const Reduce& r;
  const ReduceLoops& j;
  const int64_t outputs, elements;
  const bool narrow = is_storage_only(r.dtype);
  const int64_t item = item_size(r.dtype);

  /// The address of the first element of an output.
  const char* in_at(int64_t output) const {
    return static_cast<const char*>(r.in) +
           offset_of(output, r.kept, r.kept_size, r.kept_stride) * item;
  }
  const char* element_at(const char* x, int64_t i) const {
    return x + offset_of(i, r.reduced, r.reduced_size, r.reduced_stride) * item;
  }
  void write(int64_t first, const void* state, int64_t n) const {
    const int64_t step = r.kept > 0 ? r.out_stride[r.kept - 1] : 1;
    j.write(r, elements, offset_of(first, r.kept, r.kept_size, r.out_stride), step, state, n);
  }

  /// j.runs for elements whose dtype may be storage-only; n is at most kPiece.
  void runs(char* state, const char* x, int64_t places, int64_t step, int64_t n, int64_t at) const {
    if (!narrow) return j.runs(state, x, places, step, n, at, r.param);
    alignas(64) char buffer[kPiece * 4];
    const int64_t together = step == n && n < j.converted ? j.converted / n : 1;
    for (int64_t i = 0, rows; i < places; i += rows) {
      rows = smaller(together, places - i);
      for (int64_t k = 0, here; k < n; k += here) {
        here = smaller(j.converted, n - k);
        load_converted(r.dtype, buffer, x + (i * step + k) * item, rows * here);
        j.runs(state + i * j.state, buffer, rows, here, here, at + k, r.param);
      }
    }
  }

  /// Reduces the elements [from, to), at most kPiece, of the output that begins at x. Elements that
  /// are not contiguous are copied to a buffer first.
  void piece(const char* x, int64_t from, int64_t to, char* state) const {
    const int last = r.reduced - 1;
    const int64_t row = last >= 0 ? r.reduced_size[last] : 1;
    const int64_t step = last >= 0 ? r.reduced_stride[last] : 1;
    j.start(state, 1);
    for (int64_t i = from, n; i < to; i += n) {
      n = smaller(smaller(to - i, row - i % row), step == 1 ? kPiece : kBuffer);
      const char* at = element_at(x, i);
      alignas(64) char buffer[kBuffer * 8];
      if (step != 1) {
        move_run(buffer, 1, at, step, n, item);
        at = buffer;
      }
      runs(state, at, 1, 0, n, i);
    }
  }

  bool has_long_columns() const { return j.long_columns && elements >= kLong; }
  /// The number of rows of few columns, adjacent without gaps, that are combined as one.
  int64_t rows_in_one() const {
    const int64_t n = r.kept_size[r.kept - 1];
    return has_long_columns() && r.reduced == 1 && r.reduced_stride[0] == n ? kColumns / n : 1;
  }
  /// Whether outputs are contiguous in memory and the elements of one output are not.
  bool in_columns() const {
    return elements > 0 && r.kept > 0 && r.kept_stride[r.kept - 1] == 1 &&
           (r.kept_size[r.kept - 1] >= 4 || rows_in_one() > 1) &&
           !(r.reduced > 0 && r.reduced_stride[r.reduced - 1] == 1);
  }

  /// Combines rows of n elements, the first with index `at`; returns the number of rows done.
  int64_t join_some(void* state, const char* x, int64_t rows, int64_t step, int64_t n,
                    int64_t at) const {
    alignas(64) char buffer[kPiece * 4];
    if (narrow) {
      const int64_t eights = j.converted / n / 8;
      rows = smaller(rows, eights > 0 ? 8 * eights : 8);
      for (int64_t k = 0; k < rows; ++k)
        load_converted(r.dtype, buffer + k * n * 4, x + k * step * item, n);
      x = buffer, step = n;
    }
    if (has_long_columns()) j.long_columns(state, x, rows, step, n);
    else j.columns(state, x, rows, step, n, at, r.param);
    return rows;
  }
  /// Reduces the elements [from, to) of n columns, starting with column `first`.
  void join_rows(int64_t first, int64_t n, int64_t from, int64_t to, void* state) const {
    const int64_t inner = r.reduced > 0 ? r.reduced_size[r.reduced - 1] : 1;
    const int64_t step = r.reduced > 0 ? r.reduced_stride[r.reduced - 1] : 0;
    const char* const x = in_at(first);
    j.start(state, n);
    if (const int64_t fold = rows_in_one(); fold > 1) {
      alignas(64) char wide[kTileBytes];
      j.start(wide, fold * n);
      for (int64_t rows; from + fold <= to && !mt_interrupted; from += rows * fold) {
        rows = smaller(j.rows, (to - from) / fold);
        rows = join_some(wide, element_at(x, from), rows, fold * step, fold * n, from);
      }
      for (int64_t k = 0; k < fold; ++k) j.join(state, wide + k * n * j.state, n);
    }
    for (int64_t i = from, rows; i < to && !mt_interrupted; i += rows) {
      rows = smaller(smaller(j.rows, to - i), inner - i % inner);
      rows = join_some(state, element_at(x, i), rows, step, n, i);
    }
  }

  /// Threads split tiles of columns or, if these are few, the rows of a tile, whose partial results
  /// are combined in order. Memory is read fastest sequentially, so tiles are wide.
  void columns() const {
    constexpr int64_t kCuts = 8, kMinRows = 64;  // rows of a cut
    const int64_t width = r.kept_size[r.kept - 1], tiles = ceil_div(width, j.width);
    const int64_t all = outputs / width * tiles;
    const auto first_of = [&](int64_t tile) {
      return tile / tiles * width + tile % tiles * j.width;
    };
    const auto width_of = [&](int64_t tile) {
      return smaller(j.width, width - tile % tiles * j.width);
    };
    const bool spread = outputs * elements > 2 * kGrain;
    if (!spread || all >= kCuts || elements < kCuts * kMinRows)
      return parallel(all, spread, [&](int64_t tile) {
        alignas(64) char state[kTileBytes];
        const int64_t first = first_of(tile), n = width_of(tile);
        join_rows(first, n, 0, elements, state);
        write(first, state, n);
      });
    for (int64_t tile = 0; tile < all; ++tile) {
      alignas(64) char state[kCuts][kTileBytes];
      const int64_t first = first_of(tile), n = width_of(tile);
      parallel(kCuts, true, [&](int64_t cut) {
        join_rows(first, n, elements * cut / kCuts, elements * (cut + 1) / kCuts, state[cut]);
      });
      for (int64_t cut = 1; cut < kCuts; ++cut) j.join(state[0], state[cut], n);
      write(first, state[0], n);
    }
  }

  /// Reduces a few outputs of many elements: threads split the pieces of one output.
  bool long_outputs() const {
    const int64_t pieces = ceil_div(elements, kPiece);
    constexpr int64_t kMaxPieces = 4096;
    if (pieces < 2 || outputs >= 16) return false;
    for (int64_t o = 0; o < outputs; ++o) {
      const char* const x = in_at(o);
      alignas(64) char total[kMaxStateBytes], part[kMaxPieces * kMaxStateBytes];
      j.start(total, 1);
      for (int64_t begin = 0; begin < pieces && !mt_interrupted; begin += kMaxPieces) {
        const int64_t n = smaller(kMaxPieces, pieces - begin);
        j.start(part, n);
        parallel(n, elements > 2 * kGrain, [&](int64_t p) {
          const int64_t from = (begin + p) * kPiece;
          piece(x, from, smaller(elements, from + kPiece), part + p * j.state);
        });
        for (int64_t p = 0; p < n; ++p) j.join(total, part + p * j.state, 1);
      }
      write(o, total, 1);
    }
    return true;
  }

  /// Reduces n outputs in one row, `step` elements apart from x on.
  void row(int64_t first, int64_t n, const char* x, int64_t step) const {
    alignas(64) char state[kOutputs * kMaxStateBytes], part[kMaxStateBytes];
    j.start(state, n);
    const int last = r.reduced - 1;
    const int64_t run = last >= 0 && r.reduced_stride[last] == 1 ? r.reduced_size[last] : 0;
    if (elements > 0 && run > 0 && run <= kPiece) {
      for (int64_t i = 0; i < elements && !mt_interrupted; i += run)
        runs(state, element_at(x, i), n, step, run, i);
    } else {
      for (int64_t o = 0; o < n; ++o, x += step * item)
        for (int64_t from = 0; from < elements && !mt_interrupted; from += kPiece) {
          piece(x, from, smaller(elements, from + kPiece), part);
          j.join(state + o * j.state, part, 1);
        }
    }
    write(first, state, n);
  }
  static constexpr int64_t kOutputs = 64;

  void run() const {
    if (outputs == 0) return;
    if (in_columns()) return columns();
    if (long_outputs()) return;
    const int64_t width = r.kept > 0 ? r.kept_size[r.kept - 1] : 1;
    const int64_t step = r.kept > 0 ? r.kept_stride[r.kept - 1] : 0;
    parallel_chunks(outputs, kOutputs, outputs * elements > 2 * kGrain,
                    [&](int64_t o, int64_t end) {
                      for (int64_t n; o < end; o += n) {
                        n = smaller(end - o, width - o % width);
                        row(o, n, in_at(o), step);
                      }
                    });
  }
};

/// Contiguous rows of at most kPiece elements, for programs over rows.
static_assert(kLongestRow <= kPiece);
template <class Op, class T>
void reduce_rows(const char* x, int64_t n, int64_t rows, char* out, const double* param) {
  const op::ReduceCall call{double(n), param};
  const StateOf<Op, T> start = Op::template identity<StateOf<Op, T>>();
  for (int64_t i = 0; i < rows; ++i, x += n * int64_t(sizeof(T))) {
    const auto row = Fast<Op, T>::run(reinterpret_cast<const T*>(x), n, 0, param);
    reinterpret_cast<T*>(out)[i] =
        math::convert<T>(Op::template finish<T>(Op::combine(start, row), call));
  }
}

// ---- tables -------------------------------------------------------------------------------------

struct LoopsByDtype {
  using Loop = const ReduceLoops*;
  template <class Op, class T> static constexpr Loop of() {
    if constexpr (!op::accepts<T>(Op::info.takes)) return nullptr;
    else return &Reducer<Op, T>::loops;
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
  const Reduce r = collapsed(call);
  ReducedWalk{r, *op::loop_of<LoopsByDtype>(r.op, compute_dtype(r.dtype), op::Reductions{}),
              count(r.kept, r.kept_size), count(r.reduced, r.reduced_size)}
      .run();
}

}  // namespace MT_ISA
}  // namespace mt
