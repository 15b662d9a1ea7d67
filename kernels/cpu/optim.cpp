// optim.cpp -- the optimizers' verbs on the CPU: one pass over value, gradient and state
#include "kernels/cpu/parallel.h"
#include "kernels/verbs.h"
#include "kernels/math.h"
#include "kernels/number.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kPieceSize = 32768;

template <class Body> void pieces(int64_t n, const Body& body) {
  parallel((n + kPieceSize - 1) / kPieceSize, n > 2 * kPieceSize,
           [&](int64_t p) { body(p * kPieceSize, smaller(n, (p + 1) * kPieceSize)); });
}

/// As torch.optim.SGD: the velocity is momentum * velocity + gradient, the step lr * velocity.
template <class T> void sgd_as(const SgdStep& s) {
  T* value = static_cast<T*>(s.value);
  const T* grad = static_cast<const T*>(s.grad);
  T* velocity = static_cast<T*>(s.momentum_buffer);
  const T lr = T(s.lr), decay = T(s.weight_decay), momentum = T(s.momentum);
  const T fresh = s.first ? T(1) : T(1 - s.dampening), kept = s.first ? T(0) : momentum;
  pieces(s.n, [&](int64_t from, int64_t to) {
    if (!velocity) {
      MT_INDEPENDENT
      for (int64_t i = from; i < to; ++i) value[i] -= lr * (grad[i] + decay * value[i]);
      return;
    }
    const T ahead = s.nesterov ? momentum : T(1), now = s.nesterov ? T(1) : T(0);
    MT_INDEPENDENT
    for (int64_t i = from; i < to; ++i) {
      const T g = grad[i] + decay * value[i];
      const T v = kept * velocity[i] + fresh * g;
      velocity[i] = v;
      value[i] -= lr * (now * g + ahead * v);
    }
  });
}

/// As torch.optim.Adam and AdamW (Kingma 2015, Loshchilov 2019).
template <class T> void adam_as(const AdamStep& s) {
  T* value = static_cast<T*>(s.value);
  const T* grad = static_cast<const T*>(s.grad);
  T* mean = static_cast<T*>(s.mean);
  T* square = static_cast<T*>(s.square);
  const double unbias1 = 1 - math::pow(s.beta1, double(s.step)),
               unbias2 = 1 - math::pow(s.beta2, double(s.step));
  const T beta1 = T(s.beta1), beta2 = T(s.beta2), rest1 = T(1 - s.beta1), rest2 = T(1 - s.beta2);
  const T step = T(s.lr / unbias1), scale = T(1 / __builtin_sqrt(unbias2)), eps = T(s.eps);
  const T shrink = s.decoupled ? T(1 - s.lr * s.weight_decay) : T(1),
          decay = s.decoupled ? T(0) : T(s.weight_decay);
  pieces(s.n, [&](int64_t from, int64_t to) {
    MT_INDEPENDENT
    for (int64_t i = from; i < to; ++i) {
      const T v = value[i] * shrink, g = grad[i] + decay * v;
      const T m = beta1 * mean[i] + rest1 * g, q = beta2 * square[i] + rest2 * g * g;
      mean[i] = m;
      square[i] = q;
      value[i] = v - step * m / (math::sqrt(q) * scale + eps);
    }
  });
}

}  // namespace

void sgd(const SgdStep& s) { s.dtype == Dtype::f64 ? sgd_as<double>(s) : sgd_as<float>(s); }
void adam(const AdamStep& s) { s.dtype == Dtype::f64 ? adam_as<double>(s) : adam_as<float>(s); }

}  // namespace MT_ISA
}  // namespace mt
