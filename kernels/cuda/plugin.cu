// plugin.cu -- the entry points of the CUDA plug-in: each GPU's table of verbs, memory and stream
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cuda/cublas.h"
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/modules.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/state.h"
#include "kernels/cuda/verbs.h"
#include "kernels/table.h"

namespace mt::cuda {
namespace {

State gpus[kMaxGpus];
thread_local int current = -1;

void enter(int device) {
  if (current == device) return;
  current = device;
  check(cudaSetDevice(device), "choosing the GPU");
}

// ---- errors ------------------------------------------------------------------------------------

/// Errors after which the driver rejects all further GPU work of the process.
bool is_fatal(cudaError_t e) {
  if (int(e) >= 805 && int(e) <= 810) return true;  // of MPS, the service that shares a GPU
  switch (e) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorUnknown:  // after a GPU fault or a suspend of the machine
#if defined(__CUDACC__) && CUDART_VERSION >= 13000
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice:
#endif
    case cudaErrorNvlinkUncorrectable: return true;
    default: return false;
  }
}

/// "add, 3 x relu, sum": the kernels launched since the last synchronization, at most the last 64.
void list_started(const State& g, char* text, size_t room) {
  size_t n = 0;
  text[0] = 0;
  int64_t i = g.launches - g.waited > kRing ? g.launches - kRing : g.waited;
  if (i > g.waited) n = size_t(std::snprintf(text, room, ".., "));
  while (i < g.launches && n + 64 < room) {
    const char* const name = g.ring[i % kRing];
    int64_t same = 1;
    while (i + same < g.launches && std::strcmp(g.ring[(i + same) % kRing], name) == 0) ++same;
    const char* const comma = n > 0 && text[n - 1] != ' ' ? ", " : "";
    n += same == 1 ? std::snprintf(text + n, room - n, "%s%.40s", comma, name)
                   : std::snprintf(text + n, room - n, "%s%lld x %.40s", comma,
                                   static_cast<long long>(same), name);
    i += same;
  }
  if (n == 0) std::snprintf(text, room, "nothing of mtorch");
}

void mark_lost(State& g, cudaError_t error, const char* doing) {
  char names[640];
  list_started(g, names, sizeof names);
  g.device_lost = g.has_error = true;
  g.recording = nullptr;
  const char *const what = cudaGetErrorString(error), *const name = cudaGetErrorName(error);
  if (synchronous())
    std::snprintf(g.error, sizeof g.error,
                  "%s failed: %s (%s); the GPU cannot be used any more "
                  "by this program, the CPU can",
                  doing, what, name);
  else
    std::snprintf(g.error, sizeof g.error,
                  "%s (%s) in one of the operations since the last "
                  "synchronisation: %s; MTORCH_CUDA_SYNC=1 shows which; the GPU cannot be used any "
                  "more by this program, the CPU can",
                  what, name, names);
  std::snprintf(g.lost, sizeof g.lost,
                "the GPU cannot be used any more since an operation failed "
                "(%s); start the program again, or go on with the CPU",
                name);
}

/// Marks all GPUs as lost in a forked process, where the driver does not work.
void mark_all_lost() {
  for (State& g : gpus) {
    if (!g.open || g.device_lost) continue;
    g.device_lost = true;
    g.recording = nullptr;
    std::snprintf(g.lost, sizeof g.lost,
                  "a forked process cannot use the GPU of its parent process; fork before the "
                  "first use of a GPU, or start another program");
  }
}

const char* take_error() {
  State& g = gpus[current];
  if (!g.has_error) return nullptr;
  g.has_error = g.out_of_memory = false;
  return g.error;
}
const char* lost() { return gpus[current].device_lost ? gpus[current].lost : nullptr; }

// ---- copies and synchronization ----------------------------------------------------------------

void copied(cudaError_t error, const char* doing) {
  if (!check(error, doing) || state().recording) return;
  ++state().copies;
  started(doing);
}
void upload(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const Timed timed("upload");
  // From pageable memory the call returns once the source has been read, unless the GPU reads it.
  copied(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream()), "a copy to the GPU");
  if (state().reads_pageable && !state().recording) wait();
}
void download(void* to, const void* from, size_t bytes) {
  if (bytes) {
    const Timed timed("download");
    copied(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()),
           "a copy from the GPU");
  }
  wait();
}

const BadIndex kNone{0, INT64_MAX, INT64_MIN};

uint64_t last_check() { return state().checks; }
BadIndex take_wrong_position() { return std::exchange(state().wrong, BadIndex{}); }

// ---- the table ----------------------------------------------------------------------------------

/// A wrapper of a function for one GPU: sets the current device first.
template <int Index, auto function> struct Of;
template <int Index, class R, class... A, R (*function)(A...)> struct Of<Index, function> {
  static R call(A... a) {
    enter(Index);
    return function(a...);
  }
};
/// A wrapper of a function that uses the GPU; it does nothing once the GPU is lost.
template <int Index, auto verb> struct On;
template <int Index, class R, class... A, R (*verb)(A...)> struct On<Index, verb> {
  static R call(A... a) {
    enter(Index);
    if (gpus[Index].device_lost) {
      if constexpr (std::is_same_v<R, bool>) return true;
      else return R();
    }
    return verb(a...);
  }
};

template <int I> Modules modules() {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, I), "reading the GPU's architecture");
  return {p.major * 10 + p.minor,       On<I, load_module>::call,    On<I, unload_module>::call,
          On<I, module_variable>::call, On<I, write_variable>::call, On<I, launch_module>::call};
}
template <int I> GpuProperties properties() {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, I), "reading the GPU's properties");
  return {p.major,
          p.minor,
          p.multiProcessorCount,
          p.warpSize,
          p.maxThreadsPerBlock,
          p.maxThreadsPerMultiProcessor,
          p.regsPerMultiprocessor,
          int64_t(p.totalGlobalMem),
          int64_t(p.sharedMemPerBlock),
          int64_t(p.l2CacheSize)};
}
/// The members of struct Gpu that are functions of the same name.
// clang-format off
#define MT_GPU_FUNCTIONS(V) \
  V(last_check) V(use) V(reset_peak) V(trim) V(pin) V(unpin) V(event) \
  V(event_destroy) V(event_record) V(event_wait) V(event_done) V(event_ms) V(begin_capture) V(end_capture) \
  V(graph_numbers) V(write_numbers) V(replay) V(destroy_graph) V(pci_bus_id) V(group_id) V(group_join) \
  V(group_start) V(group_state) V(group_finish) V(group_abort)
// clang-format on
template <int I> Gpu table() {
  Gpu d{};
  d.abi = kDeviceAbi;
  d.name = gpus[I].name;
  d.model = gpus[I].model;
  d.verbs.alloc = On<I, allocate>::call;
  d.verbs.free = On<I, release>::call;
  d.verbs.sync = On<I, wait>::call;
  d.verbs.upload = On<I, upload>::call;
  d.verbs.download = On<I, download>::call;
  d.gpu_verbs = {On<I, map_numbers>::call, On<I, fill>::call, On<I, upload>::call};
  d.take_error = Of<I, take_error>::call;
  d.lost = Of<I, lost>::call;
  d.synchronous = synchronous();
  d.started = &gpus[I].launches, d.waited = &gpus[I].waited;
  d.take_bad_index = On<I, take_wrong_position>::call;
  d.properties = On<I, properties<I>>::call;
  d.gemm_library = Of<I, cublas_words>::call;
  d.conv_library = Of<I, cudnn_words>::call;
  d.collective_library = Of<I, nccl_words>::call;
  d.group_error = Of<I, group_error>::call;
#define MT_FILL(name) d.name = On<I, name>::call;
  MT_GPU_FUNCTIONS(MT_FILL)
#undef MT_FILL
#define MT_FILL(result, verb, Argument) d.verbs.verb = On<I, mt::verb>::call;
  MT_VERBS(MT_FILL)
  MT_GPU_VERBS(MT_FILL)
#undef MT_FILL
  return d;
}
template <int... I> const Gpu* table(int index, std::integer_sequence<int, I...>) {
  static Gpu all[] = {table<I>()...};
  if (!gpus[index].has_mma) all[index].verbs.flash_attention = nullptr;
  return &all[index];
}
template <int... I> Modules modules(int index, std::integer_sequence<int, I...>) {
  static constexpr Modules (*all[])() = {modules<I>...};
  return all[index]();
}

#ifdef __CUDACC__
__global__ void nothing() {}
#endif

/// Opens the GPU, or sets the reason why it cannot be opened.
bool open(int index, char* why, size_t room) {
  State& g = gpus[index];
  if (g.open) return true;
  cudaDeviceProp p{};
  cudaError_t e = cudaSuccess;
  const auto ok = [&e](cudaError_t answer) { return (e = answer) == cudaSuccess; };
  bool has_code = true;
  const auto look_for_code = [&] {
#ifdef __CUDACC__
    cudaFuncAttributes attributes;
    ok(cudaFuncGetAttributes(&attributes, nothing));
    has_code = e != cudaErrorNoKernelImageForDevice && e != cudaErrorInvalidDeviceFunction;
#endif
    return e == cudaSuccess;
  };
  int pools = 0, pageable = 0;
  uint64_t keep = ~uint64_t(0);  // freed memory stays in the pool: driver allocations are slow
  const auto open_pool = [&] {
    return ok(cudaDeviceGetDefaultMemPool(&g.pool, index)) &&
           ok(cudaMemPoolSetAttribute(g.pool, cudaMemPoolAttrReleaseThreshold, &keep));
  };
  const bool opened =
      ok(cudaGetDeviceProperties(&p, index)) && ok(cudaSetDevice(index)) && look_for_code() &&
      ok(cudaStreamCreateWithFlags(&g.stream, cudaStreamNonBlocking)) &&
      ok(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, index)) &&
      ok(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, index)) &&
      (!pools || open_pool()) && ok(cudaMalloc(&g.found, sizeof *g.found)) &&
      ok(cudaHostAlloc(&g.seen, sizeof *g.seen, cudaHostAllocDefault)) &&
      ok(cudaMemcpyAsync(g.found, &kNone, sizeof kNone, cudaMemcpyHostToDevice, g.stream));
  if (!opened) {
    std::snprintf(
        why, room, "the GPU cannot be opened: %s (%s)%s", cudaGetErrorString(e),
        cudaGetErrorName(e),
        !has_code ? "; the plug-in has no code for it; build mtorch on this machine"
        : e == cudaErrorMemoryAllocation   ? "; other programs hold its memory, see nvidia-smi"
        : e == cudaErrorDevicesUnavailable ? "; another program uses it exclusively, see nvidia-smi"
                                           : "");
    cudaFree(g.found);
    cudaFreeHost(g.seen);
#ifdef __CUDACC__
    if (g.stream) cudaStreamDestroy(g.stream);
#endif
    g = {};
    cudaGetLastError();
    if (current >= 0) cudaSetDevice(current);
    return false;
  }
  static const int watched = pthread_atfork(nullptr, nullptr, mark_all_lost);
  (void)watched;
  current = index;
  g.has_pools = pools != 0, g.reads_pageable = pageable != 0;
  g.processors = p.multiProcessorCount, g.has_mma = p.major >= 8;
  std::snprintf(g.name, sizeof g.name, "cuda:%d", index);
  std::snprintf(g.model, sizeof g.model, "%s", p.name);
  g.open = true;
  return true;
}

/// The first driver for a toolkit's major version; it also runs later minor versions (NVIDIA's
/// "CUDA Compatibility").
int oldest_driver(int runtime) { return runtime >= 13000 ? 580 : runtime >= 12000 ? 525 : 450; }

/// Why there are no GPUs, and what the user can do about it.
void explain(cudaError_t e, char* why, size_t room) {
  int driver = 0, runtime = 0;
  cudaGetLastError();
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const char* const seen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (driver == 0) std::snprintf(why, room, "there is no NVIDIA driver on this machine");
  else if (e == cudaErrorInsufficientDriver || driver / 1000 < runtime / 1000)
    std::snprintf(
        why, room,
        "the NVIDIA driver is for CUDA %d.%d, mtorch was built with CUDA %d.%d, "
        "which needs driver %d or newer; install that, or on data-centre GPUs the package "
        "cuda-compat-%d, or build mtorch with CUDA %d",
        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10,
        oldest_driver(runtime), runtime / 1000, runtime / 1000 - 1);
  else if ((e == cudaSuccess || e == cudaErrorNoDevice) && seen)
    std::snprintf(why, room, "there is no NVIDIA GPU among CUDA_VISIBLE_DEVICES='%.60s'", seen);
  else if (e == cudaSuccess || e == cudaErrorNoDevice)
    std::snprintf(why, room, "there is an NVIDIA driver, but no NVIDIA GPU that it can use");
  else
    std::snprintf(why, room, "the NVIDIA driver does not work: %s (%s)%s", cudaGetErrorString(e),
                  cudaGetErrorName(e),
                  int(e) == 802 ? "; GPUs connected by NVSwitch need its service: systemctl start "
                                  "nvidia-fabricmanager, of the driver's version"
                  : int(e) == 803
                      ? "; the driver was updated while its older module runs; restart the "
                        "machine, or remove another driver's libcuda.so from LD_LIBRARY_PATH"
                      : "");
}

}  // namespace

State& state() { return gpus[current]; }
cudaStream_t stream() { return gpus[current].stream; }
int current_device() { return current; }
int processors() { return gpus[current].processors; }
bool stopped() { return gpus[current].out_of_memory || gpus[current].device_lost; }
bool synchronous() {
  static const bool wanted = [] {
    const char* const text = std::getenv("MTORCH_CUDA_SYNC");
    return text && *text && std::strcmp(text, "0") != 0;
  }();
  return wanted;
}

bool check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return true;
  cudaGetLastError();  // clears the error, so that the next launch does not report it again
  State& g = gpus[current];
  if (g.device_lost) return false;
  if (is_fatal(error)) return mark_lost(g, error, doing), false;
  if (!g.has_error)
    std::snprintf(g.error, sizeof g.error, "%s failed: %s (%s)", doing, cudaGetErrorString(error),
                  cudaGetErrorName(error));
  g.has_error = true;
  return false;
}

void record_error(const char* what) {
  State& g = gpus[current];
  if (!g.has_error) std::snprintf(g.error, sizeof g.error, "%s", what);
  g.has_error = true;
}

void started(const char* name) {
  State& g = gpus[current];
  if (g.recording) return;
  g.ring[g.launches++ % kRing] = name;
  if (synchronous()) check(cudaStreamSynchronize(g.stream), name);
}

void wait() {
  State& g = gpus[current];
  if (g.recording || g.device_lost) return;
  ++g.waits;
  wait_for_groups();
  const bool look = g.unsettled && g.seen;
  if (look)
    check(cudaMemcpyAsync(g.seen, g.found, sizeof *g.seen, cudaMemcpyDeviceToHost, g.stream),
          "reading the reported index");
  if (!check(cudaStreamSynchronize(g.stream), "waiting for the GPU")) return;
  g.waited = g.launches;
  g.unsettled = false;
  if (!look || g.seen->check == 0) return;
  if (g.wrong.check == 0) g.wrong = *g.seen;
  *g.seen = kNone;
  check(cudaMemcpyAsync(g.found, &kNone, sizeof kNone, cudaMemcpyHostToDevice, g.stream),
        "resetting the reported index");
}

bool bounds_ok(const BoundsCheck& c) {
  State& g = gpus[current];
  if (!synchronous() || g.recording) return true;
  wait();
  if (g.wrong.check != c.number) return true;
  g.wrong = {};
  return false;
}

}  // namespace mt::cuda

extern "C" {

/// The number of GPUs; 0, with a reason in one sentence, if none can be used.
__attribute__((visibility("default"))) int mtorch_cuda_count(char* why, size_t room) {
  int n = 0;
  const cudaError_t e = cudaGetDeviceCount(&n);
  if (e == cudaSuccess && n > 0) return n < mt::kMaxGpus ? n : mt::kMaxGpus;
  mt::cuda::explain(e, why, room);
  return 0;
}

/// The table of a GPU; null, with a reason in one sentence, if it cannot be used.
__attribute__((visibility("default"))) const mt::Gpu* mtorch_cuda_device(uint32_t abi, int index,
                                                                         char* why, size_t room) {
  if (abi != mt::op::kPluginAbi) {
    std::snprintf(why, room, "the plug-in is of another version of mtorch (ABI %u, not %u)",
                  mt::op::kPluginAbi, abi);
    return nullptr;
  }
  const int n = mtorch_cuda_count(why, room);
  if (n == 0) return nullptr;
  if (index >= n) {
    std::snprintf(why, room, "there %s %d GPU%s here, counted from 0", n == 1 ? "is" : "are", n,
                  n == 1 ? "" : "s");
    return nullptr;
  }
  if (!mt::cuda::open(index, why, room)) return nullptr;
  return mt::cuda::table(index, std::make_integer_sequence<int, mt::kMaxGpus>{});
}

/// The functions of an opened GPU for code that is compiled at run time.
__attribute__((visibility("default"))) mt::Modules mtorch_cuda_modules(int index) {
  return mt::cuda::modules(index, std::make_integer_sequence<int, mt::kMaxGpus>{});
}
}
