// cuda.h -- what the files of the CUDA plug-in share: the stream, launches, scratch memory, trouble
//
// The plug-in is one more table of verbs (kernels/device.h), on one stream for each GPU: whatever a
// verb starts runs after what was started before, and nobody waits but for `download` and `sync`.
// Verbs cannot fail; what goes wrong is noted, and the engine asks for it where it waits.
//
// Kernels are started through `launch` (their threads do not talk to each other) or `launch_blocks`
// (they do: barriers, shared memory, shuffles), never with <<<>>>: so the same files compile without
// CUDA against tests/cuda/cuda_runtime.h, which runs a launch on the CPU.
#pragma once
#include <cuda_runtime.h>

#include "kernels/base.h"

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

extern bool timing;  // the profiler asks for times (timing.cu)
void begin_timing(const char* name);
void end_timing();
/// Under the profiler, the time that the GPU takes for what is queued meanwhile.
class Timed {
 public:
  explicit Timed(const char* name) : on_(timing) {
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

/// Memory for as long as a verb queues its kernels; freed in the stream's order.
class Scratch {
 public:
  explicit Scratch(size_t bytes) {
    check(cudaMallocAsync(&data_, bytes ? bytes : 1, stream()), "scratch memory");
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (data_) check(cudaFreeAsync(data_, stream()), "scratch memory");
  }
  template <class T> T* as() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

/// How many blocks cover n elements, `each` to a block, when a thread may take several turns.
inline unsigned blocks_for(int64_t n, int64_t each) {
  const int64_t wanted = (n + each - 1) / each, most = int64_t(processors()) * 32;
  return unsigned(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

template <class... P, class... A>
void start(bool together, const char* name, void (*kernel)(P...), dim3 grid, dim3 block,
           size_t shared, const A&... a) {
  const Timed timed(name);
#ifdef __CUDACC__
  (void)together;
  kernel<<<grid, block, shared, stream()>>>(static_cast<P>(a)...);
#else
  emulation::launch(together, grid, block, shared, [&] { kernel(static_cast<P>(a)...); });
#endif
  check(cudaGetLastError(), name);
}
/// Threads that do not talk to each other.
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, const A&... a) {
  start(false, name, kernel, grid, block, 0, a...);
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

/// The number of the thread in the grid, and how many there are: one dimension.
__device__ inline int64_t thread_number() {
  return int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t thread_count() { return int64_t(gridDim.x) * blockDim.x; }

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
