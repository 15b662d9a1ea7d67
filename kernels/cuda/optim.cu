// optim.cu -- the optimizers' verbs on CUDA: one pass over value, gradient and state
#include "kernels/optim.h"

#include "kernels/cuda/cuda.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// Moments below the smallest normal number are 0, as on the CPU.
template <class T> __device__ void flush(T& moment) {
  constexpr T least = sizeof(T) == 4 ? T(1.17549435e-38) : T(2.2250738585072014e-308);
  if (moment > -least && moment < least) moment = T(0);
}
template <class T>
__device__ void adam_element(const AdamFormula<T>& f, T& value, T grad, T& mean, T& square) {
  f.step(value, grad, mean, square);
  flush(mean), flush(square);
}
template <class T>
__device__ void sgd_element(const SgdFormula<T>& f, T& value, T grad, T& velocity) {
  f.step(value, grad, velocity);
  flush(velocity);
}
template <class T> __global__ void sgd_plain(SgdFormula<T> f, int64_t n, T* value, const T* grad) {
  for (int64_t i = cuda::thread_number(); i < n; i += cuda::thread_count())
    f.step(value[i], grad[i]);
}
template <class T>
__global__ void sgd_momentum(SgdFormula<T> f, int64_t n, T* value, const T* grad, T* velocity) {
  for (int64_t i = cuda::thread_number(); i < n; i += cuda::thread_count())
    sgd_element(f, value[i], grad[i], velocity[i]);
}
template <class T>
__global__ void adam_step(AdamFormula<T> f, int64_t n, T* value, const T* grad, T* mean,
                          T* square) {
  for (int64_t i = cuda::thread_number(); i < n; i += cuda::thread_count())
    adam_element(f, value[i], grad[i], mean[i], square[i]);
}

// In a graph, whose replays say the numbers of the step.
template <class T>
__global__ void sgd_replayed(const __grid_constant__ SgdStep call, const StepNumbers* now) {
  SgdStep s = call;
  s.now = *now;
  const SgdFormula<T> f(s);
  T* const value = static_cast<T*>(s.value);
  T* const velocity = static_cast<T*>(s.momentum_buffer);
  const T* const grad = static_cast<const T*>(s.grad);
  for (int64_t i = cuda::thread_number(); i < s.n; i += cuda::thread_count())
    if (velocity) sgd_element(f, value[i], grad[i], velocity[i]);
    else f.step(value[i], grad[i]);
}
template <class T>
__global__ void adam_replayed(const __grid_constant__ AdamStep call, const StepNumbers* now) {
  AdamStep s = call;
  s.now = *now;
  const AdamFormula<T> f(s);
  for (int64_t i = cuda::thread_number(); i < s.n; i += cuda::thread_count())
    adam_element(f, static_cast<T*>(s.value)[i], static_cast<const T*>(s.grad)[i],
                 static_cast<T*>(s.mean)[i], static_cast<T*>(s.square)[i]);
}

/// Where the step that is recorded finds its numbers, or null.
const StepNumbers* numbers_of_replay() {
  const Replay* const replay = cuda::step_entry() >= 0 ? cuda::replay_values() : nullptr;
  return replay ? &replay->step[cuda::step_entry()] : nullptr;
}

template <class T> void sgd_as(const SgdStep& s) {
  const unsigned blocks = cuda::blocks_for(s.n, cuda::kThreads);
  if (const StepNumbers* now = numbers_of_replay())
    return cuda::launch("sgd", sgd_replayed<T>, blocks, cuda::kThreads, s, now);
  const SgdFormula<T> f(s);
  T* const value = static_cast<T*>(s.value);
  const T* const grad = static_cast<const T*>(s.grad);
  if (s.momentum_buffer)
    cuda::launch("sgd", sgd_momentum<T>, blocks, cuda::kThreads, f, s.n, value, grad,
                 static_cast<T*>(s.momentum_buffer));
  else cuda::launch("sgd", sgd_plain<T>, blocks, cuda::kThreads, f, s.n, value, grad);
}
template <class T> void adam_as(const AdamStep& s) {
  const unsigned blocks = cuda::blocks_for(s.n, cuda::kThreads);
  if (const StepNumbers* now = numbers_of_replay())
    return cuda::launch("adam", adam_replayed<T>, blocks, cuda::kThreads, s, now);
  cuda::launch("adam", adam_step<T>, blocks, cuda::kThreads, AdamFormula<T>(s), s.n,
               static_cast<T*>(s.value), static_cast<const T*>(s.grad), static_cast<T*>(s.mean),
               static_cast<T*>(s.square));
}

}  // namespace

void sgd(const SgdStep& s) {
  if (s.n > 0) s.dtype == Dtype::f64 ? sgd_as<double>(s) : sgd_as<float>(s);
}
void adam(const AdamStep& s) {
  if (s.n > 0) s.dtype == Dtype::f64 ? adam_as<double>(s) : adam_as<float>(s);
}

}  // namespace MT_ISA
}  // namespace mt
