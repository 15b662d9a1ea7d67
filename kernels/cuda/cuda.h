// cuda.h -- shared by the files of the CUDA plug-in: the stream, launches, scratch memory, errors
//
// The plug-in is another table of verbs (kernels/device.h), with one stream per GPU: the work of a
// verb runs after all earlier work, and the host waits in `download` and `sync`, for uploads from
// pageable memory, and when it trims the pool. Verbs cannot fail: errors are kept until the engine
// takes them at a synchronization.
//
// Kernels are launched with `launch` (their threads do not cooperate) or `launch_blocks` (they use
// barriers, shared memory or shuffles), never with <<<>>>: thus the same files compile without CUDA
// against tests/cuda/cuda_runtime.h, which runs a launch on the CPU.
#pragma once
#include <cuda_runtime.h>

#ifndef __CUDACC__
#include <tuple>
#endif

#include "kernels/gpu.h"

namespace mt::cuda {

constexpr int kThreads = 256;  // the default block size

/// The stream of the calling thread's current device.
cudaStream_t stream();
/// The number of multiprocessors of that device.
int processors();
/// The index of that device.
int current_device();
/// Records an error: `doing` names the failed action. Returns whether there was none.
bool check(cudaError_t error, const char* doing);
void record_error(const char* what);

/// Whether an error makes further work pointless: then verbs launch nothing.
bool stopped();
/// Records the name of a kernel for later error messages; with MTORCH_CUDA_SYNC it also waits for
/// the kernel.
void started(const char* name);
/// Whether verbs are being captured into a graph.
bool capturing();
/// Makes the graph that is being captured keep the memory that these kernel arguments point to.
void keep(const void* arguments, size_t bytes);
/// The values that replays of the graph being captured can change; null if there is no capture.
const Replay* replay_values();

/// A bounds check of a verb; its kernels call `report_out_of_bounds`.
struct BoundsCheck {
  BadIndex* at;  // in the GPU's memory
  unsigned long long number;
};
BoundsCheck new_bounds_check();
/// Returns false if an index is out of bounds; without MTORCH_CUDA_SYNC it returns true at once.
bool bounds_ok(const BoundsCheck&);

extern bool timing;  // the profiler needs times (timing.cu)
void begin_timing(const char* name);
void end_timing();
/// A scope in which the profiler measures the GPU time of all queued work.
class Timed {
 public:
  explicit Timed(const char* name) : on_(timing && !capturing()) {
    if (on_) begin_timing(name);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() {
    if (on_) end_timing();
  }

 private:
  const bool on_;
};

/// Allocates memory in stream order; returns null, with a recorded error, if there is none.
void* take(size_t bytes);
void give(void* data, size_t bytes);
/// Stream-ordered memory that lives while a verb queues its kernels.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : data_(bytes ? take(bytes) : nullptr), bytes_(bytes) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (data_) give(data_, bytes_);
  }
  template <class T> T* as() const { return static_cast<T*>(data_); }

 private:
  void* data_;
  size_t bytes_;
};

/// The number of blocks for n elements, `each` per block, when threads run grid-stride loops.
inline unsigned blocks_for(int64_t n, int64_t each = kThreads) {
  const int64_t wanted = (n + each - 1) / each, most = int64_t(processors()) * 32;
  return unsigned(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

template <class... P, class... A>
void start(bool together, const char* name, void (*kernel)(P...), dim3 grid, dim3 block,
           size_t shared, const A&... a) {
  if (stopped()) return;
  if (capturing()) (keep(&a, sizeof a), ...);
  const Timed timed(name);
#ifdef __CUDACC__
  (void)together;
  if (shared > 48 << 10)  // more than 48 KiB needs an attribute
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)),
          name);
  kernel<<<grid, block, shared, stream()>>>(static_cast<P>(a)...);
#else
  emulation::start(
      name, together, grid, block, shared,
      [kernel, all = std::tuple<P...>(static_cast<P>(a)...)] { std::apply(kernel, all); });
#endif
  check(cudaGetLastError(), name);
  started(name);
}
/// Launches a kernel whose threads do not cooperate.
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, const A&... a) {
  start(false, name, kernel, grid, block, 0, a...);
}
/// Launches a kernel for n elements, whose grid-stride loop is over turns(n).
template <class... P, class... A>
void launch_each(const char* name, void (*kernel)(P...), int64_t n, const A&... a) {
  start(false, name, kernel, blocks_for(n), kThreads, 0, a...);
}
/// Launches memory-bound kernels: above 2^20 elements each thread runs one iteration, 3 to 5 %
/// faster on an H100 (copy, relu, exp, add of 64 Mi floats; gelu is 7 % slower with it).
template <class... P, class... A>
void launch_one_turn(const char* name, void (*kernel)(P...), int64_t n, const A&... a) {
  const bool many = n > int64_t(1) << 20;
  start(false, name, kernel, many ? unsigned((n + kThreads - 1) / kThreads) : blocks_for(n),
        kThreads, 0, a...);
}
/// Launches blocks of cooperating threads; `shared` is the size of shared_memory() in bytes.
template <class... P, class... A>
void launch_blocks(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                   const A&... a) {
  start(true, name, kernel, grid, block, shared, a...);
}

/// The dynamic shared memory of the launch.
template <class T> __device__ T* shared_memory() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char raw[];
  return reinterpret_cast<T*>(raw);
#else
  return static_cast<T*>(emulation::shared());
#endif
}

/// A vector of elements that a thread reads in one access.
template <class T, int N> struct alignas(sizeof(T) * N) Group { T v[N]; };

/// The index of the thread in a one-dimensional grid.
__device__ inline int64_t thread_number() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

/// The range of the numbers first, first + step, .. below `last`.
struct Turns {
  int64_t first, last, step;
  struct Turn {
    int64_t i, step;
    __device__ int64_t operator*() const { return i; }
    __device__ void operator++() { i += step; }
    __device__ bool operator!=(const Turn& end) const { return i < end.i; }
  };
  __device__ Turn begin() const { return {first, step}; }
  __device__ Turn end() const { return {last, 0}; }
};
/// The grid-stride range of this thread over n elements.
__device__ inline Turns turns(int64_t n) {
  return {thread_number(), n, int64_t(gridDim.x) * blockDim.x};
}

/// Records a position that is out of bounds.
__device__ inline void report_out_of_bounds(const BoundsCheck& c, int64_t position) {
  static_assert(sizeof(long long) == sizeof(int64_t));
  const auto before =
      atomicCAS(reinterpret_cast<unsigned long long*>(&c.at->check), 0ull, c.number);
  if (before != 0 && before != c.number) return;  // another verb recorded its error first
  atomicMin(reinterpret_cast<long long*>(&c.at->low), static_cast<long long>(position));
  atomicMax(reinterpret_cast<long long*>(&c.at->high), static_cast<long long>(position));
}

/// The offset of the i-th element in each of K operands; uses 32-bit divisions if they suffice.
template <int K>
__device__ inline void offsets_of(int64_t i, int ndim, const int64_t* size,
                                  const int64_t (*stride)[kMaxDims], int64_t* offset) {
  for (int k = 0; k < K; ++k) offset[k] = 0;
  for (int d = ndim - 1; d >= 0; --d) {
    int64_t place = i;
    if (d > 0) {
      if (((i | size[d]) >> 32) == 0) {
        const uint32_t rest = uint32_t(i) / uint32_t(size[d]);
        place = uint32_t(i) - rest * uint32_t(size[d]);
        i = rest;
      } else {
        const int64_t rest = i / size[d];
        place = i - rest * size[d];
        i = rest;
      }
    }
    for (int k = 0; k < K; ++k) offset[k] += place * stride[k][d];
  }
}

}  // namespace mt::cuda
