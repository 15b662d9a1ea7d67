// optim.cu -- an optimizer step on CUDA: one launch for up to 64 parameters
#include "kernels/cuda/cuda.h"
#include "kernels/optimizers.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int kMaxTensors = 64, kMaxRows = 4;
static_assert(kMaxStates == 3);  // as optimize_batch lists them
/// The arguments of a launch. `row` is the index of a parameter's row of `numbers`; in a graph `replayed` has a row for
/// each parameter instead.
struct Batch {
  const double* replayed;
  int count;
  int first[kMaxTensors + 1];  // the first block of each parameter
  uint8_t row[kMaxTensors];
  int64_t n[kMaxTensors];
  void* value[kMaxTensors];
  const void* grad[kMaxTensors];
  void* state[kMaxStates][kMaxTensors];
  double numbers[kMaxRows][kMaxNumbers];
};
static_assert(sizeof(Batch) <= 4096, "every GPU accepts 4096 bytes");

/// Flushes moments below the smallest normal number to 0, as on the CPU.
template <class T> __device__ void flush(T& moment) {
  constexpr T least = sizeof(T) == 4 ? T(1.17549435e-38) : T(2.2250738585072014e-308);
  if (moment > -least && moment < least) moment = T(0);
}

template <class O, unsigned States, class T>
__global__ void optimize_batch(const __grid_constant__ Batch b) {
  const int block = int(blockIdx.x);
  int t = 0;
  for (int half = kMaxTensors / 2; half > 0; half /= 2)
    if (t + half < b.count && b.first[t + half] <= block) t += half;
  const optim::Numbers<O, T> k =
      optim::numbers_in<O, T>(b.replayed ? b.replayed + t * kMaxNumbers : b.numbers[b.row[t]]);
  T* const value = static_cast<T*>(b.value[t]);
  const T* const grad = static_cast<const T*>(b.grad[t]);
  T* const state[] = {static_cast<T*>(b.state[0][t]), static_cast<T*>(b.state[1][t]),
                      static_cast<T*>(b.state[2][t])};
  const int64_t n = b.n[t], threads = int64_t(b.first[t + 1] - b.first[t]) * blockDim.x;
  for (int64_t i = int64_t(block - b.first[t]) * blockDim.x + threadIdx.x; i < n; i += threads) {
    optim::update<O, States>(k, value, k.sign * grad[i], state, i);
    for (int s = 0; s < optim::states<O>; ++s)
      if (optim::has(States, s)) flush(state[s][i]);
  }
}

template <class O, unsigned States, class T> struct Launch {
  static void run(const Batch& b) {
    cuda::launch(O::info.name, optimize_batch<O, States, T>, unsigned(b.first[b.count]),
                 cuda::kThreads, b);
  }
};
using Run = void (*)(const Batch&);

}  // namespace

void optimize(const Optimize& o) {
  const Run run = optim::Table<Launch, Run>::find(o);
  for (int from = 0, i; from < o.count; from = i) {
    Batch b{};
    b.replayed = o.on_device ? o.numbers + o.tensors[from].row * kMaxNumbers : nullptr;
    int rows = 0, last = -1;
    for (i = from; i < o.count && b.count != kMaxTensors; ++i) {  // nvcc 13 misparses `count <`
      const OptimizeTensor& p = o.tensors[i];
      if (!o.on_device && p.row != last) {
        if (rows == kMaxRows) break;
        __builtin_memcpy(b.numbers[rows++], o.numbers + p.row * kMaxNumbers, sizeof b.numbers[0]);
        last = p.row;
      }
      const int k = b.count++;
      b.row[k] = uint8_t(rows - 1);
      b.n[k] = p.n, b.value[k] = p.value, b.grad[k] = p.grad;
      for (int s = 0; s < kMaxStates; ++s) b.state[s][k] = p.state[s];
      b.first[k + 1] = b.first[k] + int(cuda::blocks_for(p.n, 4 * cuda::kThreads));
    }
    run(b);
  }
}

}  // namespace MT_ISA
}  // namespace mt
