// random.cpp -- the random verb on the CPU
#include "kernels/math/random.h"

#include "kernels/cpu/blocks.h"
#include "kernels/verbs.h"

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

constexpr int64_t kLanes = 64;

/// The words of kLanes counters, each word in an array of its own, so that the loop becomes SIMD
/// code. The same integers as `philox` of random.h.
void philox_lanes(uint64_t seed, uint64_t counter, uint32_t (&word)[4][kLanes]) {
  MT_INDEPENDENT
  for (int64_t i = 0; i < kLanes; ++i) {
    const uint64_t at = counter + static_cast<uint64_t>(i);
    uint32_t a = static_cast<uint32_t>(at), b = static_cast<uint32_t>(at >> 32), c = 0, d = 0;
    uint32_t k = static_cast<uint32_t>(seed), l = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const uint64_t p = uint64_t{0xd2511f53u} * a, q = uint64_t{0xcd9e8d57u} * c;
      a = static_cast<uint32_t>(q >> 32) ^ b ^ k, b = static_cast<uint32_t>(q);
      c = static_cast<uint32_t>(p >> 32) ^ d ^ l, d = static_cast<uint32_t>(p);
      k += 0x9e3779b9u, l += 0xbb67ae85u;
    }
    word[0][i] = a, word[1][i] = b, word[2][i] = c, word[3][i] = d;
  }
}

/// The elements of kLanes counters.
void float_lanes(const Random& r, uint64_t counter, float* out) {
  uint32_t word[4][kLanes];
  philox_lanes(r.seed, r.offset + counter, word);
  if (r.what == Distribution::uniform) {
    MT_INDEPENDENT
    for (int64_t i = 0; i < kLanes; ++i) {
      out[4 * i] = uniform(word[0][i]), out[4 * i + 1] = uniform(word[1][i]);
      out[4 * i + 2] = uniform(word[2][i]), out[4 * i + 3] = uniform(word[3][i]);
    }
    return;
  }
  float value[4][kLanes];
  for (int half = 0; half < 4; half += 2) {
    MT_INDEPENDENT
    for (int64_t i = 0; i < kLanes; ++i) {
      float pair[2];
      normals(uniform(word[half][i]), uniform(word[half + 1][i]), pair);
      value[half][i] = pair[0], value[half + 1][i] = pair[1];
    }
  }
  MT_INDEPENDENT
  for (int64_t i = 0; i < kLanes; ++i) {
    out[4 * i] = value[0][i], out[4 * i + 1] = value[1][i];
    out[4 * i + 2] = value[2][i], out[4 * i + 3] = value[3][i];
  }
}

void fill_float(const Random& r) {
  constexpr int64_t kBatch = 4 * kLanes;
  const int64_t batches = (r.n + kBatch - 1) / kBatch;
  float* out = static_cast<float*>(r.out);
  constexpr int64_t kBatches = 64;
  parallel((batches + kBatches - 1) / kBatches, r.n > kGrain, [&](int64_t piece) {
    const int64_t end = smaller(batches, (piece + 1) * kBatches);
    for (int64_t b = piece * kBatches; b < end; ++b) {
      const uint64_t counter = static_cast<uint64_t>(b * kLanes);
      const int64_t n = smaller(kBatch, r.n - b * kBatch);
      if (n == kBatch) {
        float_lanes(r, counter, out + b * kBatch);
        continue;
      }
      float rest[kBatch];
      float_lanes(r, counter, rest);
      __builtin_memcpy(out + b * kBatch, rest, size_t(n) * sizeof(float));
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
    case Dtype::f32:
      return r.what == Distribution::integer || r.n <= 4 * kLanes ? fill<float>(r) : fill_float(r);
    default: return fill<double>(r);
  }
}

}  // namespace MT_ISA
}  // namespace mt
