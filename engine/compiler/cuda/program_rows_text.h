// program_rows_text.h -- the CUDA C of expression programs by rows: one team of threads for each row
//
// The values of a program are in levels: those of a level depend on the reductions of earlier
// levels. A team makes one pass over its row for each level: it computes elements, reduces them,
// and stores results. Elements that a later level reads stay in registers; if they do not fit, each
// level reads the inputs and recomputes what it needs. The mapping of elements to threads, and so
// the order of reductions, depends only on the length of the row, the dtype and the program.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/compiler/cuda/program_text.h"
#include "kernels/table.h"
#include "kernels/view.h"

namespace mt::rows {

// ---- levels -----------------------------------------------------------------------------------------------

template <class Op> bool reduces(const Instruction& c) { return c.which == op::reduction_id<Op>; }
/// The number of passes of a reduction over the row.
inline int passes_of(const Instruction& c) {
  return reduces<op::LogSumExp>(c) || reduces<op::Var>(c) ? 2 : 1;
}

struct Levels {
  std::vector<int> level;  // of a value: an element is computed in it, a row is known before
  std::vector<int> last;   // the last level that reads it
  int count = 0;
  int elements = 0;  // operations on elements
  int held = 0;      // the maximum number of elements that are kept from one level to the next

  explicit Levels(const Program& p) : level(p.count, 0), last(p.count, 0) {
    const auto reads = [&](int v, int at) { last[v] = std::max(last[v], at); };
    for (int i = 0; i < p.count; ++i) {
      const Instruction& c = p.code[i];
      int& own = level[i];
      for (int k = 0; k < 3 && c.in[k] >= 0; ++k) own = std::max(own, level[c.in[k]]);
      for (int k = 0; k < 3 && c.in[k] >= 0; ++k)
        reads(c.in[k], own + (c.op == kReduce ? passes_of(c) - 1 : 0));
      if (c.op == kReduce) own += passes_of(c);
      elements += c.op >= 0 && !c.is_row;
      count = std::max(count, own + 1);
    }
    for (int k = 0; k < p.outputs; ++k) reads(p.output[k], level[p.output[k]]);
    for (int l = -1; l < count; ++l) {
      int across = 0;
      for (int i = 0; i < p.count; ++i)
        across += is_held(p, i) && last[i] > l && (is_input(p, i) || level[i] <= l);
      held = std::max(held, across);
    }
  }
  static bool is_input(const Program& p, int i) { return p.code[i].op == kInput; }
  /// Whether a value is an element that a later level reads, or an input that is read at the start.
  bool is_held(const Program& p, int i) const {
    return !p.code[i].is_row && (is_input(p, i) || last[i] > level[i]);
  }
};

// ---- the mapping of threads to rows -------------------------------------------------------------------------

constexpr int kBlock = 256;  // threads of a block with several teams

/// The parameters of a kernel.
struct TeamForm {
  int team;   // threads per row, a power of 2
  int each;   // elements per thread in one iteration
  int run;    // how many of them are contiguous
  bool held;  // these are the whole row
  bool full;  // every thread has this many
  int ndim;   // the number of dimensions of the rows
  uint64_t dense,
      wide;  // operands with contiguous elements; those that allow loads of `run`

  int rows() const { return team > 32 ? 1 : kBlock / team; }  // per block
  int threads() const { return team * rows(); }
};

/// The registers, in words, that a thread of such a team has for elements.
inline int room_of(int team) { return team == 1024 ? 40 : team == 512 ? 80 : 160; }

/// The number of contiguous elements per thread.
inline int run_for(Dtype dtype, int64_t n) {
  const int most = int(16 / item_size(dtype));
  return n % most == 0 && n >= 32 * most ? most : 1;
}

/// Chooses the team for rows of n elements, and the elements of each of its threads.
inline void share_row(TeamForm& f, const Program& p, Dtype dtype, int64_t n) {
  const Levels levels(p);
  const int words = int(item_size(compute_dtype(dtype))) / 4;
  const auto each = [&](int team) { return int(ceil_div(n, team * f.run)) * f.run; };
  const auto held = [&](int team) {
    return each(team) * words * levels.held <= room_of(team) &&
           each(team) * levels.elements <= 4096;  // unrolled: limits compile time
  };
  int team = 1;
  while (team < 32 && team < n) team *= 2;
  while (team < 1024 && each(team) * words > (team <= 32 ? 16 : 8)) team *= 2;
  f.team = team;
  while (f.team < 1024 && !held(f.team)) f.team *= 2;
  f.held = held(f.team);
  if (!f.held) f.team = team;
  f.each = f.held ? each(f.team) : f.run;
  f.full = n % (f.team * f.each) == 0;
}

// ---- the text -----------------------------------------------------------------------------------------------

constexpr char kTeams[] = R"(template <int N, class S, class Join>
__device__ inline S across(S s, Join join) {
#pragma unroll
  for (int by = N / 2; by > 0; by /= 2) s = join(s, __shfl_xor_sync(~0u, s, by));
  return s;
}
struct Adds {
  __device__ inline double operator()(double a, double b) const { return a + b; }
};
)";

/// Code for the offsets of the operands at position `i`, `at0`, `at1`, ..: from the sizes and
/// strides of a `Run r` with `ndim` dimensions.
inline std::string offsets_text(int ndim, int operands) {
  if (ndim == 0) return "";
  std::string s = "  long long rest = i";
  for (int k = 0; k < operands; ++k) s += fmt::format(", at{} = 0", k);
  s += ";\n";
  for (int d = ndim - 1; d >= 0; --d) {
    s +=
        d > 0
            ? fmt::format(
                  "  {{ const long long next = rest / r.size[{0}], p = rest - next * r.size[{0}]; rest = next;",
                  d)
            : std::string("  { const long long p = rest;");
    for (int k = 0; k < operands; ++k) s += fmt::format(" at{0} += p * r.stride[{0}][{1}];", k, d);
    s += " }\n";
  }
  return s;
}

class RowsText {
 public:
  RowsText(const Program& p, Dtype dtype, const TeamForm& form)
      : p_(p),
        f_(form),
        levels_(p),
        operations_(p, compute_dtype(dtype)),
        real_(type_text(dtype, false)),
        stored_(stored_text(dtype, false)),
        dtype_(dtype) {}

  std::string text() {
    std::string body = begin();
    for (int l = 0; l < levels_.count; ++l) body += rows_values(l) + pass(l) + joins(l);
    for (int k = 0; k < p_.outputs; ++k)
      if (p_.code[p_.output[k]].is_row)
        body += fmt::format("  if (t == 0{}) p{}[0] = x{};\n", there(), k, p_.output[k]);
    if (!operations_.complete() || !known_) return "";
    const int operands = p_.outputs + p_.inputs;
    return program_head(dtype_) + kTeams + operations_.functions() + extremes_ +
           fmt::format("struct __align__({}) Pack {{ {} v[{}]; }};\n",
                       f_.run * int(item_size(dtype_)), stored_, f_.run) +
           fmt::format(
               "struct Run {{ long long rows, n; void* data[{0}]; double number[{1}]; long long "
               "step[{0}], size[{2}], stride[{0}][{2}]; }};\n",
               operands, std::max(p_.numbers, 1), f_.ndim) +
           fmt::format("extern \"C\" __global__ void __launch_bounds__({}) mt_program(Run r) {{\n",
                       f_.threads()) +
           body + "}\n";
  }

 private:
  const char* there() const { return f_.rows() > 1 ? " && there" : ""; }
  bool is_element(int i) const { return !p_.code[i].is_row; }

  /// The row of the team, the addresses of its operands, and its elements in registers.
  std::string begin() {
    std::string s;
    if (f_.rows() == 1) {
      s += "  const int t = threadIdx.x;\n  const long long i = blockIdx.x;\n";
    } else {
      s += fmt::format("  const int t = threadIdx.x % {};\n", f_.team) +
           fmt::format("  const long long own = (long long)blockIdx.x * {} + threadIdx.x / {};\n",
                       f_.rows(), f_.team) +
           "  const bool there = own < r.rows;\n  const long long i = there ? own : 0;\n";
    }
    s += offsets_text(f_.ndim, p_.outputs + p_.inputs);
    for (int k = 0; k < p_.outputs + p_.inputs; ++k)
      s += fmt::format("  {0}* const p{1} = ({0}*)r.data[{1}] + at{1};\n",
                       k < p_.outputs ? stored_text(dtype_, p_.code[p_.output[k]].is_bool)
                                      : fmt::format("const {}", stored_),
                       k);
    for (int i = 0; f_.held && i < p_.count; ++i) {
      if (!levels_.is_held(p_, i)) continue;
      s += fmt::format("  {} h{}[{}];\n", type_text(dtype_, p_.code[i].is_bool), i, f_.each);
      if (p_.code[i].op == kInput) s += loads(i);
    }
    return s;
  }
  /// Loads the elements of an input for this thread.
  std::string loads(int i) const {
    const int k = p_.outputs + p_.code[i].which;
    std::string s = loop(f_.wide >> k & 1, true);
    const char* const guard = f_.full ? "" : "in ? ";
    if (f_.wide >> k & 1) {
      s += fmt::format("    const Pack w = {}*(const Pack*)(p{} + at){};\n", guard, k,
                       f_.full ? "" : " : Pack{}") +
           fmt::format("#pragma unroll\n    for (int v = 0; v < {}; ++v) h{}[k + v] = w.v[v];\n",
                       f_.run, i);
    } else {
      s += fmt::format("    h{}[k] = {}({})p{}[{}]{};\n", i, guard, real_, k, place(k),
                       f_.full ? "" : " : 0");
    }
    return s + "  }\n";
  }
  std::string place(int k) const {
    return f_.dense >> k & 1 ? "at" : fmt::format("at * r.step[{}]", k);
  }
  /// The head of a loop over the elements of a thread, or over its packs of them; `places`: the
  /// body uses their positions.
  std::string loop(bool packs, bool places) const {
    std::string at = f_.run == 1 ? fmt::format("k * {} + t", f_.team)
                     : packs     ? fmt::format("(k / {} * {} + t) * {}", f_.run, f_.team, f_.run)
                             : fmt::format("(k / {0} * {1} + t) * {0} + k % {0}", f_.run, f_.team);
    if (!f_.held) at = "base + " + at;
    return fmt::format("#pragma unroll\n  for (int k = 0; k < {}; k += {}) {{\n", f_.each,
                       packs ? f_.run : 1) +
           (places || !f_.full ? fmt::format("    const int at = {};\n", at) : "") +
           (f_.full ? "" : "    const bool in = at < r.n;\n");
  }

  /// The row values that are known before level l.
  std::string rows_values(int l) {
    std::string s;
    for (int i = 0; i < p_.count; ++i) {
      const Instruction& c = p_.code[i];
      if (!c.is_row || c.op == kReduce || levels_.level[i] != l) continue;
      if (c.op == kInput)
        s += fmt::format("  const {} x{} = p{}[0];\n", real_, i, p_.outputs + c.which);
      else s += operations_.line(i, [](int v) { return fmt::format("x{}", v); });
    }
    return s;
  }

  /// The elements that level l computes: its own, or all that its reductions and results need.
  std::vector<char> computed(int l) const {
    std::vector<char> wanted(p_.count, 0);
    for (int i = 0; i < p_.count; ++i) {
      if (f_.held) wanted[i] = is_element(i) && levels_.level[i] == l;
      else if (part_at(i, l) >= 0) wanted[p_.code[i].in[0]] = 1;
    }
    for (int k = 0; k < p_.outputs; ++k)
      if (stores(k, l)) wanted[p_.output[k]] = 1;
    for (int i = p_.count - 1; !f_.held && i >= 0; --i)
      for (int v : p_.code[i].in)
        if (v >= 0 && wanted[i] && is_element(v)) wanted[v] = 1;
    return wanted;
  }
  bool stores(int k, int l) const {
    return is_element(p_.output[k]) && levels_.level[p_.output[k]] == l;
  }
  /// The pass of reduction i that runs in level l; -1: none.
  int part_at(int i, int l) const {
    const Instruction& c = p_.code[i];
    if (c.op != kReduce) return -1;
    const int part = l - levels_.level[i] + passes_of(c);
    return part < passes_of(c) ? part : -1;
  }

  /// The pass of level l over the row.
  std::string pass(int l) {
    const std::vector<char> wanted = computed(l);
    std::string before, loads_again, body;
    const auto operand = [&](int v) {
      const bool local = is_element(v) && p_.code[v].op != kInput && wanted[v];
      return is_element(v) && !local ? fmt::format("h{}[k]", v) : fmt::format("x{}", v);
    };
    for (int i = 0; i < p_.count; ++i) {
      if (!wanted[i] || p_.code[i].op == kInput) {
        if (!f_.held && wanted[i])
          loads_again += fmt::format("  {} h{}[{}];\n", real_, i, f_.each) + loads(i);
        continue;
      }
      body += "  " + operations_.line(i, operand);
      if (f_.held && levels_.is_held(p_, i)) body += fmt::format("    h{0}[k] = x{0};\n", i);
    }
    for (int i = 0; i < p_.count; ++i)
      if (const int part = part_at(i, l); part >= 0) {
        before +=
            fmt::format("  {} s{}_{} = {};\n", state_type(i, part), i, part, identity(i, part));
        body += (f_.full ? "    " : "    if (in) ") + enter(i, part, operand(p_.code[i].in[0]));
      }
    bool writes = false;
    for (int k = 0; k < p_.outputs; ++k) {
      if (!stores(k, l)) continue;
      writes = true;
      const std::string x = operand(p_.output[k]);
      if (f_.wide >> k & 1) before += fmt::format("  Pack o{};\n", k);
      body += f_.wide >> k & 1
                  ? store_wide(k, x)
                  : fmt::format("    {}p{}[{}] = {};\n", store_guard(), k, place(k), x);
    }
    if (body.empty()) return "";
    std::string s = loads_again + loop(false, writes) + body + "  }\n";
    if (!f_.held)
      s = fmt::format("  for (int base = 0; base < r.n; base += {}) {{\n", f_.team * f_.each) + s +
          "  }\n";
    return before + s;
  }
  std::string store_guard(const char* more = "") const {
    std::string all = more;
    if (!f_.full) all += all.empty() ? "in" : " && in";
    if (f_.rows() > 1) all += all.empty() ? "there" : " && there";
    return all.empty() ? "" : "if (" + all + ") ";
  }
  std::string store_wide(int k, const std::string& x) const {
    const std::string last = fmt::format("k % {} == {}", f_.run, f_.run - 1);
    return fmt::format("    o{}.v[k % {}] = {};\n", k, f_.run, x) +
           fmt::format("    {0}*(Pack*)(p{1} + at - {2}) = o{1};\n", store_guard(last.c_str()), k,
                       f_.run - 1);
  }

  // ---- reductions: a state for each pass, such as `s7_0`, and its result

  const char* state_type(int i, int part) const { return is_extreme(i, part) ? real_ : "double"; }
  bool is_extreme(int i, int part) const {
    const Instruction& c = p_.code[i];
    return reduces<op::Amax>(c) || reduces<op::Amin>(c) || (reduces<op::LogSumExp>(c) && part == 0);
  }
  std::string identity(int i, int part) const {
    if (!is_extreme(i, part)) return "0";
    return number_text(
        reduces<op::Amin>(p_.code[i]) ? math::highest<double>() : math::lowest<double>(),
        compute_dtype(dtype_));
  }
  /// The function that combines two states.
  std::string join_of(int i, int part) {
    if (!is_extreme(i, part)) return "Adds";
    const bool least = reduces<op::Amin>(p_.code[i]);
    const char* const name = least ? "Least" : "Most";
    if (extremes_.find(name) == std::string::npos) {
      extremes_ += fmt::format(
          "struct {0} {{\n  __device__ inline {1} operator()({1} a, {1} b) const {{ return {2}(a, b); }}\n}};\n",
          name, real_, operations_.function_of(least ? op::id<op::Minimum> : op::id<op::Maximum>));
    }
    return name;
  }
  std::string enter(int i, int part, const std::string& x) {
    const Instruction& c = p_.code[i];
    if (is_extreme(i, part))
      return fmt::format("s{0}_{1} = {2}()(s{0}_{1}, {3});\n", i, part, join_of(i, part), x);
    if (part == 0) return fmt::format("s{}_0 += (double){};\n", i, x);
    if (reduces<op::Var>(c))
      return fmt::format("s{0}_1 += ((double){1} - m{0}) * ((double){1} - m{0});\n", i, x);
    return fmt::format("s{0}_1 += (double){1}({2} - m{0});\n", i,
                       operations_.function_of(op::id<op::Exp>), x);
  }
  /// The result of pass `part` of reduction i.
  std::string result(int i, int part) {
    const Instruction& c = p_.code[i];
    if (reduces<op::Sum>(c) || reduces<op::Amax>(c) || reduces<op::Amin>(c))
      return fmt::format("  const {0} x{1} = ({0})s{1}_0;\n", real_, i);
    if (reduces<op::LogSumExp>(c))
      return part == 0
                 ? fmt::format("  const {0} m{1} = s{1}_0 - s{1}_0 == 0 ? s{1}_0 : 0;\n", real_, i)
                 : fmt::format("  const {0} x{1} = ({0})((double)m{1} + log(s{1}_1));\n", real_, i);
    if (reduces<op::Var>(c))
      return part == 0 ? fmt::format("  const double m{0} = s{0}_0 / (double)r.n;\n", i)
                       : fmt::format(
                             "  const {0} x{1} = ({0})(s{1}_1 / (r.n > {2} ? r.n - {2} : 0.0));\n",
                             real_, i, number_text(c.constant, Dtype::f64));
    return known_ = false, "";
  }

  /// Reduces the states of level l over the threads of the team.
  std::string joins(int l) {
    std::string shared, all, results;
    const int warps = f_.team / 32;
    for (int i = 0; i < p_.count; ++i) {
      const int part = part_at(i, l);
      if (part < 0) continue;
      const std::string s = fmt::format("s{}_{}", i, part), join = join_of(i, part) + "()";
      shared += fmt::format("  {} = across<{}>({}, {});\n", s, std::min(f_.team, 32), s, join);
      if (warps > 1) {
        shared += fmt::format("  __shared__ {} of_{}[{}];\n", state_type(i, part), s, warps) +
                  fmt::format("  if (t % 32 == 0) of_{0}[t / 32] = {0};\n", s);
        all += fmt::format("  {0} = across<{1}>(of_{0}[t % {1}], {2});\n", s, warps, join);
      }
      results += result(i, part);
    }
    if (warps > 1 && !shared.empty()) shared += "  __syncthreads();\n";
    return shared + all + results;
  }

  const Program& p_;
  const TeamForm& f_;
  const Levels levels_;
  OperationText operations_;
  const char *const real_, *const stored_;
  const Dtype dtype_;
  std::string extremes_;
  bool known_ = true;
};

}  // namespace mt::rows
