// grid_cuda.cpp -- translates a typed grid kernel to CUDA C, with the lines of its Lua source; compiles and launches it
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>

#include "engine/compiler/cuda/program_text.h"
#include "engine/compiler/kernel/grid_kernel.h"
#include "engine/core/async_errors.h"
#include "engine/core/dtype.h"
#include "engine/ops/create.h"
#include "engine/ops/ops.h"

namespace mt::grid {
namespace {

/// The prologue of every kernel. Accesses out of bounds are skipped; the first one is recorded.
constexpr char kBefore[] = R"(typedef long long mt_int;
template <class T, int N> struct mt_tensor {
  T* data;
  mt_int size[N], stride[N];
};
__device__ inline void mt_report(mt_int* fault, mt_int kind, int line, int tensor, int dim, mt_int index) {
  if (atomicCAS((unsigned long long*)fault, 0ull, (unsigned long long)kind) != 0) return;
  fault[1] = line, fault[2] = tensor, fault[3] = dim, fault[4] = index;
  fault[5] = (mt_int)blockIdx.x * blockDim.x + threadIdx.x + 1;
  fault[6] = (mt_int)blockIdx.y * blockDim.y + threadIdx.y + 1;
  fault[7] = (mt_int)blockIdx.z * blockDim.z + threadIdx.z + 1;
}
template <class T, int N, class... I>
__device__ inline T* mt_at(const mt_tensor<T, N>& t, mt_int* fault, int line, int tensor, I... i) {
  const mt_int at[] = {(mt_int)i..., 1};
  mt_int offset = 0;
  for (int d = 0; d < int(sizeof...(I)); ++d) {
    if (at[d] < 1 || at[d] > t.size[d]) {
      mt_report(fault, 1, line, tensor, d, at[d]);
      return nullptr;
    }
    offset += (at[d] - 1) * t.stride[d];
  }
  return t.data + offset;
}
template <class T> __device__ inline T mt_load(const T* at) { return at ? *at : T(0); }
__device__ inline mt_int mt_mod(mt_int x, mt_int y, mt_int* fault, int line) {
  if (y == 0) return mt_report(fault, 2, line, 0, 0, 0), 0;
  if (y == -1) return 0;
  const mt_int rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
__device__ inline mt_int mt_floor_div(mt_int x, mt_int y, mt_int* fault, int line) {
  if (y == 0) return mt_report(fault, 2, line, 0, 0, 0), 0;
  if (y == -1) return -x;
  const mt_int quotient = x / y;
  return quotient - (x % y != 0 && (x < 0) != (y < 0));
}
__device__ inline mt_int mt_fmod(mt_int x, mt_int y, mt_int* fault, int line) {
  if (y == 0) return mt_report(fault, 2, line, 0, 0, 0), 0;
  return y == -1 ? 0 : x % y;
}
template <class T> __device__ inline T mt_min(T x, T y) { return x < y ? x : y; }
template <class T> __device__ inline T mt_max(T x, T y) { return x > y ? x : y; }
template <class R> __device__ inline mt_int mt_whole(R x) {
  if (x != x) return 0;
  if (x >= R(9223372036854775808.0)) return 9223372036854775807ll;
  return x < R(-9223372036854775808.0) ? -9223372036854775807ll - 1 : (mt_int)x;
}
__device__ inline mt_int mt_add(mt_int* at, mt_int v) {
  return (mt_int)atomicAdd((unsigned long long*)at, (unsigned long long)v);
}
__device__ inline mt_int mt_add(int* at, mt_int v) { return atomicAdd(at, (int)v); }
__device__ inline float mt_add(float* at, float v) { return atomicAdd(at, v); }
__device__ inline double mt_add(double* at, double v) { return atomicAdd(at, v); }
__device__ inline mt_int mt_shift_left(mt_int x, mt_int n) {
  return n < 0 || n > 63 ? 0 : (mt_int)((unsigned long long)x << n);
}
__device__ inline mt_int mt_shift_right(mt_int x, mt_int n) { return x >> (n < 0 || n > 63 ? 63 : n); }
__device__ inline mt_int mt_trunc_div(mt_int x, mt_int y, mt_int* fault, int line) {
  if (y == 0) return mt_report(fault, 2, line, 0, 0, 0), 0;
  return y == -1 ? -x : x / y;
}
__device__ inline mt_int mt_gcd(mt_int x, mt_int y) {
  unsigned long long a = x < 0 ? 0ull - x : x, b = y < 0 ? 0ull - y : y;
  while (b != 0) {
    const unsigned long long rest = a % b;
    a = b, b = rest;
  }
  return (mt_int)a;
}
__device__ inline mt_int mt_lcm(mt_int x, mt_int y) {
  const unsigned long long by = mt_gcd(x, y), a = x < 0 ? 0ull - x : x, b = y < 0 ? 0ull - y : y;
  return by == 0 ? 0 : (mt_int)(a / by * b);
}
)";
/// The updates of GridUpdate that are not additions.
constexpr char kUpdates[] = R"(template <int Bytes> struct mt_word { typedef unsigned int type; };
template <> struct mt_word<8> { typedef unsigned long long type; };
template <int How, class T> __device__ inline T mt_updated(T before, T value, T expected) {
  if (How == 1) return before < value ? before : value;
  if (How == 2) return before > value ? before : value;
  return How == 3 || before == expected ? value : before;
}
template <int How, class E, class T> __device__ inline T mt_update(E* at, T value, T expected) {
  typedef typename mt_word<sizeof(E)>::type Word;
  Word seen = *(volatile Word*)at;
  for (;;) {
    const T before = (T)__builtin_bit_cast(E, seen);
    const E after = (E)mt_updated<How>(before, value, expected);
    const Word found = atomicCAS((Word*)at, seen, __builtin_bit_cast(Word, after));
    if (found == seen) return before;
    seen = found;
  }
}
)";
/// A tensor in constant memory; its `data` is an offset.
constexpr char kConstantMemory[] = R"(__constant__ double mt_constant[8192];
template <class T, int N> __device__ inline mt_tensor<const T, N> mt_in_constant(const mt_tensor<T, N>& t) {
  mt_tensor<const T, N> c;
  c.data = (const T*)((const char*)mt_constant + (unsigned long long)t.data);
  for (int d = 0; d < N; ++d) c.size[d] = t.size[d], c.stride[d] = t.stride[d];
  return c;
}
)";
constexpr char kWarps[] = R"(#ifndef __CUDACC_RTC__  // the emulation: all lanes that there are
static unsigned __activemask() {
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  const int left = threads - (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32 * 32;
  return left < 32 ? (1u << left) - 1 : 0xffffffffu;
}
#endif
template <int What, class T> __device__ inline T mt_join(T x, T y) {
  return What == 0 ? T(x + y) : What == 1 ? mt_max(x, y) : mt_min(x, y);
}
/// A butterfly with lanes missing. No array: for sm_90 ptxas 13.0 finds no registers for it.
template <int What, int Bit, class T>
__device__ inline T mt_tree(T v, T nothing, unsigned active, int lane) {
  if constexpr (Bit == 32) {
    const T other = __shfl_sync(active, v, lane);
    return active >> lane & 1 ? other : nothing;
  } else {
    const T own = mt_tree<What, Bit * 2>(v, nothing, active, lane);
    return mt_join<What>(own, mt_tree<What, Bit * 2>(v, nothing, active, lane ^ Bit));
  }
}
/// Over 32 lanes in a fixed tree; a lane that does not take part counts as `nothing`.
template <int What, class T> __device__ inline T mt_warp(T v, T nothing) {
  const unsigned active = __activemask();
  const int lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
  if (active != 0xffffffffu) return mt_tree<What, 1>(v, nothing, active, lane);
  for (int half = 16; half > 0; half /= 2) v = mt_join<What>(v, __shfl_xor_sync(active, v, half));
  return v;
}
template <class T> __device__ inline T mt_shuffle(T v, mt_int by, bool down) {
  const unsigned active = __activemask();
  const int lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
  const mt_int from = down ? lane + by : lane ^ by;
  const bool there = from >= 0 && from < 32 && (active >> from & 1);
  const T other = __shfl_sync(active, v, there ? int(from) : lane);
  return there ? other : v;
}
)";

/// The operations that are written as expressions, some only for integers: {3} is the line. Others are device
/// functions.
struct OperationForm {
  int op;
  const char* text;
  bool of_integers = false;
};
constexpr OperationForm kForms[] = {
    {op::id<op::Neg>, "(- {0})"},  // --5 would be a decrement
    {op::id<op::Add>, "({0} + {1})"},
    {op::id<op::Sub>, "({0} - {1})"},
    {op::id<op::Mul>, "({0} * {1})"},
    {op::id<op::Div>, "({0} / {1})"},
    {op::id<op::Lt>, "({0} < {1})"},
    {op::id<op::Le>, "({0} <= {1})"},
    {op::id<op::Gt>, "({0} > {1})"},
    {op::id<op::Ge>, "({0} >= {1})"},
    {op::id<op::Eq>, "({0} == {1})"},
    {op::id<op::Ne>, "({0} != {1})"},
    {op::id<op::LogicalAnd>, "({0} && {1})"},
    {op::id<op::LogicalOr>, "({0} || {1})"},
    {op::id<op::LogicalNot>, "(!{0})"},
    {op::id<op::Where>, "({0} ? {1} : {2})"},
    {op::id<op::LuaMin>, "mt_min({0}, {1})"},
    {op::id<op::LuaMax>, "mt_max({0}, {1})"},
    {op::id<op::Abs>, "llabs({0})", true},
    {op::id<op::Remainder>, "mt_mod({0}, {1}, fault, {3})", true},
    {op::id<op::FloorDivide>, "mt_floor_div({0}, {1}, fault, {3})", true},
    {op::id<op::Fmod>, "mt_fmod({0}, {1}, fault, {3})", true},
    {op::id<op::TruncDivide>, "mt_trunc_div({0}, {1}, fault, {3})", true},
    {op::id<op::BitwiseAnd>, "({0} & {1})"},
    {op::id<op::BitwiseOr>, "({0} | {1})"},
    {op::id<op::BitwiseXor>, "({0} ^ {1})"},
    {op::id<op::BitwiseLeftShift>, "mt_shift_left({0}, {1})"},
    {op::id<op::BitwiseRightShift>, "mt_shift_right({0}, {1})"},
    {op::id<op::Gcd>, "mt_gcd({0}, {1})"},
    {op::id<op::Lcm>, "mt_lcm({0}, {1})"},
    {op::id<op::LogicalXor>, "({0} != {1})"}};

/// The name of the kernel in its text. It takes the tensors of a launch as {data, sizes, strides}, its numbers, and
/// an address for the first fields of a GridFault as int64: kind, line, tensor, dim, index, thread.
std::string cuda_name(const Kernel& k) {
  std::string name = "grid_";
  for (const char c : k.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}
constexpr int kCudaFault = 8;  // integers

class KernelText {
 public:
  explicit KernelText(const Kernel& k) : k_(k) {}
  std::string run() {
    each_statement(k_.body, 0, [this](const Statement& s, int) {
      warps_ |= s.kind == Statement::warp;
      updates_ |= s.update != GridUpdate::add;
      if (s.kind == Statement::leave) labels_.try_emplace(s.target, int(labels_.size()));
    });
    for (size_t t = 0; t < k_.tensors.size(); ++t)
      if (k_.tensors[t].constant)
        out_ += fmt::format("  const auto c{0} = mt_in_constant(t{0});\n", t);
    for (size_t v = 0; v < k_.variables.size(); ++v)
      out_ += fmt::format("  {} v{} = 0;\n", type(k_.variables[v].type), v);
    body(k_.body);
    std::string head = kBefore;
    if (warps_) head += kWarps;
    if (updates_) head += kUpdates;
    const char* reduced = "";
    bool constant = false;
    for (const Tensor& t : k_.tensors) {
      if (is_reduced_float(t.dtype)) reduced = reduced_floats_text(t.dtype);
      constant |= t.constant;
    }
    head += reduced;
    if (constant) head += kConstantMemory;
    if (!functions_.functions().empty()) (head += program_head(k_.real)) += functions_.functions();
    return head + fmt::format("extern \"C\" __global__ void {}({}) {{\n{}{}}}\n", cuda_name(k_),
                              parameters(), shared(), out_);
  }

 private:
  std::string type(GridType t) const {
    return t == GridType::real ? real() : t == GridType::boolean ? "bool" : "mt_int";
  }
  const char* real() const { return k_.real == Dtype::f64 ? "double" : "float"; }
  /// The CUDA C type of an element.
  static const char* element(Dtype d) {
    return with_dtype(d, []<class T>(T) -> const char* {
      constexpr const char* kSigned[] = {"signed char", "short", "int", "mt_int"};
      constexpr const char* kUnsigned[] = {"unsigned char", "unsigned short", "unsigned int"};
      constexpr int size = std::bit_width(sizeof(T)) - 1;
      if constexpr (std::is_same_v<T, bool>) return "bool";
      else if constexpr (math::is_stored<T>) return stored_text(dtype_of<T>, false);
      else if constexpr (std::is_same_v<T, double>) return "double";
      else if constexpr (std::is_same_v<T, float>) return "float";
      else if constexpr (std::is_signed_v<T>) return kSigned[size];
      else return kUnsigned[size];
    });
  }
  std::string parameters() const {
    std::string list;
    for (size_t t = 0; t < k_.tensors.size(); ++t)
      if (const Tensor& x = k_.tensors[t]; !x.shared)
        list +=
            fmt::format("const mt_tensor<{}, {}> t{}, ", element(x.dtype), std::max(x.ndim, 1), t);
    for (size_t s = 0; s < k_.scalars.size(); ++s)
      list += fmt::format("const {} s{}, ", type(k_.scalars[s].type), s);
    return list + "mt_int* fault";
  }
  std::string shared() const {
    std::string text;
    for (size_t t = 0; t < k_.tensors.size(); ++t) {
      const Tensor& x = k_.tensors[t];
      if (!x.shared) continue;
      const int64_t cells = x.size[0] * x.size[1] * x.size[2];
      std::string sizes, strides;
      int64_t stride = cells;
      for (int d = 0; d < x.ndim; ++d) {
        stride /= x.size[d];
        sizes += fmt::format("{}{}", d ? ", " : "", x.size[d]),
            strides += fmt::format("{}{}", d ? ", " : "", stride);
      }
      text += fmt::format(
          "  {6}{0} m{1}[{2}];\n  const mt_tensor<{0}, {3}> t{1} = {{m{1}, {{{4}}}, {{{5}}}}};\n",
          element(x.dtype), t, cells, x.ndim, sizes, strides, x.is_private ? "" : "__shared__ ");
    }
    return text;
  }

  // ---- values ------------------------------------------------------------------------------------

  std::string number(const Value& v) const {
    if (v.type == GridType::integer) return fmt::format("{}ll", int64_t(v.value));
    if (!std::isfinite(v.value))
      return fmt::format("{}({}(1e308) * {}(1e308))", v.value < 0 ? "-" : "", real(), real());
    const double x = k_.real == Dtype::f64 ? v.value : double(float(v.value));
    if (!std::isfinite(x)) return fmt::format("({}({:a}))", real(), v.value);
    return fmt::format("{}({:a})", real(), x);
  }
  std::string value(const Value& v) {
    const char axis = "xyz"[v.index % 3];
    switch (v.kind) {
      case Value::number: return number(v);
      case Value::boolean: return v.value != 0 ? "true" : "false";
      case Value::scalar: return fmt::format("s{}", v.index);
      case Value::variable: return fmt::format("v{}", v.index);
      case Value::place:
        return fmt::format("((mt_int)blockIdx.{0} * blockDim.{0} + (mt_int)threadIdx.{0} + 1)",
                           axis);
      case Value::thread: return fmt::format("((mt_int)threadIdx.{} + 1)", axis);
      case Value::block: return fmt::format("((mt_int)blockIdx.{} + 1)", axis);
      case Value::load: return fmt::format("({})mt_load({})", type(v.type), address(v));
      case Value::operation: return operation(v);
    }
    return "";
  }
  std::string address(const Value& v) {
    std::string list;
    for (int d = 0; d < k_.tensors[size_t(v.index)].ndim; ++d) list += ", " + value(*v.args.of[d]);
    const char* const name = k_.tensors[size_t(v.index)].constant ? "c" : "t";
    return fmt::format("mt_at({}{}, fault, {}, {}{})", name, v.index, v.line, v.index, list);
  }
  std::string operation(const Value& v) {
    std::string x[3];
    for (int k = 0; k < v.args.count; ++k) x[k] = value(*v.args.of[k]);
    if (v.op == kConvert && v.type == v.args[0]->type) return x[0];
    if (v.op == kConvert)
      return fmt::format("({}({}))", v.type == GridType::integer ? "mt_whole" : real(), x[0]);
    const bool whole = v.args.of[v.args.count - 1]->type == GridType::integer;
    for (const OperationForm& f : kForms)
      if (f.op == v.op && (whole || !f.of_integers))
        return fmt::format(fmt::runtime(f.text), x[0], x[1], x[2], v.line);
    const std::string function = functions_.function_of(v.op, v.type == GridType::boolean);
    if (!functions_.complete())
      fail_line(k_, v.line, "mt.{} is not supported on a GPU", op_row(v.op).info->name);
    return fmt::format("{}({}{}{})", function, x[0], v.args.count > 1 ? ", " : "", x[1]);
  }

  // ---- statements --------------------------------------------------------------------------------

  /// Escapes a text for a C string literal.
  static std::string quoted(const std::string& text) {
    std::string s;
    for (const char c : text)
      s += c == '"' || c == '\\'                ? std::string("\\") + c
           : static_cast<unsigned char>(c) < 32 ? fmt::format("\\{:03o}", int(c))
                                                : std::string(1, c);
    return s;
  }
  void line(const Statement& s, const std::string& text) {
    const size_t function = size_t(s.line >> 20);
    out_ += fmt::format("#line {} \"{}\"\n  {}\n", s.line & 0xfffff,
                        quoted(function < k_.chunks.size() ? k_.chunks[function] : ""), text);
  }
  void body(const Body& list) {
    for (const Statement* s : list) statement(*s);
  }
  void block(const Body& list) {
    out_ += "  {\n";
    body(list);
    out_ += "  }\n";
  }
  /// The label after a loop or scope, for statements that leave it.
  void end(const Statement& s) {
    if (const auto at = labels_.find(&s); at != labels_.end())
      out_ += fmt::format("  after_{}:;\n", at->second);
  }
  void statement(const Statement& s) {
    switch (s.kind) {
      case Statement::assign: return line(s, fmt::format("v{} = {};", s.variable, value(*s.value)));
      case Statement::store:
        return line(
            s, fmt::format("if (auto* at = {}) *at = {};", address(*s.place), value(*s.value)));
      case Statement::atomic_add: return atomic(s);
      case Statement::branch:
        line(s, fmt::format("if ({})", value(*s.value)));
        block(s.body);
        if (s.other.empty()) return;
        out_ += "  else\n";
        return block(s.other);
      case Statement::count: count(s); return end(s);
      case Statement::loop:
        out_ += "  for (;;)\n";
        block(s.body);
        return end(s);
      case Statement::scope: block(s.body); return end(s);
      case Statement::leave: return line(s, fmt::format("goto after_{};", labels_.at(s.target)));
      case Statement::barrier: return line(s, "__syncthreads();");
      case Statement::warp: return warp(s);
      case Statement::print: return print(s);
      case Statement::item: return;
    }
  }
  void atomic(const Statement& s) {
    const Dtype d = k_.tensors[size_t(s.place->index)].dtype;
    if (d != Dtype::i32 && d != Dtype::i64 && d != Dtype::f32 && d != Dtype::f64)
      fail_line(
          k_, s.line,
          "an atomic update of a tensor of {} is not supported on a GPU; use int32, int64, float32 or float64",
          dtype_name(d));
    const std::string v = value(*s.value);
    line(s, fmt::format("if (auto* at = {}) v{} = {};", address(*s.place), s.variable,
                        s.update == GridUpdate::add
                            ? fmt::format("mt_add(at, {})", v)
                            : fmt::format("mt_update<{0}, {1}>(at, {2}, {3})", int(s.update),
                                          element(d), v, s.last ? value(*s.last) : v)));
  }
  void count(const Statement& s) {
    const std::string t = type(k_.variables[size_t(s.variable)].type);
    line(
        s,
        fmt::format(
            "for ({0} k = {1}, last = {2}, step = {3}; step > 0 ? k <= last : step < 0 && last <= k; k += step)",
            t, value(*s.value), value(*s.last), value(*s.step)));
    out_ += fmt::format("  {{\n  v{} = k;\n", s.variable);
    body(s.body);
    if (s.value->type == GridType::integer)  // k + step may be too large
      out_ += "  if (step > 0 ? k > last - step : k < last - step) break;\n";
    out_ += "  }\n";
  }
  void warp(const Statement& s) {
    const std::string v = value(*s.value), t = type(s.value->type);
    const bool whole = s.value->type == GridType::integer;
    if (s.what >= GridWarp::shuffle_down)
      return line(s, fmt::format("v{} = mt_shuffle<{}>({}, {}, {});", s.variable, t, v,
                                 value(*s.step), s.what == GridWarp::shuffle_down));
    const std::string nothing =
        s.what == GridWarp::sum ? "0"
        : whole
            ? (s.what == GridWarp::max ? "(-9223372036854775807ll - 1)" : "9223372036854775807ll")
            : fmt::format("{}(1e308) * {}(1e308)", s.what == GridWarp::max ? "-(" + t : "(" + t,
                          t) +
                  ")";
    line(s, fmt::format("v{} = mt_warp<{}, {}>({}, {});", s.variable, int(s.what), t, v, nothing));
  }
  void print(const Statement& s) {
    std::string format, values;
    for (const Statement* x : s.body) {
      if (x != s.body.first) format += "\\t";
      if (x->text) {
        for (const char c : quoted(x->text)) format += c == '%' ? "%%" : std::string(1, c);
        continue;
      }
      const Value& v = *x->value;
      format += v.type == GridType::integer ? "%lld" : v.type == GridType::real ? "%.14g" : "%s";
      values += ", " + (v.type == GridType::boolean ? "(" + value(v) + " ? \"true\" : \"false\")"
                        : v.type == GridType::real  ? "(double)" + value(v)
                                                    : value(v));
    }
    line(s, fmt::format("printf(\"{}\\n\"{});", format, values));
  }

  const Kernel& k_;
  const Program none_{};
  OperationText functions_{none_, k_.real};
  std::string out_;
  std::map<const Statement*, int> labels_;
  bool warps_ = false, updates_ = false;
};

}  // namespace

std::string cuda_text(const Kernel& k) { return KernelText(k).run(); }

}  // namespace mt::grid

// ---- launches --------------------------------------------------------------------------------------

namespace mt {
namespace {

/// The compiled state of a kernel on the GPUs, which lives as long as the kernel.
struct Compiled {
  struct OnDevice {
    LoadedKernel kernel{};
    Tensor fault;            // grid::kCudaFault integers in the GPU's memory
    bool scheduled = false;  // look_for_fault will be called
  };
  std::map<const Device*, OnDevice> places;
  const char* name = nullptr;
  ~Compiled() {
    for (const auto& [device, place] : places)
      if (place.fault.defined()) modules_of(*device)->unload(place.kernel);
  }
};

CudaSource source_of(const grid::Kernel& kernel) {
  CudaSource source;
  source.text = grid::cuda_text(kernel), source.name = grid::cuda_name(kernel);
  source.origins = {{1, kernel.name, 1}};
  source.options = {"--fmad=false"};  // for the same bits as on the CPU
  return source;
}

void load(Compiled& c, Compiled::OnDevice& place, const grid::Kernel& kernel, const Device& d) {
  const CudaSource source = source_of(kernel);
  c.name = lasting(source.name);
  place.kernel =
      load_kernel(source, compile_cuda(source, modules_of(d)->arch), d, kernel.name + ":");
  place.fault = zeros({grid::kCudaFault}, Dtype::i64, d);
}

/// Reads the fault that threads reported, once it is available.
void look_for_fault(const std::shared_ptr<Compiled>& c, const Device& d,
                    const std::function<void(const GridFault&)>& raise) {
  Compiled::OnDevice& place = c->places.at(&d);
  place.scheduled = false;
  int64_t words[grid::kCudaFault] = {};
  d.download(words, place.fault.data(), sizeof words);
  if (words[0] == 0) return;
  const int64_t none[grid::kCudaFault] = {};
  d.upload(place.fault.data(), none, sizeof none);
  GridFault f{};
  f.kind = GridFaultKind(words[0]);
  f.line = int(words[1]), f.tensor = int(words[2]), f.dim = int(words[3]), f.index = words[4];
  for (int k = 0; k < 3; ++k) f.thread[k] = words[5 + k];
  raise(f);
}

/// Copies a tensor to the constant memory of the kernel, after the `used` bytes of earlier tensors; adds its own to
/// them.
void fill_constant(const grid::Kernel& kernel, const Tensor& x, const LoadedKernel& loaded,
                   const Device& d, GridTensor& view, int64_t& used) {
  size_t capacity = 0;  // bytes
  char* const begin = static_cast<char*>(modules_of(d)->variable(loaded, "mt_constant", &capacity));
  const Tensor values = contiguous(x.detach());
  const int64_t bytes = values.numel() * item_size(values.dtype());
  if (!begin || used + bytes > int64_t(capacity))
    fail("{}: the tensors in constant(..) have {} bytes; constant memory holds {}", kernel.name,
         used + bytes, capacity);
  if (bytes > 0) modules_of(d)->write(begin + used, values.data(), bytes);
  view.data = reinterpret_cast<void*>(used);
  for (int k = 0; k < view.ndim; ++k) view.stride[k] = values.stride(k);
  used += (bytes + 15) / 16 * 16;
}

}  // namespace

CudaCode compile_grid(const grid::Kernel& kernel, int arch) {
  return compile_cuda(source_of(kernel), arch);
}

void launch_grid_cuda(const GridCudaLaunch& l, const Device& d) {
  check_alive(d);
  if (!l.compiled) l.compiled = std::make_shared<Compiled>();
  const auto compiled = std::static_pointer_cast<Compiled>(l.compiled);
  Compiled::OnDevice& place = compiled->places[&d];
  if (!place.fault.defined()) load(*compiled, place, l.kernel, d);
  check_threads(l.kernel.name, place.kernel, l.size);
  KernelArguments arguments;
  std::vector<uint64_t>& words = arguments.words;
  int64_t constant = 0;
  for (size_t t = 0; t < l.views.size(); ++t) {
    GridTensor v = l.views[t];
    if (l.kernel.tensors[t].shared) continue;
    if (l.kernel.tensors[t].constant)
      fill_constant(l.kernel, l.tensors[t], place.kernel, d, v, constant);
    words.push_back(reinterpret_cast<uintptr_t>(v.data));
    const int rank = std::max(v.ndim, 1);
    for (int k = 0; k < rank; ++k) words.push_back(k < v.ndim ? uint64_t(v.size[k]) : 1);
    for (int k = 0; k < rank; ++k) words.push_back(k < v.ndim ? uint64_t(v.stride[k]) : 1);
    arguments.end();
  }
  for (const GridScalar& s : l.scalars) {
    words.push_back(0);
    std::memcpy(&words.back(), &s, sizeof s);
    arguments.end();
  }
  words.push_back(reinterpret_cast<uintptr_t>(place.fault.data()));
  arguments.end();
  queue_kernel(place.kernel, compiled->name, l.size, arguments, d);
  if (reports_synchronously(d)) look_for_fault(compiled, d, l.raise);
  else if (!place.scheduled) {
    place.scheduled = true;
    after_sync(gpu_of(d), [compiled, &d, raise = l.raise] { look_for_fault(compiled, d, raise); });
  }
  check_device(d);
}

}  // namespace mt
