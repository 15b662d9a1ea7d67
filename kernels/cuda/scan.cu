// scan.cu -- the scan verb on CUDA: cumulative sums, products and extremes
//
// A warp scans a line, and each of its threads combines a few consecutive elements. If there are
// few lines, each is split into parts: first the totals of the parts are computed, then the prefix
// of each part, then the scans. Splits depend only on the shape. Floats are summed in double.
#include "kernels/cuda/load.h"
#include "kernels/cuda/team.h"
#include "kernels/table.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kMaxParts = 4096;      // of all lines: enough warps for every multiprocessor
constexpr int64_t kPartMultiple = 1024;  // the size of a part is a multiple of this

/// The functions of a struct that the scan of lines uses.
template <class Op, class Element> struct Rule {
  using T = Element;
  using State = op::StateOf<Op, T>;
  static __device__ State identity() { return Op::template identity<State>(); }
  __device__ State operator()(const State& a, const State& b) const { return Op::combine(a, b); }
};

/// `parts` of `part` elements for each line; `state` (lines x parts) holds the total of each part,
/// then its prefix. Null: lines are not split.
struct Job {
  Scan s;
  int64_t lines, parts, part;
  void* state;
};

/// Scans the elements [from, to) of a line, whose first one is at `in` and `out`, after `state`; or
/// reduces them into it: from the end, so that the elements which the scan reads first are cached.
template <bool write, class Op, class T, class Team>
__device__ op::StateOf<Op, T> walk(const Scan& s, const Team& team, int64_t in, int64_t out,
                                   int64_t from, int64_t to, op::StateOf<Op, T> state) {
  using State = op::StateOf<Op, T>;
  constexpr bool alone = Team::kLines == cuda::kThreads;
  constexpr int each = alone ? 1 : sizeof(T) == 8 ? 2 : 4, rows = alone ? 1 : 4;
  const Rule<Op, T> join;
  const cuda::Access<const T, each> x(static_cast<const T*>(s.in) + in, s.lines.in_step, from);
  const cuda::Access<T, each> y(static_cast<T*>(s.out) + out, s.lines.out_step, from);
  const cuda::Access<int64_t, each> index(s.index + out, s.lines.out_step, from);
  const int64_t row = int64_t(team.size()) * each,
                steps = (to - from + rows * row - 1) / (rows * row);
  MT_ROLLED for (int64_t i = 0; i < steps; ++i) {
    const int64_t base = from + (write ? i : steps - 1 - i) * rows * row;
    cuda::Group<T, each> elements[rows];
    MT_UNROLLED for (int r = 0; r < rows; ++r) elements[r] =
        x.load(base + r * row + int64_t(team.number()) * each, to);
    MT_UNROLLED for (int turn = 0; turn < rows; ++turn) {
      const int r = write ? turn : rows - 1 - turn;
      if (base + r * row >= to) continue;
      const int64_t first = base + r * row + int64_t(team.number()) * each;
      const auto element = [&](int k) {
        return op::enter<Op, State>(elements[r].v[k], first + k, s.param);
      };
      State sum = Rule<Op, T>::identity();
      for (int k = 0; k < each; ++k)
        if (first + k < to) sum = join(sum, element(k));
      const cuda::PrefixAndTotal<State> scanned = team.scan(sum, Rule<Op, T>::identity(), join);
      if constexpr (!write) {
        state = join(scanned.all, state);
      } else {
        State so_far = join(state, scanned.before);
        cuda::Group<T, each> results;
        cuda::Group<int64_t, each> places;
        for (int k = 0; k < each; ++k) {
          so_far = join(so_far, element(k));
          const op::ReduceCall call{double(first + k + 1), s.param};
          results.v[k] = T(Op::template finish<T>(so_far, call));
          if constexpr (Op::needs_index) places.v[k] = Op::index(so_far);
        }
        y.store(first, to, results);
        if constexpr (Op::needs_index) index.store(first, to, places);
        state = join(state, scanned.all);
      }
    }
  }
  return state;
}

/// Processes the parts of all lines: without `write` it computes their totals.
template <bool write, class Op, class T, class Team>
__global__ void __launch_bounds__(cuda::kThreads, Op::needs_index ? 2 : 3)
    scan_parts(const __grid_constant__ Job j) {
  using State = op::StateOf<Op, T>;
  const Team team;
  const AlongDim& l = j.s.lines;
  State* const states = static_cast<State*>(j.state);
  for (const int64_t p : team.lines(j.lines * j.parts)) {
    const int64_t line = p / j.parts, from = (p - line * j.parts) * j.part;
    const State start = states && write ? states[p] : Rule<Op, T>::identity();
    const State all = walk<write, Op, T>(j.s, team, offset_of(line, l.ndim, l.size, l.in_stride),
                                         offset_of(line, l.ndim, l.size, l.out_stride), from,
                                         smaller(l.n, from + j.part), start);
    if (!write && team.number() == 0) states[p] = all;
  }
}

/// Computes for each line the prefixes of its parts from their totals.
template <class Op, class T> __global__ void join_parts(const __grid_constant__ Job j) {
  using State = op::StateOf<Op, T>;
  const cuda::Block team;
  for (const int64_t line : team.lines(j.lines)) {
    State* const states = static_cast<State*>(j.state) + line * j.parts;
    const Rule<Op, T> join;
    // Consecutive parts belong to one thread.
    const int64_t each = (j.parts + team.size() - 1) / team.size(), from = team.number() * each,
                  to = smaller(j.parts, from + each);
    State mine = Rule<Op, T>::identity();
    for (int64_t p = from; p < to; ++p) mine = join(mine, states[p]);
    State before = team.scan(mine, Rule<Op, T>::identity(), join).before;
    for (int64_t p = from; p < to; ++p) {
      const State own = states[p];
      states[p] = before;
      before = join(before, own);
    }
  }
}

template <class Op, class T> void run(const Scan& s) {
  using State = op::StateOf<Op, T>;
  Job j{s, 0, 1, 0, nullptr};
  AlongDim& l = j.s.lines;
  l = collapsed(l);
  j.lines = count(l.ndim, l.size), j.part = l.n;
  const bool apart = l.ndim > 0 && l.in_stride[l.ndim - 1] == 1 && l.out_stride[l.ndim - 1] == 1 &&
                     !(l.in_step == 1 && l.out_step == 1);
  if (cuda::team_for(j.lines, l.n, apart) == cuda::Teams::alone)
    return cuda::launch_teams<cuda::SingleThread>(
        "scan", scan_parts<true, Op, T, cuda::SingleThread>, j.lines, j);
  const int64_t parts = smaller(kMaxParts / j.lines, l.n / kPartMultiple);
  if (parts >= 2 && l.n >= 4 * kPartMultiple) {
    j.part = (l.n + parts * kPartMultiple - 1) / (parts * kPartMultiple) * kPartMultiple;
    j.parts = (l.n + j.part - 1) / j.part;
  }
  const cuda::Scratch scratch(j.parts > 1 ? size_t(j.lines * j.parts) * sizeof(State) : 0);
  j.state = scratch.as<void>();
  const auto start = [&](auto kernel) {
    cuda::launch_teams<cuda::Warp>("scan", kernel, j.lines * j.parts, j);
  };
  if (j.parts > 1) {
    start(scan_parts<false, Op, T, cuda::Warp>);
    cuda::launch_teams<cuda::Block>("scan", join_parts<Op, T>, j.lines, j);
  }
  start(scan_parts<true, Op, T, cuda::Warp>);
}

/// Bools are scanned as uint8.
struct Loops {
  using Loop = void (*)(const Scan&);
  template <class Op, class T> static constexpr Loop of() {
    if constexpr (!op::scans<Op, T>) return nullptr;
    else if constexpr (op::is_bool<T>) return run<Op, uint8_t>;
    else return run<Op, T>;
  }
};

}  // namespace

void scan(const Scan& s) {
  if (s.lines.n == 0 || count(s.lines.ndim, s.lines.size) == 0) return;
  op::loop_of<Loops>(s.op, s.dtype, op::Scans{})(s);
}

}  // namespace MT_ISA
}  // namespace mt
