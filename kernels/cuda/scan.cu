// scan.cu -- the scan verb on CUDA: sums, products and extremes so far
//
// A team of threads goes along a line, each thread joining a few neighbours. Where there are few
// lines, each is cut into parts: their totals are found first, then what comes before each part,
// then the parts are scanned. The cuts depend on the shape alone. Floats are summed in double.
#include "kernels/cuda/load.h"
#include "kernels/cuda/team.h"
#include "kernels/device.h"
#include "kernels/table.h"
#include "kernels/verbs.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kMostParts =
    8 * cuda::kThreads;  // enough for every processor; a block joins those of a line
constexpr int64_t kLeastPart = 2048;

/// What the walk along lines asks of a struct.
template <class Op, class Element> struct Rule {
  using T = Element;
  using State = op::StateOf<Op, T>;
  static __device__ State nothing() { return Op::template identity<State>(); }
  __device__ State operator()(const State& a, const State& b) const { return Op::combine(a, b); }
  static __device__ void write(const Scan& s, int64_t at, int64_t i, const State& state) {
    static_cast<T*>(s.out)[at] =
        T(Op::template finish<T>(state, op::ReduceCall{double(i + 1), s.param}));
    if constexpr (Op::needs_index) s.index[at] = Op::index(state);
  }
};

/// `parts` of `part` elements to a line; `state` (lines x parts) holds each part's total, then what
/// comes before it. Null: the lines are whole.
struct Job {
  Scan s;
  int64_t lines, parts, part;
  void* state;
};

/// The elements [from, to) of a line, whose first one lies at `in_at`, after `state`; returns what all
/// come to.
template <class Op, class T, class Team>
__device__ op::StateOf<Op, T> walk(const Scan& s, const Team& team, int64_t in_at, int64_t out,
                                   int64_t from, int64_t to, op::StateOf<Op, T> state, bool write) {
  using State = op::StateOf<Op, T>;
  constexpr int each = Team::kLines == cuda::kThreads ? 1 : 4;
  using Elements = cuda::Group<T, each>;
  const Rule<Op, T> join;
  const State nothing = Rule<Op, T>::nothing();
  const T* const x = static_cast<const T*>(s.in) + in_at;
  constexpr bool kCanGroup = each > 1 && sizeof(Elements) <= 16;
  const bool grouped = kCanGroup && s.lines.in_step == 1 &&
                       reinterpret_cast<uintptr_t>(x + from) % sizeof(Elements) == 0;
  for (int64_t base = from; base < to; base += int64_t(team.size()) * each) {
    const int64_t first = base + int64_t(team.number()) * each;
    State mine[each], sum = nothing;
    Elements in;
    const bool whole = grouped && first + each <= to;
    if constexpr (kCanGroup) {
      if (whole) in = cuda::load_group<Elements>(x + first);
    }
    for (int k = 0; k < each && !whole; ++k)
      in.v[k] = first + k < to ? x[(first + k) * s.lines.in_step] : T(0);
    for (int k = 0; k < each; ++k) {
      if (first + k < to) sum = join(sum, op::enter<Op, State>(in.v[k], first + k, s.param));
      mine[k] = sum;
    }
    const cuda::Scanned<State> scanned = team.scan(sum, nothing, join);
    if (write) {
      const State before = join(state, scanned.before);
      for (int k = 0; k < each; ++k)
        if (first + k < to)
          Rule<Op, T>::write(s, out + (first + k) * s.lines.out_step, first + k,
                             join(before, mine[k]));
    }
    state = join(state, scanned.all);
  }
  return state;
}

/// The parts of all lines: `write` false finds their totals.
template <class Op, class T, class Team>
__global__ void scan_parts(const __grid_constant__ Job j, bool write) {
  using State = op::StateOf<Op, T>;
  const Team team;
  const AlongDim& l = j.s.lines;
  State* const states = static_cast<State*>(j.state);
  for (const int64_t p : team.lines(j.lines * j.parts)) {
    const int64_t line = p / j.parts, from = (p - line * j.parts) * j.part;
    const State start = states && write ? states[p] : Rule<Op, T>::nothing();
    const State all = walk<Op, T>(j.s, team, offset_of(line, l.ndim, l.size, l.in_stride),
                                  offset_of(line, l.ndim, l.size, l.out_stride), from,
                                  smaller(l.n, from + j.part), start, write);
    if (!write && team.number() == 0) states[p] = all;
  }
}

/// Of each line, from its parts' totals to what comes before them.
template <class Op, class T> __global__ void join_parts(const __grid_constant__ Job j) {
  using State = op::StateOf<Op, T>;
  const cuda::Block team;
  for (const int64_t line : team.lines(j.lines)) {
    State* const states = static_cast<State*>(j.state) + line * j.parts;
    const Rule<Op, T> join;
    // Neighbouring parts are a thread's.
    const int64_t each = (j.parts + team.size() - 1) / team.size(), from = team.number() * each,
                  to = smaller(j.parts, from + each);
    State mine = Rule<Op, T>::nothing();
    for (int64_t p = from; p < to; ++p) mine = join(mine, states[p]);
    State before = team.scan(mine, Rule<Op, T>::nothing(), join).before;
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
  int64_t* const stride[2] = {l.out_stride, l.in_stride};
  l.ndim = collapse(l.ndim, l.size, stride);
  j.lines = count(l.ndim, l.size), j.part = l.n;
  const bool apart = l.ndim > 0 && l.in_stride[l.ndim - 1] == 1 && l.out_stride[l.ndim - 1] == 1 &&
                     !(l.in_step == 1 && l.out_step == 1);
  const cuda::Teams teams = cuda::team_for(j.lines, l.n, apart);
  if (teams == cuda::Teams::alone)
    return cuda::launch_teams<cuda::Alone>("scan", scan_parts<Op, T, cuda::Alone>, j.lines, j,
                                           true);
  if (teams == cuda::Teams::warp)
    return cuda::launch_teams<cuda::Warp>("scan", scan_parts<Op, T, cuda::Warp>, j.lines, j, true);
  const auto kernel = scan_parts<Op, T, cuda::Block>;
  if (j.lines >= 512 || l.n < 2 * kLeastPart)
    return cuda::launch_teams<cuda::Block>("scan", kernel, j.lines, j, true);
  const int64_t parts = smaller(kMostParts, (l.n + kLeastPart - 1) / kLeastPart);
  j.part = (l.n + parts - 1) / parts, j.parts = (l.n + j.part - 1) / j.part;
  const cuda::Scratch scratch(size_t(j.lines * j.parts) * sizeof(State));
  j.state = scratch.as<void>();
  cuda::launch_teams<cuda::Block>("scan", kernel, j.lines * j.parts, j, false);
  cuda::launch_teams<cuda::Block>("scan", join_parts<Op, T>, j.lines, j);
  cuda::launch_teams<cuda::Block>("scan", kernel, j.lines * j.parts, j, true);
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
