// plugin.cu -- the CUDA plug-in's way in: one table of verbs for each GPU, its memory, its stream
#include <cstdio>
#include <cstring>
#include <utility>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/modules.h"
#include "kernels/device.h"
#include "kernels/verbs.h"

namespace mt::cuda {
namespace {

constexpr int kMostDevices = 8;

struct Gpu {
  bool open = false;
  cudaStream_t stream = nullptr;
  cudaMemPool_t pool = nullptr;
  int processors = 1;
  char name[16], model[256];
};
Gpu gpus[kMostDevices];
thread_local int current = -1;

// What went wrong first since the engine asked last.
char trouble_text[512];
bool troubled = false;

void enter(int device) {
  if (current == device) return;
  check(cudaSetDevice(device), "choosing the GPU");
  current = device;
}

void* allocate(size_t bytes) {
  void* data = nullptr;
  const size_t n = bytes ? bytes : 1;
  if (cudaMallocAsync(&data, n, stream()) == cudaSuccess) return data;
  cudaGetLastError();  // out of memory: what the pool keeps may be enough
  cudaStreamSynchronize(stream());
  cudaMemPoolTrimTo(gpus[current].pool, 0);
  if (cudaMallocAsync(&data, n, stream()) == cudaSuccess) return data;
  cudaGetLastError();
  return nullptr;
}
void release(void* data, size_t) { check(cudaFreeAsync(data, stream()), "freeing memory"); }
void wait() { check(cudaStreamSynchronize(stream()), "waiting for the GPU"); }
void upload(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  // From pageable memory the call returns once the source has been read.
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream()), "a copy to the GPU");
}
void download(void* to, const void* from, size_t bytes) {
  if (bytes)
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()), "a copy from the GPU");
  wait();
}
const char* trouble() {
  if (!troubled) return nullptr;
  troubled = false;
  return trouble_text;
}

/// A verb of one GPU: makes it the current one first.
template <int Index, auto verb> struct On;
template <int Index, class R, class... A, R (*verb)(A...)> struct On<Index, verb> {
  static R call(A... a) {
    enter(Index);
    return verb(a...);
  }
};

template <int I> Modules modules() {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, I), "asking for the GPU's architecture");
  return {p.major * 10 + p.minor, On<I, load_module>::call, On<I, unload_module>::call,
          On<I, module_variable>::call, On<I, write_variable>::call, On<I, launch_module>::call};
}
template <int I> Device table() {
  Device d{};
  d.abi = kDeviceAbi;
  d.name = gpus[I].name;
  d.model = gpus[I].model;
  d.alloc = On<I, allocate>::call;
  d.free = On<I, release>::call;
  d.sync = On<I, wait>::call;
  d.upload = On<I, upload>::call;
  d.download = On<I, download>::call;
  d.trouble = trouble;
  d.map = On<I, map>::call;
  d.copy = On<I, copy>::call;
  d.gather = On<I, gather>::call;
  d.scatter = On<I, scatter>::call;
  d.locate = On<I, locate>::call;
  d.count_mask = On<I, count_mask>::call;
  d.compress = On<I, compress>::call;
  d.nonzero = On<I, nonzero>::call;
  d.search = On<I, search>::call;
  d.matmul = On<I, matmul>::call;
  d.conv = On<I, conv>::call;
  d.max_pool = On<I, max_pool>::call;
  d.reduce = On<I, reduce>::call;
  d.scan = On<I, scan>::call;
  d.sort = On<I, sort>::call;
  d.softmax = On<I, softmax>::call;
  d.normalize = On<I, normalize>::call;
  d.random = On<I, mt::random>::call;
  d.sgd = On<I, sgd>::call;
  d.adam = On<I, adam>::call;
  return d;
}
template <int... I> const Device* table(int index, std::integer_sequence<int, I...>) {
  static const Device all[] = {table<I>()...};
  return &all[index];
}
template <int... I> Modules modules(int index, std::integer_sequence<int, I...>) {
  static constexpr Modules (*all[])() = {modules<I>...};
  return all[index]();
}

/// Opens the GPU, or says why not.
bool open(int index, char* why, size_t room) {
  Gpu& g = gpus[index];
  if (g.open) return true;
  cudaDeviceProp p{};
  cudaError_t e = cudaGetDeviceProperties(&p, index);
  if (e == cudaSuccess) e = cudaSetDevice(index);
  if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&g.stream, cudaStreamNonBlocking);
  if (e == cudaSuccess) e = cudaDeviceGetDefaultMemPool(&g.pool, index);
  uint64_t keep = ~uint64_t(0);  // freed memory stays in the pool: asking the driver again is slow
  if (e == cudaSuccess) e = cudaMemPoolSetAttribute(g.pool, cudaMemPoolAttrReleaseThreshold, &keep);
  if (e != cudaSuccess) {
    std::snprintf(why, room, "the GPU cannot be opened: %s", cudaGetErrorString(e));
    cudaGetLastError();
    return false;
  }
  current = index;
  g.processors = p.multiProcessorCount;
  std::snprintf(g.name, sizeof g.name, "cuda:%d", index);
  std::snprintf(g.model, sizeof g.model, "%s", p.name);
  g.open = true;
  return true;
}

}  // namespace

cudaStream_t stream() { return gpus[current].stream; }
int processors() { return gpus[current].processors; }

bool check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return true;
  if (!troubled)
    std::snprintf(trouble_text, sizeof trouble_text, "%s failed: %s (%s)", doing,
                  cudaGetErrorString(error), cudaGetErrorName(error));
  troubled = true;
  return false;
}

}  // namespace mt::cuda

extern "C" {

/// How many GPUs there are; 0 with a sentence where there are none that can be used.
__attribute__((visibility("default"))) int mtorch_cuda_count(char* why, size_t room) {
  int n = 0, driver = 0, runtime = 0;
  const cudaError_t e = cudaGetDeviceCount(&n);
  if (e == cudaSuccess && n > 0)
    return n < mt::cuda::kMostDevices ? n : mt::cuda::kMostDevices;
  cudaGetLastError();
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0)
    std::snprintf(why, room, "there is no NVIDIA driver on this machine");
  else if (driver / 1000 < runtime / 1000)
    std::snprintf(why, room, "the NVIDIA driver is for CUDA %d.%d, mtorch was built with CUDA %d.%d; "
                  "install a newer driver", driver / 1000, driver % 1000 / 10, runtime / 1000,
                  runtime % 1000 / 10);
  else
    std::snprintf(why, room, "there is no NVIDIA GPU to be seen (%s)",
                  e == cudaSuccess ? "the driver lists none" : cudaGetErrorString(e));
  return 0;
}

/// The table of a GPU; null with a sentence where it cannot be used.
__attribute__((visibility("default"))) const mt::Device* mtorch_cuda_device(uint32_t abi, int index,
                                                                           char* why, size_t room) {
  if (abi != mt::kDeviceAbi) {
    std::snprintf(why, room, "the plug-in is of another version of mtorch (ABI %u, not %u)",
                  mt::kDeviceAbi, abi);
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
  return mt::cuda::table(index, std::make_integer_sequence<int, mt::cuda::kMostDevices>{});
}

/// How a GPU whose table was given runs code that is compiled meanwhile.
__attribute__((visibility("default"))) mt::Modules mtorch_cuda_modules(int index) {
  return mt::cuda::modules(index, std::make_integer_sequence<int, mt::cuda::kMostDevices>{});
}
}
