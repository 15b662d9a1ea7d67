// builder.cpp -- expression programs: constant folding, common subexpressions, dead code elimination
#include "engine/compiler/program/builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/compiler/program/value.h"
#include "engine/ops/ops.h"

namespace mt::ir {
namespace {

uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15;
  return h ^ h >> 29;
}

template <class Op> bool is(int op) { return op == op::id<Op>; }

/// Whether the operation gives a bool for operands that are numbers.
bool answers_bool(int op) { return op_row(op).answers_bool; }

template <class... Op> bool one_of(int op) { return ((op == op::id<Op>) || ...); }
/// The operations of Expression::is_integral.
bool keeps_integers(int op) {
  return answers_bool(op) ||
         one_of<op::Add, op::Sub, op::Mul, op::Neg, op::Where, op::Abs, op::Sign, op::Minimum,
                op::Maximum, op::Square, op::Relu, op::Remainder>(op);
}

/// A key that is equal for instructions that compute the same value.
std::array<uint64_t, 3> key_of(const Instruction& c) {
  return {uint64_t(uint16_t(c.op)) << 48 | uint64_t(uint16_t(c.in[0])) << 32 |
              uint64_t(uint16_t(c.in[1])) << 16 | uint16_t(c.in[2]),
          uint64_t(uint32_t(c.which)) << 32 | c.is_bool << 1 | c.is_row,
          std::bit_cast<uint64_t>(c.constant)};
}

Program program_of(const std::vector<Instruction>& code, const std::vector<int16_t>& outputs,
                   const std::vector<double>& params, int inputs, int numbers, uint64_t hash) {
  Program p{};
  p.code = code.data(), p.count = int(code.size());
  p.inputs = inputs, p.outputs = int(outputs.size()), p.numbers = numbers;
  p.output = outputs.data(), p.params = params.data(), p.hash = hash;
  return p;
}

}  // namespace

thread_local Builder* BuilderScope::current_ = nullptr;

int Builder::put(Instruction c) {
  const auto [at, is_new] = known_.try_emplace(key_of(c), count());
  if (!is_new) return saved_.shared += c.op >= 0, at->second;
  if (count() >= 32000) throw TooLarge("a compiled function of more than 32000 operations");
  c.line = line_, c.slot = -1;
  code_.push_back(c);
  return count() - 1;
}
int Builder::input(int which, bool is_row) {
  return put({kInput, false, is_row, {-1, -1, -1}, -1, which, 0, 0});
}
int Builder::number(int which) {
  return put({kNumber, false, true, {-1, -1, -1}, -1, which, 0, 0});
}
int Builder::constant(double x) {
  return put({kConstant, false, true, {-1, -1, -1}, -1, -1, 0, x});
}
int Builder::constant_bool(bool x) {
  return put({kConstant, true, true, {-1, -1, -1}, -1, -1, 0, double(x)});
}
int Builder::reduce(int reduction, int value, double param) {
  if (is_row(value)) return -1;
  const int number = as_number(value);
  return put({kReduce, false, true, {int16_t(number), -1, -1}, -1, reduction, 0, param});
}

std::optional<double> Builder::constant_of(int value) const {
  const Instruction& c = code_[value];
  return c.op == kConstant ? std::optional<double>(c.constant) : std::nullopt;
}
const double* Builder::params_of(int value) const {
  const int at = code_[value].op >= 0 ? code_[value].which : -1;
  return at < 0 ? nullptr : &params_[at];
}

int Builder::as_number(int value) {
  if (!is_bool(value)) return value;
  const int in[] = {value, constant(1), constant(0)};
  return add(op::id<op::Where>, in);
}

/// The value of an operation on constants, computed by the kernels of the CPU in float64.
int Builder::folded(int op, const int* in, int n, const double* params) {
  Map m{};
  double number[3], answer = 0;
  bool truth[3], answered = false;
  const OpRow& row = op_row(op);
  const bool bools = is_bool(in[n - 1]);
  m.op = op, m.part = 0, m.dtype = bools ? Dtype::b8 : Dtype::f64, m.inputs = n, m.ndim = 1;
  m.size[0] = 1;
  for (int k = 0; k < n; ++k) {
    number[k] = *constant_of(in[k]), truth[k] = number[k] != 0;
    m.data[k + 1] = is_bool(in[k]) ? static_cast<void*>(&truth[k]) : &number[k];
    m.stride[k + 1][0] = 1;
  }
  for (int k = 0; params && k < row.params; ++k) m.scalar[k] = params[k];
  const bool gives_bool = bools || row.answers_bool;
  m.data[0] = gives_bool ? static_cast<void*>(&answered) : &answer;
  m.stride[0][0] = 1;
  cpu_device().map(m);
  return gives_bool ? constant_bool(answered) : constant(answer);
}

/// x to a constant power for which the loops of pow have a fast path (kernels/cpu/simd/powers.h),
/// with the same operations; -1 if there is none.
int Builder::power(int x, double exponent) {
  const auto of = [&](int op, auto... in) {
    const int inputs[] = {in...};
    return add(op, inputs);
  };
  const auto times = [&](int a, int b) { return of(op::id<op::Mul>, a, b); };
  const auto inverse = [&](int a) { return of(op::id<op::Div>, constant(1), a); };
  if (exponent == 1) return x;
  if (exponent == 2) return times(x, x);
  if (exponent == 3) return times(times(x, x), x);
  if (exponent == 4) return times(times(x, x), times(x, x));
  if (exponent == -1) return inverse(x);
  if (exponent == -2) return times(inverse(x), inverse(x));
  if (std::abs(exponent) != 0.5) return -1;
  const int root = of(op::id<op::Add>, of(op::id<op::Sqrt>, x), constant(0));
  const int below = of(op::id<op::Eq>, x, constant(-math::kInfinity));
  return exponent > 0 ? of(op::id<op::Where>, below, constant(math::kInfinity), root)
                      : of(op::id<op::Where>, below, constant(0), inverse(root));
}

/// The existing value that an operation equals: x * 1, select(c, x, x); -1 if there is none.
int Builder::simplified(int op, const int* in, int n) {
  const auto constant = [&](int k, double x) {
    const auto c = k < n ? constant_of(in[k]) : std::nullopt;
    return c && *c == x && (x != 0 || !std::signbit(*c));
  };
  if (is<op::Mul>(op)) return constant(0, 1) ? in[1] : constant(1, 1) ? in[0] : -1;
  if (is<op::Div>(op)) return constant(1, 1) ? in[0] : -1;
  if (is<op::Sub>(op)) return constant(1, 0) ? in[0] : -1;
  if (is<op::Neg>(op) && instruction(in[0]).op == op) return instruction(in[0]).in[0];
  if (is<op::LogicalNot>(op) && is_bool(in[0]) && instruction(in[0]).op == op)
    return instruction(in[0]).in[0];
  if (is<op::Pow>(op)) {
    const auto exponent = constant_of(in[1]);
    return exponent ? power(in[0], *exponent) : -1;
  }
  if (is<op::Where>(op)) {
    if (in[1] == in[2]) return in[1];
    if (const auto c = constant_of(in[0])) return *c != 0 ? in[1] : in[2];
    if (!is_bool(in[1])) return -1;
    const auto yes = constant_of(in[1]), no = constant_of(in[2]);
    if (yes && no && *yes != 0) return in[0];
    if (yes && no) {
      const int of[] = {in[0]};
      return add(op::id<op::LogicalNot>, of);
    }
  }
  return -1;
}

int Builder::add(int op, const int* given, const double* params) {
  const OpRow& row = op_row(op);
  int in[3] = {-1, -1, -1};
  const bool logic =
      one_of<op::LogicalAnd, op::LogicalOr, op::LogicalXor, op::LogicalNot, op::Eq, op::Ne>(op);
  bool bools = is<op::Where>(op) || logic;
  for (int k = is<op::Where>(op); k < row.inputs; ++k) bools &= is_bool(given[k]);
  bool constants = true;
  for (int k = 0; k < row.inputs; ++k) {
    in[k] = bools || (row.mask_first && k == 0) ? given[k] : as_number(given[k]);
    constants &= constant_of(in[k]).has_value();
  }
  const int simple = simplified(op, in, row.inputs);
  if (simple >= 0) return ++saved_.simplified, simple;
  if (constants) return ++saved_.folded, folded(op, in, row.inputs, params);
  int which = -1;
  if (row.params > 0) {
    for (size_t at = 0; at < params_.size() && which < 0; at += op::kMaxParams)
      if (std::memcmp(params, &params_[at], sizeof(double) * size_t(row.params)) == 0)
        which = int(at);  // 0 and -0 differ
    if (which < 0) {
      which = int(params_.size());
      for (int k = 0; k < op::kMaxParams; ++k) params_.push_back(k < row.params ? params[k] : 0);
    }
  }
  bool same_in_row = true;
  for (int k = 0; k < row.inputs; ++k) same_in_row &= is_row(in[k]);
  return put({int16_t(op),
              row.answers_bool || bools,
              same_in_row,
              {int16_t(in[0]), int16_t(in[1]), int16_t(in[2])},
              -1,
              which,
              0,
              0});
}

std::vector<int> Builder::add(const Expression& e, const std::vector<int>& inputs) {
  const Program& p = e.program();
  std::vector<int> value(p.count, -1);
  const int before = line_;
  for (int i = 0; i < p.count; ++i) {
    const Instruction& c = p.code[i];
    line_ = c.line;
    int in[3] = {-1, -1, -1};
    for (int k = 0; k < 3; ++k)
      if (c.in[k] >= 0) in[k] = value[c.in[k]];
    value[i] = c.op == kInput    ? inputs[c.which]
               : c.op == kNumber ? number(c.which)
               : c.op == kReduce ? reduce(c.which, in[0], c.constant)
               : c.op == kConstant
                   ? (c.is_bool ? constant_bool(c.constant != 0) : constant(c.constant))
                   : add(c.op, in, c.which < 0 ? nullptr : p.params + c.which);
  }
  line_ = before;
  std::vector<int> results;
  for (int k = 0; k < p.outputs; ++k) results.push_back(value[p.output[k]]);
  return results;
}

// ---- the finished program -------------------------------------------------------------------------

namespace {

bool computes(const Instruction& c) { return c.op >= 0 || c.op == kReduce; }

/// The end of the elementwise part of a program by rows that begins at i; otherwise i + 1.
int part_end(const std::vector<Instruction>& code, int i) {
  const auto is_part = [&](int k) { return code[k].op >= 0 && !code[k].is_row; };
  int end = i + 1;
  while (is_part(i) && end < int(code.size()) && is_part(end)) ++end;
  return end;
}

/// Assigns each value a buffer from the part that computes it to the last part that reads it: a
/// part is an instruction, or in a program by rows the range of part_end, which runs as one.
/// Numbers and constants keep their buffers. Returns the number of buffers.
int assign_slots(std::vector<Instruction>& code, const std::vector<int16_t>& outputs,
                 bool by_rows) {
  const int n = int(code.size());
  const auto each_part = [&](const auto& f) {
    for (int i = 0, end; i < n; i = end) f(i, end = by_rows ? part_end(code, i) : i + 1);
  };
  std::vector<int> last(n, -1);  // the end of the last part that reads each value
  each_part([&](int i, int end) {
    for (; i < end; ++i)
      for (int v : code[i].in)
        if (v >= 0) last[v] = end;
  });
  for (int v : outputs) last[v] = n + 1;
  int slots = 0;
  for (Instruction& c : code)
    if (c.op == kConstant || c.op == kNumber) c.slot = int16_t(slots++);
  std::vector<int16_t> unused;
  each_part([&](int begin, int end) {
    const auto release = [&](const Instruction& c, bool same_kind) {
      for (int v : c.in) {
        if (v < 0 || last[v] != end || !computes(code[v])) continue;
        if (same_kind && code[v].is_bool != c.is_bool) continue;
        unused.push_back(code[v].slot), last[v] = -1;
      }
    };
    for (int i = begin; i < end; ++i) {
      Instruction& c = code[i];
      if (!computes(c)) continue;
      if (!by_rows) release(c, true);  // the result may overwrite an operand
      c.slot = int16_t(unused.empty() ? slots++ : unused.back());
      if (!unused.empty()) unused.pop_back();
    }
    for (int i = begin; i < end; ++i) release(code[i], false);
  });
  return slots;
}

/// The instructions in this order, with their operands and the outputs renumbered.
std::vector<Instruction> in_order(const std::vector<Instruction>& code,
                                  const std::vector<int>& order, std::vector<int16_t>& outputs) {
  std::vector<int16_t> place(code.size(), -1);
  std::vector<Instruction> made;
  for (int i : order) place[i] = int16_t(made.size()), made.push_back(code[i]);
  for (Instruction& c : made)
    for (int16_t& v : c.in)
      if (v >= 0) v = place[v];
  for (int16_t& v : outputs) v = place[v];
  return made;
}

struct Interned {
  std::mutex lock;
  std::map<std::vector<uint64_t>, std::unique_ptr<Expression>> all;  // by their complete contents
};
Interned& interned() {
  static auto* const kept = new Interned;  // programs are never freed
  return *kept;
}

}  // namespace

Builder::LiveCode Builder::live_code(const std::vector<int>& outputs) const {
  std::vector<char> live(code_.size(), 0);
  for (int v : outputs) live[v] = 1;
  for (size_t i = code_.size(); i-- > 0;)
    for (int v : code_[i].in)
      if (live[i] && v >= 0) live[v] = 1;
  std::vector<int> order;
  for (size_t i = 0; i < code_.size(); ++i)
    if (live[i]) order.push_back(int(i));
  LiveCode f{{}, {outputs.begin(), outputs.end()}};
  f.code = in_order(code_, order, f.outputs);
  return f;
}

/// The complete contents of a program as words.
std::vector<uint64_t> Builder::words_of(const LiveCode& f, int inputs, int numbers) const {
  std::vector<uint64_t> words{uint64_t(inputs), uint64_t(numbers), f.outputs.size()};
  for (int v : f.outputs) words.push_back(uint64_t(v));
  for (const Instruction& c : f.code) {
    for (uint64_t w : key_of(c)) words.push_back(w);
    words.push_back(uint64_t(c.line));
    for (int k = 0; c.op >= 0 && c.which >= 0 && k < op::kMaxParams; ++k)
      words.push_back(std::bit_cast<uint64_t>(params_[c.which + k]));
  }
  return words;
}

const Expression& Builder::intern(LiveCode f, int inputs, int numbers) const {
  if (inputs > kMaxProgramInputs || f.outputs.size() > kMaxProgramOutputs)
    throw TooLarge(
        fmt::format("a compiled function has {} tensors to read and {} to write; at most {} and {}",
                    inputs, f.outputs.size(), kMaxProgramInputs, kMaxProgramOutputs));
  Interned& known = interned();
  const std::vector<uint64_t> words = words_of(f, inputs, numbers);
  const std::lock_guard guard(known.lock);
  std::unique_ptr<Expression>& e = known.all[words];
  if (e) return *e;
  uint64_t hash = 0;
  for (uint64_t w : words) hash = mix(hash, w);
  e = std::make_unique<Expression>(std::move(f.code), std::move(f.outputs), params_, inputs,
                                   numbers, hash);
  return *e;
}

const Expression& Builder::finish(const std::vector<int>& outputs, int inputs, int numbers) const {
  return intern(live_code(outputs), inputs, numbers);
}
const Expression& Builder::finish(const std::vector<int>& outputs, std::vector<int>& inputs,
                                  std::vector<int>* numbers) const {
  LiveCode f = live_code(outputs);
  int count = 0;
  for (Instruction& c : f.code) {
    std::vector<int>* const list = c.op == kInput ? &inputs : c.op == kNumber ? numbers : nullptr;
    if (list) {
      list->push_back(c.which);
      c.which = int(list->size()) - 1;
    }
    if (c.op == kNumber) count = std::max(count, c.which + 1);
  }
  return intern(std::move(f), int(inputs.size()), count);
}

/// See Expression::single_op().
static int find_single_op(const std::vector<Instruction>& code, const std::vector<int16_t>& outputs,
                          int inputs) {
  if (outputs.size() != 1 || int(code.size()) != inputs + 1 || outputs[0] != inputs) return -1;
  const Instruction& last = code.back();
  if (last.op < 0 || last.which >= 0 || op_row(last.op).inputs != inputs) return -1;
  for (int k = 0; k < inputs; ++k)
    if (last.in[k] != k || code[k].op != kInput || code[k].which != k) return -1;
  return last.op;
}

Expression::Expression(std::vector<Instruction> code, std::vector<int16_t> outputs,
                       std::vector<double> params, int inputs, int numbers, uint64_t hash)
    : code_(std::move(code)),
      outputs_(std::move(outputs)),
      params_(std::move(params)) {
  bool by_rows = false;
  for (const Instruction& c : code_) by_rows |= c.op == kReduce || (c.op == kInput && c.is_row);
  if (by_rows) sort_by_rows();
  program_ = program_of(code_, outputs_, params_, inputs, numbers, hash);
  program_.by_rows = by_rows, program_.slots = assign_slots(code_, outputs_, by_rows);
  for (const Instruction& c : code_) {
    if (c.op >= 0) integral_ &= keeps_integers(c.op);
    if (c.op == kConstant) integral_ &= c.constant == std::floor(c.constant);
  }
  single_op_ = find_single_op(code_, outputs_, inputs);
  if (by_rows) find_segments();
}

/// Sorts the instructions by level, and in each level: values of rows, values of elements, reductions of these.
void Expression::sort_by_rows() {
  const size_t n = code_.size();
  std::vector<int> order(n), key(n, -1), level(n, 0);
  for (size_t i = 0; i < n; ++i) {
    const Instruction& c = code_[i];
    order[i] = int(i);
    for (int v : c.in)
      if (v >= 0) level[i] = std::max(level[i], level[v]);
    if (computes(c)) key[i] = 3 * level[i] + (c.op == kReduce ? 2 : c.is_row ? 0 : 1);
    if (c.op == kReduce) ++level[i];
  }
  std::ranges::stable_sort(order, [&](int a, int b) { return key[a] < key[b]; });
  code_ = in_order(code_, order, outputs_);
}

void Expression::find_segments() {
  for (int i = 0, end; i < int(code_.size()); i = end) {
    end = part_end(code_, i);
    if (code_[i].op >= 0 && !code_[i].is_row) add_segment(i, end);
  }
  program_.segment = segments_.data(), program_.segments = int(segments_.size());
}

void Expression::add_segment(int begin, int end) {
  SegmentCode part;
  std::vector<int16_t> place(code_.size(), -1);
  const auto inside = [&](int v) { return v >= begin && v < end; };
  const auto value = [&](int v) {
    if (place[v] >= 0) return place[v];
    Instruction c = code_[v];
    if (c.op != kConstant && c.op != kNumber) {
      c.op = kInput, c.which = int(part.in.size());
      c.in[0] = c.in[1] = c.in[2] = -1;
      part.in.push_back(int16_t(v));
    }
    place[v] = int16_t(part.code.size());
    part.code.push_back(c);
    return place[v];
  };
  for (int i = begin; i < end; ++i) {
    Instruction c = code_[i];
    for (int16_t& v : c.in)
      if (v >= 0) v = inside(v) ? place[v] : value(v);
    place[i] = int16_t(part.code.size());
    part.code.push_back(c);
  }
  std::vector<char> needed(code_.size(), 0);
  for (int i = 0; i < int(code_.size()); ++i)
    for (int v : code_[i].in)
      if (v >= 0 && !inside(i)) needed[v] = 1;
  for (int v : outputs_) needed[v] = 1;
  for (int i = begin; i < end; ++i)
    if (needed[i]) part.out.push_back(int16_t(i)), part.outputs.push_back(place[i]);
  if (part.in.size() > kMaxProgramInputs || part.out.size() > kMaxProgramOutputs) return;
  SegmentCode& kept = parts_.emplace_back(std::move(part));
  kept.program = program_of(kept.code, kept.outputs, params_, int(kept.in.size()), program_.numbers,
                            mix(program_.hash, uint64_t(begin) + 1));
  segments_.push_back({&kept.program, begin, end, kept.in.data(), kept.out.data()});
}

std::string text_of(const Program& p) {
  std::string text;
  for (int i = 0; i < p.count; ++i) {
    const Instruction& c = p.code[i];
    std::string line = fmt::format("%{} = ", i);
    if (c.op == kInput) line += fmt::format("{} {}", c.is_row ? "row input" : "input", c.which + 1);
    else if (c.op == kReduce) line += fmt::format("row {}", reduce_row(c.which).info->name);
    else if (c.op == kNumber) line += fmt::format("number {}", c.which + 1);
    else if (c.op == kConstant && c.is_bool) line += c.constant != 0 ? "true" : "false";
    else if (c.op == kConstant) line += fmt::format("{}", c.constant);
    else line += op_row(c.op).info->name;
    for (int k = 0; k < 3 && c.in[k] >= 0; ++k)
      line += fmt::format("{}%{}", k ? ", " : " ", c.in[k]);
    if (c.op >= 0 && c.which >= 0)
      for (int k = 0; k < op_row(c.op).params; ++k)
        line += fmt::format(", {}={}", op_row(c.op).info->params[k].name, p.params[c.which + k]);
    text += c.line > 0 ? fmt::format("{:<44} ; line {}\n", line, c.line) : line + "\n";
  }
  for (int k = 0; k < p.outputs; ++k)
    text += fmt::format("{}%{}", k ? ", " : "return ", p.output[k]);
  return text + "\n";
}

}  // namespace mt::ir
