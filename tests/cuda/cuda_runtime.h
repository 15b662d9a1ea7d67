// cuda_runtime.h -- CUDA without a GPU, for tests: a launch runs on the CPU, a thread being a fiber
//
// Found instead of NVIDIA's header when the plug-in's files are compiled by the C++ compiler. Blocks
// run one after the other; the threads of a block take turns, and a turn ends at a barrier or a
// shuffle. A barrier that some threads of a block never reach, or one in a kernel that was started
// as needing none, ends the program with a sentence: on a GPU it would hang, or pass unseen.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __restrict__
#define __align__(n) alignas(n)
#define __shared__ static  // blocks run one after the other, so one copy is enough

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
using uint3 = dim3;
inline dim3 threadIdx, blockIdx, blockDim, gridDim;
constexpr int warpSize = 32;

namespace emulation {

/// Runs `kernel` for every thread of the grid. `together`: it may use barriers and shuffles.
void launch(const char* name, bool together, dim3 grid, dim3 block, size_t shared,
            const std::function<void()>& kernel);
/// The same as part of the stream: done, or recorded while it is captured, or made to fail.
void start(const char* name, bool together, dim3 grid, dim3 block, size_t shared,
           std::function<void()> kernel);
/// Work of another stream than the first: it is tried until it returns that it is done.
void start_on(void* stream, std::function<bool()> step);
/// Whether this memory of a GPU has been allocated, and not freed.
bool is_held(const void*, size_t bytes);
void* shared();
/// That memory, for races.cpp.
void* shared_begin();
void* shared_end();
/// The memory of the GPUs.
void* allocate(size_t bytes);
void release(void*);
void copy(void* to, const void* from, size_t bytes);
void fill(void* p, int value, size_t bytes);
void barrier();
/// What lane `from` of the warp gives, once all lanes of `mask` are here: `value` where `from` is no
/// lane of the mask. At most 16 bytes.
void exchange(unsigned mask, const void* value, void* answer, size_t bytes, int from);
int lane();
/// The lanes of the mask whose `predicate` holds.
unsigned vote(unsigned mask, bool predicate);
/// What each lane of the warp gives, of at most 32 bytes; it stays until the lane's next call but one.
struct Given {
  alignas(16) unsigned char bytes[32];
};
const Given* gather(const void* value, size_t bytes);
/// cp.async of 16 bytes, of zeros where `from` is null: they come when the thread waits. Until then
/// others may not touch `to`, where there is rubbish.
void copy_later(void* to, const void* from);
void copies_done();
/// A meeting that orders the memory accesses of the mask's lanes; the others need not.
void meet_in_order(unsigned mask);

/// Races in shared memory (races.cpp): what a thread of the block touches, and what orders it.
void touch_shared(const void* at, size_t bytes, bool write);
void all_in_order();
void warp_in_order(int warp);
/// A thread and a place, for the sentence about a race.
struct Toucher {
  int thread;
  const char* kernel;
};
Toucher toucher();
[[noreturn]] void stop_launch(const char* sentence);
bool asked(const char* word);  // whether MTORCH_EMULATION names it

/// What the library of a script's kernel needs of this one, which tells it at the start (module.h).
struct Words {
  dim3* index[4];
  void* (*shared)();
  void (*barrier)();
  void (*exchange)(unsigned, const void*, void*, size_t, int);
  int (*lane)();
  unsigned (*vote)(unsigned, bool);
};

/// CUDA C of a script, compiled by the C++ compiler when it is first launched. `name` is the
/// kernel's in the text.
struct Loaded;
Loaded* load(const char* source, const char* name);
void unload(Loaded*);
/// What a launch calls for each thread; compiles.
void (*kernel_of(Loaded*))(void** arguments);
void* variable(Loaded*, const char* name, size_t* bytes);

template <class T> T from_lane(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= 16 && std::is_trivially_copyable_v<T>);
  T answer = value;
  exchange(mask, &value, &answer, sizeof(T), from);
  return answer;
}

/// The nearest float with the 11 bits of TF32.
inline float rounded_to_tf32(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x1000) & ~uint32_t(0x1fff);
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}

/// ldmatrix: four of 8 x 8 elements of 16 bits, whose rows begin where the lanes say.
inline void load_matrices(uint32_t (&m)[4], const void* row, bool across) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) stop_launch("a row for ldmatrix is not aligned");
  const Given* const rows = gather(&row, sizeof row);
  const int l = lane();
  for (int i = 0; i < 4; ++i) {
    uint16_t two[2];
    for (int k = 0; k < 2; ++k) {
      const int of_row = across ? l % 4 * 2 + k : l / 4, column = across ? l / 4 : l % 4 * 2 + k;
      const uint16_t* at;
      std::memcpy(&at, rows[i * 8 + of_row].bytes, sizeof at);
      two[k] = at[column];
    }
    std::memcpy(&m[i], two, sizeof two);
  }
}
/// mma.sync.m16n8k16 of elements T, row by column, summed in float.
template <class T> void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const Given* const all = gather(mine, sizeof mine);
  const auto element = [&](int of_lane, int word, int half) {
    T x;
    std::memcpy(&x, all[of_lane].bytes + word * 4 + half * 2, 2);
    return float(x);
  };
  const int l = lane();
  for (int i = 0; i < 4; ++i) {
    const int row = l / 4 + i / 2 * 8, column = l % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k)
      c[i] += element(row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2, k % 2) *
              element(column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
  }
}

}  // namespace emulation

inline void __syncthreads() { emulation::barrier(); }
inline void __syncwarp(unsigned mask = ~0u) { emulation::meet_in_order(mask); }
inline void __threadfence() {}
template <class T> T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
  const int lane = emulation::lane();
  return emulation::from_lane(mask, v, lane / width * width + from % width);
}
template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const int lane = emulation::lane(), from = lane + int(by);
  return emulation::from_lane(mask, v, from / width == lane / width ? from : lane);
}
template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const int lane = emulation::lane(), from = lane - int(by);
  return emulation::from_lane(mask, v, from >= lane / width * width ? from : lane);
}
template <class T> T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32) {
  const int lane = emulation::lane(), from = lane ^ by;
  return emulation::from_lane(mask, v, from / width == lane / width ? from : lane);
}
inline unsigned __ballot_sync(unsigned mask, bool p) { return emulation::vote(mask, p); }
inline bool __any_sync(unsigned mask, bool p) { return emulation::vote(mask, p) != 0; }
inline bool __all_sync(unsigned mask, bool p) { return emulation::vote(mask, p) == mask; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }

// Atomics are no race among themselves.
#define MT_ATOMIC __attribute__((no_sanitize("thread")))
template <class T, class U> MT_ATOMIC T atomicAdd(T* at, U v) {
  const T old = *at;
  *at = T(old + v);
  return old;
}
template <class T, class U> MT_ATOMIC T atomicMax(T* at, U v) {
  const T old = *at;
  if (T(v) > old) *at = T(v);
  return old;
}
template <class T, class U> MT_ATOMIC T atomicMin(T* at, U v) {
  const T old = *at;
  if (T(v) < old) *at = T(v);
  return old;
}
template <class T> MT_ATOMIC T atomicExch(T* at, T v) {
  const T old = *at;
  *at = v;
  return old;
}
template <class T> MT_ATOMIC T atomicCAS(T* at, T expected, T v) {
  const T old = *at;
  if (old == expected) *at = v;
  return old;
}

// ---- the little of the runtime that the plug-in calls --------------------------------------------
//
// Tests make it fail through the environment:
//   MTORCH_EMULATED_FAULT=5:700        the 5th launch fails with error 700; those from 700 on, and
//                                      214 and 220, are seen by the next call that waits, and stay
//   MTORCH_EMULATED_MEMORY=1048576     as many bytes there are
//   MTORCH_EMULATED_GPU=nopools,pageable,turing,eight   it has no memory pools; it reads the host's pageable
//                                      memory; its compute capability is 7.5, not 9.0; there are 8, not 2
//   MTORCH_EMULATED_RUNTIME=12080      the version of CUDA that the plug-in was built with
//   MTORCH_EMULATED_COUNT=35:12000     cudaGetDeviceCount answers 35, the driver is CUDA 12.0

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorNoDevice = 100,
  cudaErrorECCUncorrectable = 214,
  cudaErrorNvlinkUncorrectable = 220,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorUnknown = 999,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4, cudaMemPoolAttrReservedMemCurrent = 5 };
enum cudaDeviceAttr { cudaDevAttrPageableMemoryAccess = 88, cudaDevAttrMemoryPoolsSupported = 115 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };
using cudaStream_t = void*;
using cudaMemPool_t = void*;
using cudaEvent_t = void*;
using cudaGraph_t = void*;
using cudaGraphExec_t = void*;
constexpr unsigned cudaStreamNonBlocking = 1, cudaHostAllocDefault = 0, cudaEventDefault = 0,
                   cudaEventDisableTiming = 2;
struct cudaDeviceProp {
  char name[256];
  int multiProcessorCount, major, minor;
  size_t totalGlobalMem;
  int warpSize, maxThreadsPerBlock, maxThreadsPerMultiProcessor, regsPerMultiprocessor;
  size_t sharedMemPerBlock;
  int l2CacheSize;
};

cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t);
cudaError_t cudaFreeAsync(void* p, cudaStream_t);
cudaError_t cudaMalloc(void** p, size_t n);
cudaError_t cudaFree(void* p);
cudaError_t cudaHostAlloc(void** p, size_t n, unsigned);
template <class T> cudaError_t cudaMalloc(T** p, size_t n) {
  return cudaMalloc(reinterpret_cast<void**>(p), n);
}
template <class T> cudaError_t cudaHostAlloc(T** p, size_t n, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(p), n, flags);
}
cudaError_t cudaFreeHost(void* p);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemsetAsync(void* p, int v, size_t n, cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
cudaError_t cudaGetDeviceCount(int* n);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaDeviceGetPCIBusId(char* text, int room, int device);
cudaError_t cudaDriverGetVersion(int* v);
cudaError_t cudaRuntimeGetVersion(int* v);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int device);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* p, int);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t first, cudaEvent_t second);
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
