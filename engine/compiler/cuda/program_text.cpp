// program_text.cpp -- translates the operations of expression programs to CUDA C device functions
#include "engine/compiler/cuda/program_text.h"

#include <cmath>
#include <cstring>

#include "engine/ops/ops.h"
#include "kernels/cpu/jit/lower.h"

namespace mt {

namespace {

constexpr char kHead[] = R"(typedef unsigned int word4;
typedef unsigned long long word8;
__device__ inline float as_float(word4 x) { return __builtin_bit_cast(float, x); }
__device__ inline double as_float(word8 x) { return __builtin_bit_cast(double, x); }
__device__ inline word4 as_word(float x) { return __builtin_bit_cast(word4, x); }
__device__ inline word8 as_word(double x) { return __builtin_bit_cast(word8, x); }
__device__ inline float power_of_2(float n) { return as_float(word4((int)n + 127) << 23); }
__device__ inline double power_of_2(double n) { return as_float(word8((long long)n + 1023) << 52); }
template <class T> __device__ inline T scale(T x, T n) {
  const T half = floor(n * T(0.5));
  return x * power_of_2(half) * power_of_2(n - half);
}
)";

using ir::LaneOp;

// ---- lane instructions as text ------------------------------------------------------------------------

/// The body of a device function from lane instructions: its operands are parameters a0, a1, ..
class LaneText {
 public:
  LaneText(const ir::LaneProgram& p, int outputs) : p_(p), outputs_(outputs) {}
  bool complete = true;  // every instruction so far has a C expression

  std::string body() {
    std::string s;
    for (int i = 0; i < int(p_.code.size()); ++i) {
      const ir::LaneInstruction& c = p_.code[i];
      if (c.op == LaneOp::constant || c.op == LaneOp::truth || c.op == LaneOp::number) continue;
      if (c.op == LaneOp::store || c.op == LaneOp::store_bool) {
        s += fmt::format("  return {};\n", c.op == LaneOp::store ? real(c.in[0]) : name(c.in[0]));
        continue;
      }
      s += fmt::format("  const {} v{} = {};\n", type(i), i, expression(c));
    }
    return s;
  }

 private:
  bool wide() const { return p_.item == 8; }
  const char* real_type() const { return wide() ? "double" : "float"; }
  const char* word_type() const { return wide() ? "word8" : "word4"; }
  bool is_word(int i) const {
    const ir::LaneInstruction& c = p_.code[i];
    if (c.op == LaneOp::select) return is_word(c.in[1]) || is_word(c.in[2]);
    return c.op >= LaneOp::iadd && c.op <= LaneOp::shr;
  }
  const char* type(int i) const {
    const ir::LaneInstruction& c = p_.code[i];
    return is_mask(c.op) ? "bool" : is_word(i) ? word_type() : real_type();
  }
  std::string name(int i) const {
    const ir::LaneInstruction& c = p_.code[i];
    return c.op == LaneOp::truth ? (c.bits ? "true" : "false") : fmt::format("v{}", i);
  }
  std::string real(int i) const {
    const ir::LaneInstruction& c = p_.code[i];
    if (c.op == LaneOp::constant) {
      const double x = wide() ? __builtin_bit_cast(double, c.bits)
                              : double(__builtin_bit_cast(float, uint32_t(c.bits)));
      if (std::isfinite(x)) {
        const std::string digits = wide() ? fmt::format("{:#.17g}", x) : fmt::format("{:#.9g}f", x);
        return x < 0 || std::signbit(x) ? "(" + digits + ")" : digits;
      }
    }
    return c.op == LaneOp::constant || is_word(i) ? fmt::format("as_float({})", word(i)) : name(i);
  }
  std::string word(int i) const {
    const ir::LaneInstruction& c = p_.code[i];
    if (c.op == LaneOp::constant)
      return fmt::format("{}({:#x}u{})", word_type(), c.bits, wide() ? "ll" : "");
    return is_word(i) ? name(i) : fmt::format("as_word({})", name(i));
  }
  /// The C expression of an instruction, or null if it has none: r0 stands for its first operand as a float, w0 as an
  /// unsigned integer, i0 as a signed one, m0 as a mask; # for its bits, F for the suffix of function names.
  const char* form_of(const ir::LaneInstruction& c) const {
    static constexpr const char* orders[] = {"r0 == r1", "r0 < r1",    "r0 <= r1",
                                             "r0 != r1", "!(r0 < r1)", "!(r0 <= r1)"};
    switch (c.op) {
      using enum LaneOp;
      case add: return "r0 + r1";
      case sub: return "r0 - r1";
      case mul: return "r0 * r1";
      case div: return "r0 / r1";
      case min: return "r0 < r1 ? r0 : r1";
      case max: return "r0 > r1 ? r0 : r1";
      case sqrt: return "sqrtF(r0)";
      case floor: return "floorF(r0)";
      case ceil: return "ceilF(r0)";
      case trunc: return "truncF(r0)";
      case rint: return "rintF(r0)";
      case inverse: return "1 / r0";
      case rsqrt: return "1 / sqrtF(r0)";
      case scale: return "scale(r0, r1)";
      case fma: {
        const bool minus_addend = c.bits & ir::kMinusAddend;
        if (c.bits & ir::kMinusProduct)
          return minus_addend ? "fmaF(-r0, r1, -r2)" : "fmaF(-r0, r1, r2)";
        return minus_addend ? "fmaF(r0, r1, -r2)" : "fmaF(r0, r1, r2)";
      }
      case iadd: return "w0 + w1";
      case isub: return "w0 - w1";
      case iand: return "w0 & w1";
      case ior: return "w0 | w1";
      case ixor: return "w0 ^ w1";
      case shl: return "w0 << #";
      case shr: return "w0 >> #";
      case compare: return orders[c.bits];
      case icompare: {
        const auto order = ir::IntOrder(c.bits);
        return order == ir::IntOrder::equal   ? "w0 == w1"
               : order == ir::IntOrder::below ? "w0 < w1"
                                              : "i0 < i1";
      }
      case mand: return "m0 && m1";
      case mor: return "m0 || m1";
      case mxor: return "m0 != m1";
      case mnot: return "!m0";
      case select: return is_word(c.in[1]) || is_word(c.in[2]) ? "m0 ? w1 : w2" : "m0 ? r1 : r2";
      default: return nullptr;  // a guard: the formula is only valid in a range
    }
  }
  std::string expression(const ir::LaneInstruction& c) {
    if (c.op == LaneOp::load || c.op == LaneOp::load_bool)
      return fmt::format("a{}", int(c.bits) - outputs_);
    const char* f = form_of(c);
    if (!f) return complete = false, "0";
    std::string s;
    for (; *f; ++f) {
      const int operand = std::strchr("rwim", *f) && f[1] >= '0' && f[1] <= '2' ? f[1] - '0' : -1;
      if (operand >= 0)
        s += *f++ == 'r' ? real(c.in[operand]) : integer_or_mask(f[-1], c.in[operand]);
      else if (*f == '#') s += std::to_string(c.bits);
      else if (*f != 'F') s += *f;
      else if (!wide()) s += 'f';
    }
    return s;
  }
  /// An operand as a signed integer (kind i), an unsigned one (w) or a mask (m).
  std::string integer_or_mask(char kind, int i) const {
    if (kind == 'i') return fmt::format("({})({})", wide() ? "long long" : "int", word(i));
    return kind == 'w' ? word(i) : name(i);
  }

  const ir::LaneProgram& p_;
  const int outputs_;
};

// ---- operations as device functions ---------------------------------------------------------------------

/// The CUDA library function for an operation whose lane instructions do not cover all inputs.
const char* library_function(std::string_view name) {
  static constexpr const char* known[] = {"sin",  "cos",  "tan",   "asin",  "acos",  "atan",
                                          "sinh", "cosh", "asinh", "acosh", "atanh", "erf",
                                          "erfc", "pow",  "atan2", "fmod",  "hypot", "lgamma"};
  for (const char* f : known)
    if (name == f) return f;
  return nullptr;
}

/// `__device__ float op_tanh(float a0) { .. }`, or empty. Bit k of `bools`: operand k is a bool.
std::string device_function(const Program& p, const Instruction& c, unsigned bools, Dtype dtype,
                            const std::string& function) {
  const OpRow& row = op_row(c.op);
  Instruction code[4];
  std::string parameters, arguments;
  for (int k = 0; k < row.inputs; ++k) {
    const bool is_bool = bools >> k & 1;
    code[k] = {kInput, is_bool, false, {-1, -1, -1}, -1, k, 0, 0};
    parameters += fmt::format("{}{} a{}", k ? ", " : "", type_text(dtype, is_bool), k);
    arguments += fmt::format("{}a{}", k ? ", " : "", k);
  }
  code[row.inputs] = {c.op, c.is_bool, false, {0, 1, 2}, -1, c.which, 0, 0};
  for (int k = row.inputs; k < 3; ++k) code[row.inputs].in[k] = -1;
  const int16_t output = int16_t(row.inputs);
  const Program one{code,  row.inputs + 1, row.inputs, 1, 0,       0,
                    false, &output,        p.params,   0, nullptr, 0};
  const std::string head = fmt::format("__device__ inline {} {}({}) {{\n",
                                       type_text(dtype, c.is_bool), function, parameters);
  ir::LaneProgram lanes;
  if (lower(one, dtype, lanes)) {
    LaneText text(lanes, 1);
    const std::string body = text.body();
    if (text.complete) return head + body + "}\n";
  }
  const char* const f = library_function(row.info->name);
  if (!f) return "";
  return head +
         fmt::format("  return {}{}({});\n}}\n", f, dtype == Dtype::f64 ? "" : "f", arguments);
}

}  // namespace

std::string program_head(Dtype dtype) { return std::string(kHead) + reduced_floats_text(dtype); }
const char* reduced_floats_text(Dtype dtype) {
  return is_reduced_float(dtype) ? kReducedFloats : "";
}
const char* stored_text(Dtype dtype, bool is_bool) {
  if (is_bool || !is_reduced_float(dtype)) return type_text(dtype, is_bool);
#define MT_TYPE(name, T, ...) "mt::" #T,
  static constexpr const char* kTypes[] = {MT_DTYPES(MT_TYPE)};
#undef MT_TYPE
  return kTypes[int(dtype)];
}
const char* type_text(Dtype dtype, bool is_bool) {
  return is_bool ? "bool" : dtype == Dtype::f64 ? "double" : "float";
}
std::string number_text(double x, Dtype dtype) {
  if (dtype == Dtype::f64)
    return fmt::format("as_float(word8({:#x}ull))", __builtin_bit_cast(uint64_t, x));
  return fmt::format("as_float(word4({:#x}u))", __builtin_bit_cast(uint32_t, float(x)));
}

std::string OperationText::function_of(int op, bool is_bool, int which, unsigned bools) {
  std::string& called = known_[{op, which, bools}];
  if (!called.empty()) return called;
  called = fmt::format("op_{}{}", op_row(op).info->name,
                       known_.size() > 1 ? fmt::format("_{}", known_.size()) : "");
  const Instruction c{int16_t(op), is_bool, false, {-1, -1, -1}, -1, which, 0, 0};
  const std::string f = device_function(p_, c, bools, dtype_, called);
  complete_ &= !f.empty();
  functions_ += f;
  return called;
}

std::string OperationText::value(const Instruction& c,
                                 const std::function<std::string(int)>& operand) {
  if (c.op == kNumber) return fmt::format("({})r.number[{}]", type_text(dtype_, false), c.which);
  if (c.op == kConstant && c.is_bool) return c.constant != 0 ? "true" : "false";
  if (c.op == kConstant) return number_text(c.constant, dtype_);
  unsigned bools = 0;
  std::string arguments;
  for (int k = 0; k < op_row(c.op).inputs; ++k) {
    bools |= unsigned(p_.code[c.in[k]].is_bool) << k;
    arguments += (k ? ", " : "") + operand(c.in[k]);
  }
  return function_of(c.op, c.is_bool, c.which, bools) + "(" + arguments + ")";
}

std::string OperationText::line(int i, const std::function<std::string(int)>& operand) {
  const Instruction& c = p_.code[i];
  return fmt::format("  const {} x{} = {};{}\n", type_text(dtype_, c.is_bool), i, value(c, operand),
                     c.line > 0 ? fmt::format("  // line {}", c.line) : "");
}

}  // namespace mt
