// random.cu -- the random verb on CUDA: one thread for each counter
#include "kernels/math/random.h"

#include "kernels/cuda/cuda.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// Each counter yields `Group` elements; some of the last counter may be unused. A replayed
/// graph updates its position in the stream of random numbers.
template <class T, int Group>
__global__ void fill(const __grid_constant__ Random call, const Replay* replay) {
  struct alignas(sizeof(T) * Group) Values {
    T v[Group];
  };
  Random r = call;
  if (replay) r.seed = replay->seed, r.offset += replay->offset;
  T* const out = static_cast<T*>(r.out);
  const bool aligned = reinterpret_cast<uintptr_t>(out) % alignof(Values) == 0;
  const int64_t groups = (r.n + Group - 1) / Group;
  for (const int64_t g : cuda::turns(groups)) {
    T value[4] = {};
    random_values(r, uint64_t(g), value);
    if (aligned && (g + 1) * Group <= r.n) {
      Values all;
      for (int i = 0; i < Group; ++i) all.v[i] = value[i];
      reinterpret_cast<Values*>(out)[g] = all;
    } else {
      const int64_t n = smaller<int64_t>(Group, r.n - g * Group);
      for (int i = 0; i < n; ++i) out[g * Group + i] = value[i];
    }
  }
}

template <class T, int Group> void run(const Random& r) {
  cuda::launch_each("random", fill<T, Group>, (r.n + Group - 1) / Group, r, cuda::replay_values());
}

}  // namespace

void random(const Random& r) {
  if (r.n == 0) return;
  with_element(r.dtype, [&](auto x) {
    using T = decltype(x);
    if constexpr (std::is_same_v<T, float>)
      if (random_group(r.what, r.dtype) == 4) return run<T, 4>(r);
    run<T, 2>(r);
  });
}

}  // namespace MT_ISA
}  // namespace mt
