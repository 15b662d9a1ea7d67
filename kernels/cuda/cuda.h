// cuda.h -- what the files of the CUDA plug-in share: the stream, launches, scratch memory, errors
//
// The plug-in is one more table of verbs (kernels/device.h), on one stream for each GPU: whatever a
// verb starts runs after what was started before, and the host
// waits in `download` and `sync`, for uploads from pageable memory, and to trim the pool. Verbs cannot
// fail: errors are kept until the engine takes them at a synchronisation.
//
// Kernels are started through `launch` (their threads do not talk to each other) or `launch_blocks`
// (they do: barriers, shared memory, shuffles), never with <<<>>>: so the same files compile without
// CUDA against tests/cuda/cuda_runtime.h, which runs a launch on the CPU.
#pragma once
#include <cuda_runtime.h>

#ifndef __CUDACC__
#include <tuple>
#endif

#include "kernels/gpu.h"

namespace mt::cuda {

constexpr int kThreads = 256;  // of a block, where nothing asks for another number

/// The stream of the device that the calling thread works on.
cudaStream_t stream();
/// The number of multiprocessors of that device.
int processors();
/// Its number.
int current_device();
/// Notes an error: `doing` says what failed. Returns whether all is well.
bool check(cudaError_t error, const char* doing);

/// Whether what went wrong leaves nothing to be done: verbs start nothing then.
bool stopped();
/// Remembers a kernel's name, for the sentence about what fails later; and with MTORCH_CUDA_SYNC
/// waits for it.
void started(const char* name);
/// Whether verbs are recorded into a graph.
bool capturing();
/// A graph that is being captured keeps the memory that these arguments of a kernel point to.
void keep(const void* arguments, size_t bytes);
/// Of the graph that is being captured: what its replays say again; else null.
const Replay* replay_values();

/// A verb that looks whether positions are there; its kernels call `report_out_of_bounds`.
struct BoundsCheck {
  BadIndex* at;  // in the GPU's memory
  unsigned long long number;
};
BoundsCheck new_bounds_check();
/// False: one is not there. Waits with MTORCH_CUDA_SYNC only, else says true.
bool bounds_ok(const BoundsCheck&);

extern bool timing;  // the profiler asks for times (timing.cu)
void begin_timing(const char* name);
void end_timing();
/// Under the profiler, the time that the GPU takes for what is queued meanwhile.
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

/// Memory in the stream's order; null where there is none, which is noted.
void* take(size_t bytes);
void give(void* data, size_t bytes);
/// Memory for as long as a verb queues its kernels.
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

/// How many blocks cover n elements, `each` to a block, when a thread may take several turns.
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
  if (shared > 48 << 10)  // more must be asked for
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
/// Threads that do not talk to each other.
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, const A&... a) {
  start(false, name, kernel, grid, block, 0, a...);
}
/// The same for n elements: the kernel's loop is over turns(n).
template <class... P, class... A>
void launch_each(const char* name, void (*kernel)(P...), int64_t n, const A&... a) {
  start(false, name, kernel, blocks_for(n), kThreads, 0, a...);
}
/// The same of kernels that little but moves memory: from 2^20 elements on each thread takes one turn, which is 3 to
/// 5 % faster on an H100 (copy, relu, exp, add of 64 Mi floats; gelu is 7 % slower so).
template <class... P, class... A>
void launch_one_turn(const char* name, void (*kernel)(P...), int64_t n, const A&... a) {
  const bool many = n > int64_t(1) << 20;
  start(false, name, kernel, many ? unsigned((n + kThreads - 1) / kThreads) : blocks_for(n),
        kThreads, 0, a...);
}
/// Blocks of threads that do; `shared` bytes for shared_memory().
template <class... P, class... A>
void launch_blocks(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                   const A&... a) {
  start(true, name, kernel, grid, block, shared, a...);
}

/// The shared memory whose size the launch gave.
template <class T> __device__ T* shared_memory() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char raw[];
  return reinterpret_cast<T*>(raw);
#else
  return static_cast<T*>(emulation::shared());
#endif
}

/// As many elements as a thread reads at once.
template <class T, int N> struct alignas(sizeof(T) * N) Group { T v[N]; };

/// The number of the thread in the grid: one dimension.
__device__ inline int64_t thread_number() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

/// The numbers first, first + step, .. below `last`, as a range.
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
/// Those of n elements that are this thread's.
__device__ inline Turns turns(int64_t n) {
  return {thread_number(), n, int64_t(gridDim.x) * blockDim.x};
}

/// Notes a position that is not there.
__device__ inline void report_out_of_bounds(const BoundsCheck& c, int64_t position) {
  static_assert(sizeof(long long) == sizeof(int64_t));
  const auto before =
      atomicCAS(reinterpret_cast<unsigned long long*>(&c.at->check), 0ull, c.number);
  if (before != 0 && before != c.number) return;  // another verb was first
  atomicMin(reinterpret_cast<long long*>(&c.at->low), static_cast<long long>(position));
  atomicMax(reinterpret_cast<long long*>(&c.at->high), static_cast<long long>(position));
}

/// Where the i-th element lies for each of K operands; 32-bit divisions where they suffice.
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
