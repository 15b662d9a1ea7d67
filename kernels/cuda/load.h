// load.h -- vectorized loads and stores of contiguous elements; arrays of registers
#pragma once
#include <type_traits>

#include "kernels/cuda/cuda.h"

// Arrays are kept in registers only if the loops over them are unrolled. A loop around them that is
// ROLLED needs fewer registers.
#ifdef __CUDACC__
#define MT_UNROLLED _Pragma("unroll")
#define MT_ROLLED _Pragma("unroll 1")
#else
#define MT_UNROLLED
#define MT_ROLLED
#endif

namespace mt::cuda {

/// Loads a group with one instruction. (nvcc compiles a plain copy to one load per element.)
template <class G> __device__ G load_group(const void* from) {
  G g;
#ifdef __CUDACC__
  const auto as = [&](auto word) {
    static_assert(sizeof word == sizeof g);
    word = *static_cast<const decltype(word)*>(from);
    memcpy(&g, &word, sizeof g);
  };
  if constexpr (sizeof g == 16) as(uint4{});
  else if constexpr (sizeof g == 8) as(uint2{});
  else if constexpr (sizeof g == 4) as(uint32_t{});
  else as(uint16_t{});
#else
  memcpy(&g, from, sizeof g);
#endif
  return g;
}
/// Stores a group with stores of 16 bytes, or with one smaller store.
template <class G> __device__ void store_group(void* to, const G& g) {
#ifdef __CUDACC__
  const auto as = [&](auto word) {
    static_assert(sizeof g % sizeof word == 0);
    for (size_t i = 0; i < sizeof g / sizeof word; ++i) {
      memcpy(&word, reinterpret_cast<const char*>(&g) + i * sizeof word, sizeof word);
      static_cast<decltype(word)*>(to)[i] = word;
    }
  };
  if constexpr (sizeof g >= 16) as(uint4{});
  else if constexpr (sizeof g == 8) as(uint2{});
  else if constexpr (sizeof g == 4) as(uint32_t{});
  else as(uint16_t{});
#else
  memcpy(to, &g, sizeof g);
#endif
}

/// A line whose element i is p[i * step]: N at a time, with one access if the alignment allows it.
template <class T, int N> struct Access {
  using Elements = Group<std::remove_const_t<T>, N>;
  T* p;
  int64_t step;
  bool grouped;
  /// Describes accesses to the elements from, from + N, ..
  __device__ Access(T* p, int64_t step, int64_t from) : p(p), step(step) {
    grouped = N > 1 && step == 1 && reinterpret_cast<uintptr_t>(p + from) % sizeof(Elements) == 0;
  }
  __device__ Elements load(int64_t first, int64_t to) const {
    if constexpr (N > 1) {
      if (grouped && first + N <= to) return load_group<Elements>(p + first);
    }
    Elements e;
    for (int k = 0; k < N; ++k) e.v[k] = first + k < to ? p[(first + k) * step] : T(0);
    return e;
  }
  __device__ void store(int64_t first, int64_t to, const Elements& e) const {
    if constexpr (N > 1) {
      if (grouped && first + N <= to) return store_group(p + first, e);
    }
    for (int k = 0; k < N; ++k)
      if (first + k < to) p[(first + k) * step] = e.v[k];
  }
};

}  // namespace mt::cuda
