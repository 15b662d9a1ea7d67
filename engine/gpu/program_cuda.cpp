// program_cuda.cpp -- expression programs on a GPU: CUDA C from the lane instructions, compiled and launched
#include "engine/gpu/program_cuda.h"

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "engine/gpu/launch.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/lower.h"
#include "kernels/view.h"

namespace mt {
namespace {

using ir::LaneOp;

// ---- lane instructions as text ------------------------------------------------------------------------

/// What stands before every kernel. Floats keep their bits through the casts.
constexpr char kBefore[] = R"(typedef unsigned int word4;
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

/// The body of a function of lanes: its operands are parameters a0, a1, ..
class LaneText {
 public:
  LaneText(const ir::LaneProgram& p, int outputs) : p_(p), outputs_(outputs) {}
  bool has_form = true;

  std::string body() {
    std::string s;
    for (int i = 0; i < int(p_.code.size()); ++i) {
      const ir::LaneInstruction& c = p_.code[size_t(i)];
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
    const ir::LaneInstruction& c = p_.code[size_t(i)];
    if (c.op == LaneOp::select) return is_word(c.in[1]) || is_word(c.in[2]);
    return c.op >= LaneOp::iadd && c.op <= LaneOp::shr;
  }
  const char* type(int i) const {
    const ir::LaneInstruction& c = p_.code[size_t(i)];
    return is_mask(c.op) ? "bool" : is_word(i) ? word_type() : real_type();
  }
  std::string name(int i) const {
    const ir::LaneInstruction& c = p_.code[size_t(i)];
    return c.op == LaneOp::truth ? (c.bits ? "true" : "false") : fmt::format("v{}", i);
  }
  std::string real(int i) const {
    const ir::LaneInstruction& c = p_.code[size_t(i)];
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
    const ir::LaneInstruction& c = p_.code[size_t(i)];
    if (c.op == LaneOp::constant)
      return fmt::format("{}({:#x}u{})", word_type(), c.bits, wide() ? "ll" : "");
    return is_word(i) ? name(i) : fmt::format("as_word({})", name(i));
  }
  /// What an instruction computes, in C: r0 is its first operand as a float, w0 as an integer, i0 as
  /// a signed one, m0 as a mask; # its bits, F the ending of a function's name. Null: there is none.
  const char* form_of(const ir::LaneInstruction& c) const {
    static constexpr const char* orders[] = {"r0 == r1", "r0 < r1",    "r0 <= r1",
                                             "r0 != r1", "!(r0 < r1)", "!(r0 <= r1)"};
    switch (c.op) {
      case LaneOp::add: return "r0 + r1";
      case LaneOp::sub: return "r0 - r1";
      case LaneOp::mul: return "r0 * r1";
      case LaneOp::div: return "r0 / r1";
      case LaneOp::min: return "r0 < r1 ? r0 : r1";
      case LaneOp::max: return "r0 > r1 ? r0 : r1";
      case LaneOp::sqrt: return "sqrtF(r0)";
      case LaneOp::floor: return "floorF(r0)";
      case LaneOp::ceil: return "ceilF(r0)";
      case LaneOp::trunc: return "truncF(r0)";
      case LaneOp::rint: return "rintF(r0)";
      case LaneOp::scale: return "scale(r0, r1)";
      case LaneOp::fma: {
        const bool minus_addend = c.bits & ir::kMinusAddend;
        if (c.bits & ir::kMinusProduct)
          return minus_addend ? "fmaF(-r0, r1, -r2)" : "fmaF(-r0, r1, r2)";
        return minus_addend ? "fmaF(r0, r1, -r2)" : "fmaF(r0, r1, r2)";
      }
      case LaneOp::iadd: return "w0 + w1";
      case LaneOp::isub: return "w0 - w1";
      case LaneOp::iand: return "w0 & w1";
      case LaneOp::ior: return "w0 | w1";
      case LaneOp::ixor: return "w0 ^ w1";
      case LaneOp::iandnot: return "~w0 & w1";
      case LaneOp::shl: return "w0 << #";
      case LaneOp::shr: return "w0 >> #";
      case LaneOp::compare: return orders[c.bits];
      case LaneOp::icompare: {
        const auto order = ir::IntOrder(c.bits);
        return order == ir::IntOrder::equal   ? "w0 == w1"
               : order == ir::IntOrder::below ? "w0 < w1"
                                              : "i0 < i1";
      }
      case LaneOp::mand: return "m0 && m1";
      case LaneOp::mor: return "m0 || m1";
      case LaneOp::mxor: return "m0 != m1";
      case LaneOp::mnot: return "!m0";
      case LaneOp::select:
        return is_word(c.in[1]) || is_word(c.in[2]) ? "m0 ? w1 : w2" : "m0 ? r1 : r2";
      default: return nullptr;  // a guard: the formula holds for a range alone
    }
  }
  std::string expression(const ir::LaneInstruction& c) {
    if (c.op == LaneOp::load || c.op == LaneOp::load_bool)
      return fmt::format("a{}", int(c.bits) - outputs_);
    const char* f = form_of(c);
    if (!f) return has_form = false, "0";
    std::string s;
    for (; *f; ++f) {
      const int operand = std::strchr("rwim", *f) && f[1] >= '0' && f[1] <= '2' ? f[1] - '0' : -1;
      if (operand >= 0) s += *f++ == 'r' ? real(c.in[operand]) : other(f[-1], c.in[operand]);
      else if (*f == '#') s += std::to_string(c.bits);
      else if (*f != 'F') s += *f;
      else if (!wide()) s += 'f';
    }
    return s;
  }
  std::string other(char kind, int i) const {
    if (kind == 'i') return fmt::format("({})({})", wide() ? "long long" : "int", word(i));
    return kind == 'w' ? word(i) : name(i);
  }

  const ir::LaneProgram& p_;
  const int outputs_;
};

// ---- operations as device functions ---------------------------------------------------------------------

/// The CUDA library's function for an operation whose formula has no lane instructions for all inputs.
const char* library_function(std::string_view name) {
  static constexpr const char* known[] = {"sin",  "cos",  "tan",   "asin",  "acos",  "atan",
                                          "sinh", "cosh", "asinh", "acosh", "atanh", "erf",
                                          "erfc", "pow",  "atan2", "fmod",  "hypot", "lgamma"};
  for (const char* f : known)
    if (name == f) return f;
  return nullptr;
}

/// `__device__ float op_tanh(float a0) { .. }`, or nothing.
std::string device_function(const Program& p, int i, Dtype dtype, const std::string& called) {
  const Instruction& c = p.code[i];
  const OpRow& row = op_row(c.op);
  Instruction code[4];
  const char* const real = dtype == Dtype::f64 ? "double" : "float";
  std::string parameters, arguments;
  for (int k = 0; k < row.inputs; ++k) {
    const bool is_bool = p.code[c.in[k]].is_bool;
    code[k] = {kInput, is_bool, false, {-1, -1, -1}, -1, k, 0, 0};
    parameters += fmt::format("{}{} a{}", k ? ", " : "", is_bool ? "bool" : real, k);
    arguments += fmt::format("{}a{}", k ? ", " : "", k);
  }
  code[row.inputs] = {c.op, c.is_bool, false, {0, 1, 2}, -1, c.which, 0, 0};
  for (int k = row.inputs; k < 3; ++k) code[row.inputs].in[k] = -1;
  const int16_t output = int16_t(row.inputs);
  const Program one{code,  row.inputs + 1, row.inputs, 1, 0,       0,
                    false, &output,        p.params,   0, nullptr, 0};
  const std::string head = fmt::format("__device__ inline {} {}({}) {{\n",
                                       c.is_bool ? "bool" : real, called, parameters);
  ir::LaneProgram lanes;
  if (lower(one, dtype, lanes)) {
    LaneText text(lanes, 1);
    const std::string body = text.body();
    if (text.has_form) return head + body + "}\n";
  }
  const char* const f = library_function(row.info->name);
  if (!f) return "";
  return head +
         fmt::format("  return {}{}({});\n}}\n", f, dtype == Dtype::f64 ? "" : "f", arguments);
}

std::string constant_text(const Instruction& c, Dtype dtype) {
  if (c.is_bool) return c.constant != 0 ? "true" : "false";
  if (dtype == Dtype::f64)
    return fmt::format("as_float(word8({:#x}ull))", __builtin_bit_cast(uint64_t, c.constant));
  return fmt::format("as_float(word4({:#x}u))", __builtin_bit_cast(uint32_t, float(c.constant)));
}

/// Where element i of operand k lies.
std::string place(int ndim, int k) {
  if (ndim == 0) return "i";
  return fmt::format("at{}", k);
}

std::string offsets(int ndim, int operands) {
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

}  // namespace

std::string cuda_text(const Program& p, Dtype dtype, int ndim) {
  const char* const real = dtype == Dtype::f64 ? "double" : "float";
  const int operands = p.outputs + p.inputs;
  std::string functions, body = offsets(ndim, operands);
  std::map<std::tuple<int, int, int>, std::string> known;
  for (int i = 0; i < p.count; ++i) {
    const Instruction& c = p.code[i];
    std::string value;
    if (c.op == kInput)
      value = fmt::format("((const {}*)r.data[{}])[{}]", real, p.outputs + c.which,
                          place(ndim, p.outputs + c.which));
    else if (c.op == kNumber) value = fmt::format("({})r.number[{}]", real, c.which);
    else if (c.op == kConstant) value = constant_text(c, dtype);
    else if (c.op == kReduce) return "";
    else {
      int bools = 0;
      for (int k = 0; k < op_row(c.op).inputs; ++k) bools |= int(p.code[c.in[k]].is_bool) << k;
      std::string& called = known[{c.op, c.which, bools}];
      if (called.empty()) {
        called = fmt::format("op_{}{}", op_row(c.op).info->name,
                             known.size() > 1 ? fmt::format("_{}", known.size()) : "");
        const std::string f = device_function(p, i, dtype, called);
        if (f.empty()) return "";
        functions += f;
      }
      value = called + "(";
      for (int k = 0; k < op_row(c.op).inputs; ++k)
        value += fmt::format("{}x{}", k ? ", " : "", c.in[k]);
      value += ")";
    }
    body += fmt::format("  const {} x{} = {};{}\n", c.is_bool ? "bool" : real, i, value,
                        c.line > 0 ? fmt::format("  // line {}", c.line) : "");
  }
  for (int k = 0; k < p.outputs; ++k)
    body +=
        fmt::format("  (({}*)r.data[{}])[{}] = x{};\n", p.code[p.output[k]].is_bool ? "bool" : real,
                    k, place(ndim, k), p.output[k]);
  std::string shape;
  if (ndim > 0)
    shape = fmt::format(" long long size[{}]; long long stride[{}][{}];", ndim, operands, ndim);
  return std::string(kBefore) + functions +
         fmt::format("struct Run {{ long long n; void* data[{}]; double number[{}];{} }};\n",
                     operands, p.numbers > 0 ? p.numbers : 1, shape) +
         "extern \"C\" __global__ void mt_program(Run r) {\n"
         "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
         "  if (i >= r.n) return;\n" +
         body + "}\n";
}

// ---- the launch -----------------------------------------------------------------------------------------

namespace {

/// The kernel for a program on a GPU, made at first use and kept; null: there is none.
const LoadedKernel* kernel_of(const Run& r, int ndim, const Device& device) {
  static std::mutex lock;
  static auto* const all = new std::map<std::tuple<const Program*, Dtype, int, const Device*>,
                                        std::optional<LoadedKernel>>;
  const std::lock_guard guard(lock);
  const auto [at, is_new] = all->try_emplace({r.program, r.dtype, ndim, &device});
  std::optional<LoadedKernel>& kernel = at->second;
  if (is_new && nvrtc_unavailable_reason().empty()) {
    CudaSource source;
    source.text = cuda_text(*r.program, r.dtype, ndim), source.name = "mt_program";
    source.options = {"--fmad=false"};
    source.origins.push_back({1, "a compiled function", 1});
    if (!source.text.empty()) {
      kernel = load_kernel(source, compile_cuda(source, modules_of(device)->arch), device,
                           "a compiled function");
      kernel->stays = true;
    }
  }
  return kernel ? &*kernel : nullptr;
}

}  // namespace

bool run_on_gpu(const Run& r, const Device& device) {
  const Program& p = *r.program;
  if (p.by_rows || (r.dtype != Dtype::f32 && r.dtype != Dtype::f64)) return false;
  const int used = p.outputs + p.inputs;
  int64_t size[kMaxDims], strides[kMaxProgramOperands][kMaxDims], *stride[kMaxProgramOperands];
  std::memcpy(size, r.size, sizeof(int64_t) * size_t(r.ndim));
  for (int k = 0; k < used; ++k) {
    stride[k] = strides[k];
    std::memcpy(strides[k], r.stride[k], sizeof(int64_t) * size_t(r.ndim));
  }
  const int64_t n = count(r.ndim, size);
  if (n == 0) return true;
  const int dims = collapse(r.ndim, size, stride, used);
  bool flat = dims <= 1;
  for (int k = 0; k < used; ++k) flat &= dims == 0 || strides[k][0] == 1;
  const int ndim = flat ? 0 : dims;
  KernelArguments one;
  std::vector<uint64_t>& argument = one.words;
  argument.push_back(uint64_t(n));
  for (int k = 0; k < used; ++k) argument.push_back(reinterpret_cast<uintptr_t>(r.data[k]));
  for (int k = 0; k < p.numbers; ++k)
    argument.push_back(__builtin_bit_cast(uint64_t, r.numbers[k]));
  if (p.numbers == 0) argument.push_back(0);
  for (int d = 0; d < ndim; ++d) argument.push_back(uint64_t(size[d]));
  for (int k = 0; k < used; ++k)
    for (int d = 0; d < ndim; ++d) argument.push_back(uint64_t(strides[k][d]));
  if (argument.size() * 8 > 4000) return false;  // CUDA's limit is 4096 bytes
  one.end();
  const LoadedKernel* const kernel = kernel_of(r, ndim, device);
  if (!kernel) return false;
  constexpr int64_t kThreads = 256;
  queue_kernel(*kernel, "compiled function",
               {{(n + kThreads - 1) / kThreads, 1, 1}, {kThreads, 1, 1}}, one, device);
  check_device(device);
  return true;
}

}  // namespace mt
