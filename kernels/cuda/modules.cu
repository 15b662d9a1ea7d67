// modules.cu -- loads compiled code and launches its kernels, with the CUDA driver API
#include "kernels/cuda/modules.h"

#include <cstdio>

#include "kernels/cuda/cuda.h"
#ifdef __CUDACC__
#include <cuda.h>

#include "kernels/cuda/library.h"
#else
#include <vector>
#endif

namespace mt::cuda {

#ifdef __CUDACC__
namespace {

/// The functions of the driver that are used; the runtime has already loaded the driver.
struct Driver : LibraryFunctions {
  Driver() : LibraryFunctions(DynamicLibrary({"libcuda.so.1"})) {}
  decltype(&cuModuleLoadDataEx) load = find("cuModuleLoadDataEx");
  decltype(&cuModuleUnload) unload = find("cuModuleUnload");
  decltype(&cuModuleGetFunction) function = find("cuModuleGetFunction");
  decltype(&cuModuleGetGlobal) variable = find("cuModuleGetGlobal_v2");  // a macro names it so
  decltype(&cuFuncGetAttribute) attribute = find("cuFuncGetAttribute");
  decltype(&cuFuncSetAttribute) set_attribute = find("cuFuncSetAttribute");
  decltype(&cuLaunchKernel) launch = find("cuLaunchKernel");
};
const Driver& driver() {
  static const Driver d;
  return d;
}

/// The error codes of the runtime are those of the driver.
const char* text_of(CUresult r) { return cudaGetErrorString(cudaError_t(r)); }

}  // namespace

bool load_module(const CudaImage& code, LoadedKernel& kernel, char* why, size_t room) {
  const Driver& d = driver();
  if (!d.complete())
    return std::snprintf(why, room, "the NVIDIA driver is too old to load code"), false;
  char log[1024] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUresult r = d.load(&module, code.image, 2, options, values);
  if (r == CUDA_SUCCESS) r = d.function(&function, module, code.symbol);
  if (r != CUDA_SUCCESS) {
    std::snprintf(why, room, "%s%s%s", text_of(r), log[0] ? ": " : "", log);
    if (module) d.unload(module);
    return false;
  }
  const auto read_attribute = [&](CUfunction_attribute what) {
    int value = 0;
    return d.attribute(&value, what, function) == CUDA_SUCCESS ? value : 0;
  };
  int device = 0, most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  kernel.module = module, kernel.function = function;
  kernel.max_threads = read_attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  kernel.registers = read_attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
  kernel.shared = read_attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  kernel.local = read_attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  // More than 48 KiB needs an attribute, set once; it costs nothing in launches that do not use it.
  const int more = most - int(kernel.shared);
  if (more > 0 && d.set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  more) == CUDA_SUCCESS)
    kernel.more_shared = more;
  else kernel.more_shared = read_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  return true;
}

void unload_module(const LoadedKernel& kernel) {
  if (kernel.stays || capturing()) return;
  cudaStreamSynchronize(stream());  // its kernels may still run; also flushes their printf output
  check(cudaError_t(driver().unload(static_cast<CUmodule>(kernel.module))), "unloading a kernel");
}

void* module_variable(const LoadedKernel& kernel, const char* name, size_t* bytes) {
  CUdeviceptr at = 0;
  if (driver().variable(&at, bytes, static_cast<CUmodule>(kernel.module), name) != CUDA_SUCCESS)
    return nullptr;
  return reinterpret_cast<void*>(at);
}

void queue(const Launch& c) {
  const CUresult r =
      driver().launch(static_cast<CUfunction>(c.kernel->function), c.grid[0], c.grid[1], c.grid[2],
                      c.block[0], c.block[1], c.block[2], c.shared, stream(), c.arguments, nullptr);
  check(cudaError_t(r), c.name);
}

#else  // the emulation recompiles the text

bool load_module(const CudaImage& code, LoadedKernel& kernel, char*, size_t) {
  emulation::Loaded* const loaded = emulation::load(code.source, code.name);
  kernel = {loaded, loaded, 1024, 0, 0, 0, 48 << 10, false};
  return true;
}
void unload_module(const LoadedKernel& kernel) {
  if (kernel.stays || capturing()) return;
  emulation::unload(static_cast<emulation::Loaded*>(kernel.module));
}
void* module_variable(const LoadedKernel& kernel, const char* name, size_t* bytes) {
  return emulation::variable(static_cast<emulation::Loaded*>(kernel.module), name, bytes);
}
void queue(const Launch& c) {
  const auto kernel = emulation::kernel_of(static_cast<emulation::Loaded*>(c.kernel->module));
  std::vector<std::vector<uint64_t>> values;
  for (int i = 0; i < c.count; ++i) {
    const auto* const from = static_cast<const uint64_t*>(c.arguments[i]);
    values.emplace_back(from, from + c.bytes[i] / 8);
  }
  emulation::start(c.name, true, dim3(c.grid[0], c.grid[1], c.grid[2]),
                   dim3(c.block[0], c.block[1], c.block[2]), c.shared, [kernel, values]() mutable {
                     void* place[64];
                     for (size_t i = 0; i < values.size(); ++i) place[i] = values[i].data();
                     kernel(place);
                   });
  check(cudaGetLastError(), c.name);
}
#endif

void launch_module(const Launch& c) {
  if (stopped()) return;
  for (int i = 0; capturing() && i < c.count; ++i) keep(c.arguments[i], c.bytes[i]);
  if (capturing()) c.kernel->stays = true;
  const Timed timed(c.name);
  queue(c);
  started(c.name);
}

// This is not done by a kernel, whose stores would bypass the constant cache.
void write_variable(void* to, const void* from, size_t bytes) {
  if (bytes &&
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()), "filling a variable"))
    check(cudaStreamSynchronize(stream()), "filling a variable");  // `from` may be page-locked
}

}  // namespace mt::cuda
