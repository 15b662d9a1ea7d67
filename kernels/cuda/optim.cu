// optim.cu -- the optimizers' verbs on CUDA: one pass over value, gradient and state
#include "kernels/optim.h"

#include "kernels/cuda/cuda.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

template <class T> __global__ void sgd_plain(SgdFormula<T> f, int64_t n, T* value, const T* grad) {
  for (int64_t i = cuda::thread_number(); i < n; i += cuda::thread_count())
    f.step(value[i], grad[i]);
}
template <class T>
__global__ void sgd_momentum(SgdFormula<T> f, int64_t n, T* value, const T* grad, T* velocity) {
  for (int64_t i = cuda::thread_number(); i < n; i += cuda::thread_count())
    f.step(value[i], grad[i], velocity[i]);
}
template <class T>
__global__ void adam_step(AdamFormula<T> f, int64_t n, T* value, const T* grad, T* mean,
                          T* square) {
  for (int64_t i = cuda::thread_number(); i < n; i += cuda::thread_count())
    f.step(value[i], grad[i], mean[i], square[i]);
}

/// In a graph, whose replays say the number of the step.
template <class T>
__global__ void adam_replayed(const __grid_constant__ AdamStep call, const int64_t* number) {
  AdamStep s = call;
  s.step = *number;
  const AdamFormula<T> f(s);
  for (int64_t i = cuda::thread_number(); i < s.n; i += cuda::thread_count())
    f.step(static_cast<T*>(s.value)[i], static_cast<const T*>(s.grad)[i],
           static_cast<T*>(s.mean)[i], static_cast<T*>(s.square)[i]);
}

template <class T> void sgd_as(const SgdStep& s) {
  const unsigned blocks = cuda::blocks_for(s.n, cuda::kThreads);
  const SgdFormula<T> f(s);
  T* const value = static_cast<T*>(s.value);
  const T* const grad = static_cast<const T*>(s.grad);
  if (s.momentum_buffer)
    cuda::launch("sgd", sgd_momentum<T>, blocks, cuda::kThreads, f, s.n, value, grad,
                 static_cast<T*>(s.momentum_buffer));
  else cuda::launch("sgd", sgd_plain<T>, blocks, cuda::kThreads, f, s.n, value, grad);
}
template <class T> void adam_as(const AdamStep& s) {
  if (const Replay* replay = cuda::replay_values(); replay && cuda::step_entry() >= 0)
    return cuda::launch("adam", adam_replayed<T>, cuda::blocks_for(s.n, cuda::kThreads),
                        cuda::kThreads, s, &replay->step[cuda::step_entry()]);
  cuda::launch("adam", adam_step<T>, cuda::blocks_for(s.n, cuda::kThreads), cuda::kThreads,
               AdamFormula<T>(s), s.n, static_cast<T*>(s.value), static_cast<const T*>(s.grad),
               static_cast<T*>(s.mean), static_cast<T*>(s.square));
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
