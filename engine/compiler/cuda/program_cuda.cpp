// program_cuda.cpp -- elementwise expression programs on a GPU: compiles and launches CUDA C
#include "engine/compiler/cuda/program_cuda.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "engine/compiler/cuda/program_text.h"
#include "engine/core/error.h"
#include "engine/core/interceptor.h"
#include "kernels/view.h"

namespace mt {

std::string offsets_text(int ndim, int operands) {
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

std::string cuda_text(const Program& p, Dtype dtype, int ndim) {
  const int operands = p.outputs + p.inputs;
  const auto place = [&](int k) { return ndim == 0 ? "i" : fmt::format("at{}", k); };
  const auto value = [](int v) { return fmt::format("x{}", v); };
  OperationText operations(p, compute_dtype(dtype));
  std::string body = offsets_text(ndim, operands);
  for (int i = 0; i < p.count; ++i) {
    const int k = p.outputs + p.code[i].which;
    if (p.code[i].op == kReduce) return "";
    if (p.code[i].op == kInput)
      body += fmt::format("  const {} x{} = ((const {}*)r.data[{}])[{}];\n",
                          type_text(dtype, false), i, stored_text(dtype, false), k, place(k));
    else body += operations.line(i, value);
  }
  if (!operations.complete()) return "";
  for (int k = 0; k < p.outputs; ++k)
    body += fmt::format("  (({}*)r.data[{}])[{}] = x{};\n",
                        stored_text(dtype, p.code[p.output[k]].is_bool), k, place(k), p.output[k]);
  std::string shape;
  if (ndim > 0)
    shape = fmt::format(" long long size[{}]; long long stride[{}][{}];", ndim, operands, ndim);
  return program_head(dtype) + operations.functions() +
         fmt::format("struct Run {{ long long n; void* data[{}]; double number[{}];{} }};\n",
                     operands, p.numbers > 0 ? p.numbers : 1, shape) +
         "extern \"C\" __global__ void mt_program(Run r) {\n"
         "  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
         "  if (i >= r.n) return;\n" +
         body + "}\n";
}

// ---- the launch -----------------------------------------------------------------------------------------

const LoadedKernel* program_kernel(const std::string& text, const Device& device) {
  static std::mutex lock;
  static auto* const all =
      new std::map<std::pair<std::string, const Device*>, std::optional<LoadedKernel>>;
  if (text.empty() || !nvrtc_unavailable_reason().empty()) return nullptr;
  const std::lock_guard guard(lock);
  std::optional<LoadedKernel>& kernel = (*all)[{text, &device}];
  if (!kernel) {
    CudaSource source;
    source.text = text, source.name = "mt_program";
    source.options = {"--fmad=false"};
    source.origins.push_back({1, "a compiled function", 1});
    kernel = load_kernel(source, compile_cuda(source, modules_of(device)->arch), device,
                         "a compiled function");
    kernel->stays = true;
  }
  return &*kernel;
}

RunDims::RunDims(const Run& r, int dims) {
  const int used = r.program->outputs + r.program->inputs;
  int64_t* stride[kMaxProgramOperands];
  std::copy_n(r.size, dims, size);
  for (int k = 0; k < used; ++k) stride[k] = strides[k], std::copy_n(r.stride[k], dims, strides[k]);
  n = count(dims, size);
  ndim = collapse(dims, size, stride, used);
}

void append_operands(std::vector<uint64_t>& words, const Run& r) {
  const Program& p = *r.program;
  for (int k = 0; k < p.outputs + p.inputs; ++k)
    words.push_back(reinterpret_cast<uintptr_t>(r.data[k]));
  for (int k = 0; k < p.numbers; ++k) words.push_back(__builtin_bit_cast(uint64_t, r.numbers[k]));
  if (p.numbers == 0) words.push_back(0);
}
void append_dims(std::vector<uint64_t>& words, const Run& r, const RunDims& v) {
  words.insert(words.end(), v.size, v.size + v.ndim);
  for (int k = 0; k < r.program->outputs + r.program->inputs; ++k)
    words.insert(words.end(), v.strides[k], v.strides[k] + v.ndim);
}

namespace {

/// The dimensions of a run in its kernel: none if all operands are contiguous.
struct ElementwiseDims : RunDims {
  explicit ElementwiseDims(const Run& r) : RunDims(r, r.ndim) {
    bool flat = ndim <= 1;
    for (int k = 0; k < r.program->outputs + r.program->inputs; ++k)
      flat &= ndim == 0 || strides[k][0] == 1;
    if (flat) ndim = 0;
  }
};

/// The kernel for a program on a GPU, compiled at first use and cached; null if there is none.
const LoadedKernel* kernel_of(const Run& r, int ndim, const Device& device) {
  static std::mutex lock;
  static auto* const all =
      new std::map<std::tuple<const Program*, Dtype, int, const Device*>, const LoadedKernel*>;
  const std::lock_guard guard(lock);
  const auto [at, is_new] = all->try_emplace({r.program, r.dtype, ndim, &device}, nullptr);
  if (is_new) at->second = program_kernel(cuda_text(*r.program, r.dtype, ndim), device);
  return at->second;
}
bool has_kernel(const Run& r) { return is_float(r.dtype); }

/// Compiles the kernel at first use; false if there is none.
bool prepare(const Run& r, const Device& device, ProgramLaunch& launch) {
  if (!has_kernel(r)) return false;
  if (r.program->by_rows) return prepare_rows(r, device, launch);
  const ElementwiseDims v(r);
  launch.n = v.n;
  if (v.n == 0) return true;
  launch.arguments.words.push_back(uint64_t(v.n));
  append_operands(launch.arguments.words, r);
  append_dims(launch.arguments.words, r, v);
  launch.per_block = launch.threads = 256;
  if (launch.fits()) launch.kernel = kernel_of(r, v.ndim, device);
  return launch.kernel != nullptr;
}

}  // namespace

std::string cuda_text(const Run& r) {
  if (!has_kernel(r)) return "";
  return r.program->by_rows ? rows_cuda_text(r)
                            : cuda_text(*r.program, r.dtype, ElementwiseDims(r).ndim);
}

bool run_on_gpu(const Run& r, const Device& device) {
  ProgramLaunch launch;
  if (!prepare(r, device, launch)) return false;
  if (launch.n == 0) return true;
  const int64_t blocks = ceil_div(launch.n, launch.per_block);
  if (blocks > INT32_MAX) return false;
  launch.arguments.end();
  queue_kernel(*launch.kernel, "compiled function", {{blocks, 1, 1}, {launch.threads, 1, 1}},
               launch.arguments, device);
  check_device(device);
  return true;
}

bool call_verb_or_program(const Device& d, Verb verb, const void* argument) {
  return verb == Verb::run && !is_cpu(d) ? run_on_gpu(*static_cast<const Run*>(argument), d)
                                         : call_verb(d, verb, argument);
}

bool prepare_on_gpu(const Run& r, const Device& device) {
  ProgramLaunch launch;
  return prepare(r, device, launch);
}

}  // namespace mt
