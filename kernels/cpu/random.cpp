// random.cpp -- the random verb on the CPU
#include "kernels/random.h"

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// The normals of whole counters, as `random_values` gives them; in three passes over small arrays,
/// which the compiler turns into vector instructions.
template <class T> void normal_groups(const Random& r, int64_t first, int64_t end, T* out) {
  constexpr int64_t kPairs = 256, each = sizeof(T) == 4 ? 2 : 1;  // pairs in a counter
  T u[kPairs], v[kPairs], low[kPairs], high[kPairs];
  for (int64_t g = first; g < end; g += kPairs / each) {
    const int64_t n = smaller(kPairs / each, end - g) * each;
    for (int64_t i = 0; i < n; i += each) {
      const Words w = philox(r.seed, r.offset + static_cast<uint64_t>(g + i / each));
      if constexpr (sizeof(T) == 4)
        u[i] = uniform(w.v[0]), v[i] = uniform(w.v[1]), u[i + 1] = uniform(w.v[2]),
        v[i + 1] = uniform(w.v[3]);
      else u[i] = uniform(w.v[0], w.v[1]), v[i] = uniform(w.v[2], w.v[3]);
    }
    for (int64_t i = 0; i < n; ++i) {
      T pair[2];
      normals(u[i], v[i], pair);
      low[i] = pair[0], high[i] = pair[1];
    }
    T* to = out + g * 2 * each;
    for (int64_t i = 0; i < n; ++i) to[2 * i] = low[i], to[2 * i + 1] = high[i];
  }
}

template <class T> void fill(const Random& r) {
  const int64_t group = random_group(r.what, r.dtype), groups = (r.n + group - 1) / group;
  T* out = static_cast<T*>(r.out);
  constexpr int64_t kGroups = 4096;
  parallel((groups + kGroups - 1) / kGroups, r.n > kGrain, [&](int64_t piece) {
    const int64_t end = smaller(groups, (piece + 1) * kGroups);
    int64_t g = piece * kGroups;
    if constexpr (math::is_floating<T>)
      if (r.what == Distribution::normal) {
        const int64_t whole = smaller(end, r.n / group);  // the last counter may be used in part
        normal_groups(r, g, whole, out);
        g = whole > g ? whole : g;
      }
    for (; g < end; ++g) {
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
