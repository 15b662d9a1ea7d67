// random.cpp -- the random verb on the CPU
#include "kernels/random.h"

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

template <class T> void fill(const Random& r) {
  const int64_t group = random_group(r.what, r.dtype), groups = (r.n + group - 1) / group;
  T* out = static_cast<T*>(r.out);
  constexpr int64_t kGroups = 4096;
  parallel((groups + kGroups - 1) / kGroups, r.n > kGrain, [&](int64_t piece) {
    const int64_t end = smaller(groups, (piece + 1) * kGroups);
    for (int64_t g = piece * kGroups; g < end; ++g) {
      T value[4] = {};
      random_values(r, static_cast<uint64_t>(g), value);
      const int64_t n = smaller(group, r.n - g * group);
      for (int64_t i = 0; i < n; ++i) out[g * group + i] = value[i];
    }
  });
}

}  // namespace

void random(const Random& r) {
  switch (r.dtype) {
    case Dtype::b8: return fill<bool>(r);
    case Dtype::u8: return fill<uint8_t>(r);
    case Dtype::i32: return fill<int32_t>(r);
    case Dtype::i64: return fill<int64_t>(r);
    case Dtype::f32: return fill<float>(r);
    default: return fill<double>(r);
  }
}

}  // namespace MT_ISA
}  // namespace mt
