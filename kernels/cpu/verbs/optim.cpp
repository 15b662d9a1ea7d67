// optim.cpp -- a step of an optimizer on the CPU: one pass over all parameters, gradients and state
#include "kernels/cpu/pool/parallel.h"
#include "kernels/optimizers.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// Runs the step for the elements `from` to `to` of one parameter.
template <class O, unsigned States, class T> struct Elements {
  [[gnu::noinline]] static void run(const OptimizeTensor& p, const double* row, int64_t from,
                                    int64_t to) {
    const optim::Numbers<O, T> k = optim::numbers_in<O, T>(row);
    T* const value = static_cast<T*>(p.value);
    const T* const grad = static_cast<const T*>(p.grad);
    T* const state[] = {static_cast<T*>(p.state[0]), static_cast<T*>(p.state[1]),
                        static_cast<T*>(p.state[2])};
    MT_INDEPENDENT
    for (int64_t i = from; i < to; ++i)
      optim::update<O, States>(k, value, k.sign * grad[i], state, i);
  }
};
using Run = void (*)(const OptimizeTensor&, const double* row, int64_t from, int64_t to);

/// The parameter that contains element i, counted over all parameters.
int parameter_at(const Optimize& o, int64_t i) {
  int first = 0, end = o.count;
  while (end - first > 1) {
    const int middle = first + (end - first) / 2;
    (o.tensors[middle].before <= i ? first : end) = middle;
  }
  return first;
}

}  // namespace

void optimize(const Optimize& o) {
  const NoDenormals mode;  // moments that decay into denormals would make a step much slower
  const Run run = optim::Table<Elements, Run>::find(o);
  parallel_strips(o.n, [&](int64_t from, int64_t to) {
    for (int k = parameter_at(o, from); from < to; ++k) {
      const OptimizeTensor& p = o.tensors[k];
      const int64_t end = p.before + p.n < to ? p.before + p.n : to;
      run(p, o.numbers + p.row * kMaxNumbers, from - p.before, end - p.before);
      from = end;
    }
  });
}

}  // namespace MT_ISA
}  // namespace mt
