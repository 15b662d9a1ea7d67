// optim.h -- the optimizers' formulas for one element
#pragma once
#include "kernels/device.h"
#include "kernels/math/math.h"
#include "kernels/math/number.h"

namespace mt {
inline namespace MT_ISA {

/// As torch.optim.SGD: the velocity is momentum * velocity + gradient, the step lr * velocity.
template <class T> struct SgdFormula {
  T lr, decay, fresh, kept, ahead, now;

  MT_HD explicit SgdFormula(const SgdStep& s)
      : lr(T(s.now.lr)),
        decay(T(s.weight_decay)),
        fresh(s.first ? T(1) : T(1 - s.dampening)),
        kept(s.first ? T(0) : T(s.momentum)),
        ahead(s.nesterov ? T(s.momentum) : T(1)),
        now(s.nesterov ? T(1) : T(0)) {}
  /// Without momentum.
  MT_HD void step(T& value, T grad) const { value -= lr * (grad + decay * value); }
  MT_HD void step(T& value, T grad, T& velocity) const {
    const T g = grad + decay * value;
    const T v = kept * velocity + fresh * g;
    velocity = v;
    value -= lr * (now * g + ahead * v);
  }
};

/// As torch.optim.Adam and AdamW (Kingma 2015, Loshchilov 2019).
template <class T> struct AdamFormula {
  T beta1, beta2, rest1, rest2, rate, scale, eps, shrink, decay;

  MT_HD explicit AdamFormula(const AdamStep& s)
      : beta1(T(s.beta1)),
        beta2(T(s.beta2)),
        rest1(T(1 - s.beta1)),
        rest2(T(1 - s.beta2)),
        rate(T(s.now.lr / s.now.bias1)),
        scale(T(1 / math::sqrt(s.now.bias2))),
        eps(T(s.eps)),
        shrink(s.decoupled ? T(1 - s.now.lr * s.weight_decay) : T(1)),
        decay(s.decoupled ? T(0) : T(s.weight_decay)) {}
  MT_HD void step(T& value, T grad, T& mean, T& square) const {
    const T v = value * shrink, g = grad + decay * v;
    const T m = beta1 * mean + rest1 * g, q = beta2 * square + rest2 * g * g;
    mean = m;
    square = q;
    value = v - rate * m / (math::sqrt(q) * scale + eps);
  }
};

}  // namespace MT_ISA
}  // namespace mt
