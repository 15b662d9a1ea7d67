// program_cuda.cpp -- expression programs on a GPU: compiles and launches CUDA C
#include "engine/compiler/cuda/program_cuda.h"

#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "engine/compiler/cuda/program_rows_text.h"
#include "engine/core/error.h"
#include "engine/core/interceptor.h"
#include "kernels/view.h"

namespace mt {

std::string cuda_text(const Program& p, Dtype dtype, int ndim) {
  const int operands = p.outputs + p.inputs;
  const auto place = [&](int k) { return ndim == 0 ? "i" : fmt::format("at{}", k); };
  const auto value = [](int v) { return fmt::format("x{}", v); };
  OperationText operations(p, compute_dtype(dtype));
  std::string body = rows::offsets_text(ndim, operands);
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

namespace {

/// The kernel of a text, compiled at first use and cached; null if there is no text, or no NVRTC.
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

/// The leading dimensions of a run and the strides of its operands, after merging dimensions: none if an elementwise
/// program's operands are contiguous. For a program by rows, also the rows.
struct RunForm {
  int64_t size[kMaxDims], strides[kMaxProgramOperands][kMaxDims], n, length = 0;
  int ndim;
  rows::TeamForm team{};  // without the fields that share_row sets

  explicit RunForm(const Run& r) {
    const Program& p = *r.program;
    const int used = p.outputs + p.inputs, dims = r.ndim - p.by_rows;
    int64_t* stride[kMaxProgramOperands];
    std::copy_n(r.size, dims, size);
    for (int k = 0; k < used; ++k)
      stride[k] = strides[k], std::copy_n(r.stride[k], dims, strides[k]);
    n = count(dims, size);
    ndim = collapse(dims, size, stride, used);
    bool flat = ndim <= 1 && !p.by_rows;
    for (int k = 0; k < used; ++k) flat &= ndim == 0 || strides[k][0] == 1;
    if (flat) ndim = 0;
    if (p.by_rows) find_rows(r, used);
  }
  std::string text(const Run& r) {
    constexpr int kMaxInstructions = 2000;  // larger programs take too long to compile
    if (!r.program->by_rows) return cuda_text(*r.program, r.dtype, ndim);
    if (r.program->count > kMaxInstructions) return "";
    rows::share_row(team, *r.program, r.dtype, length);
    return rows::RowsText(*r.program, r.dtype, team).text();
  }

 private:
  void find_rows(const Run& r, int used) {
    const int outer = r.ndim - 1;
    length = r.size[outer];
    if (ndim == 0) {
      ndim = 1, size[0] = 1;
      for (int k = 0; k < used; ++k) strides[k][0] = 0;
    }
    team.ndim = ndim;
    team.run = rows::run_for(r.dtype, length);
    for (int k = 0; k < used; ++k) {
      const bool dense = r.stride[k][outer] == 1;
      bool wide = team.run > 1 && dense && !r.is_bool[k] &&
                  reinterpret_cast<uintptr_t>(r.data[k]) % 16 == 0;
      for (int d = 0; d < ndim; ++d) wide &= strides[k][d] % team.run == 0;
      team.dense |= uint64_t(dense) << k, team.wide |= uint64_t(wide) << k;
    }
  }
};

/// A kernel, and the elements or rows that a block of it processes.
struct ProgramKernel {
  const LoadedKernel* loaded = nullptr;  // null: there is none
  int per_block = 256, threads = 256;
};

/// The kernel for a run, compiled at first use.
const ProgramKernel& kernel_of(const Run& r, RunForm& f, const Device& device) {
  using Key = std::tuple<const Program*, Dtype, int64_t, int, uint64_t, uint64_t, const Device*>;
  static std::mutex lock;
  static auto* const all = new std::map<Key, ProgramKernel>;
  const std::lock_guard guard(lock);
  const auto [at, is_new] = all->try_emplace(
      Key{r.program, r.dtype, f.length, f.ndim, f.team.dense, f.team.wide, &device});
  ProgramKernel& kernel = at->second;
  if (!is_new) return kernel;
  kernel.loaded = program_kernel(f.text(r), device);
  if (kernel.loaded && r.program->by_rows)
    kernel.per_block = f.team.rows(), kernel.threads = f.team.threads();
  return kernel;
}

struct ProgramLaunch {
  int64_t n = 0;
  KernelArguments arguments;
  ProgramKernel kernel;
};

bool has_kernel(const Run& r) { return is_float(r.dtype); }

/// The arguments of the kernel for a run, and the kernel, compiled at first use; false if there is none.
bool prepare(const Run& r, const Device& device, ProgramLaunch& launch) {
  if (!has_kernel(r)) return false;
  const Program& p = *r.program;
  RunForm f(r);
  launch.n = p.by_rows && f.length == 0 ? 0 : f.n;
  if (launch.n == 0) return true;
  const int used = p.outputs + p.inputs;
  std::vector<uint64_t>& words = launch.arguments.words;
  words.push_back(uint64_t(f.n));
  if (p.by_rows) words.push_back(uint64_t(f.length));
  for (int k = 0; k < used; ++k) words.push_back(reinterpret_cast<uintptr_t>(r.data[k]));
  for (int k = 0; k < p.numbers; ++k) words.push_back(__builtin_bit_cast(uint64_t, r.numbers[k]));
  if (p.numbers == 0) words.push_back(0);
  for (int k = 0; p.by_rows && k < used; ++k) words.push_back(uint64_t(r.stride[k][r.ndim - 1]));
  words.insert(words.end(), f.size, f.size + f.ndim);
  for (int k = 0; k < used; ++k) words.insert(words.end(), f.strides[k], f.strides[k] + f.ndim);
  if (words.size() * 8 > 4000) return false;  // CUDA's limit is 4096 bytes
  launch.kernel = kernel_of(r, f, device);
  return launch.kernel.loaded != nullptr;
}

}  // namespace

std::string cuda_text(const Run& r) { return has_kernel(r) ? RunForm(r).text(r) : ""; }

bool run_on_gpu(const Run& r, const Device& device) {
  ProgramLaunch launch;
  if (!prepare(r, device, launch)) return false;
  if (launch.n == 0) return true;
  const int64_t blocks = ceil_div(launch.n, launch.kernel.per_block);
  if (blocks > INT32_MAX) return false;
  launch.arguments.end();
  queue_kernel(*launch.kernel.loaded, "compiled function",
               {{blocks, 1, 1}, {launch.kernel.threads, 1, 1}}, launch.arguments, device);
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
