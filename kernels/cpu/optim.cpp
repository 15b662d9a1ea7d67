// optim.cpp -- the optimizers' verbs on the CPU: one pass over value, gradient and state
#include "kernels/optim.h"

#include "kernels/cpu/parallel.h"
#include "kernels/verbs.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

template <class T> [[gnu::noinline]] void sgd_as(const SgdStep& s) {
  T* value = static_cast<T*>(s.value);
  const T* grad = static_cast<const T*>(s.grad);
  T* velocity = static_cast<T*>(s.momentum_buffer);
  const SgdFormula<T> shared(s);
  parallel_strips(s.n, [&](int64_t from, int64_t to) {
    const SgdFormula<T> f = shared;  // a copy of its own: stores through T* cannot change it
    if (!velocity) {
      MT_INDEPENDENT
      for (int64_t i = from; i < to; ++i) f.step(value[i], grad[i]);
      return;
    }
    MT_INDEPENDENT
    for (int64_t i = from; i < to; ++i) f.step(value[i], grad[i], velocity[i]);
  });
}

template <class T> [[gnu::noinline]] void adam_as(const AdamStep& s) {
  T* value = static_cast<T*>(s.value);
  const T* grad = static_cast<const T*>(s.grad);
  T* mean = static_cast<T*>(s.mean);
  T* square = static_cast<T*>(s.square);
  const AdamFormula<T> shared(s);
  parallel_strips(s.n, [&](int64_t from, int64_t to) {
    const AdamFormula<T> f = shared;
    MT_INDEPENDENT
    for (int64_t i = from; i < to; ++i) f.step(value[i], grad[i], mean[i], square[i]);
  });
}

}  // namespace

// Moments that decay into denormals would make a step several times slower.
void sgd(const SgdStep& s) {
  const NoDenormals mode;
  s.dtype == Dtype::f64 ? sgd_as<double>(s) : sgd_as<float>(s);
}
void adam(const AdamStep& s) {
  const NoDenormals mode;
  s.dtype == Dtype::f64 ? adam_as<double>(s) : adam_as<float>(s);
}

}  // namespace MT_ISA
}  // namespace mt
