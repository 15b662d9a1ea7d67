// random.h -- counter-based random numbers: element i depends only on (seed, offset + i)
//
// Philox4x32-10 (Salmon et al. 2011), from Random123. One counter gives four 32-bit words: four
// float32, two float64. Integers and uniforms are the same on every device; normals agree within 2
// ulp (log and cos differ).
#pragma once
#ifndef __CUDACC_RTC__
#include <Random123/philox.h>
#endif

#include "kernels/device.h"
#include "kernels/math/math.h"
#include "kernels/math/number.h"

namespace mt {
inline namespace MT_ISA {

struct Words {
  uint32_t v[4];
};

MT_HD Words philox(uint64_t seed, uint64_t counter) {
  philox4x32_ctr_t c = {
      {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  philox4x32_key_t k = {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  philox4x32_ctr_t r = philox4x32_R(10, c, k);
  return {{r.v[0], r.v[1], r.v[2], r.v[3]}};
}

/// A number in [0, 1) with all the bits of the type: 24 or 53.
MT_HD float uniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
MT_HD double uniform(uint32_t high, uint32_t low) {
  return static_cast<double>((static_cast<uint64_t>(high) << 32 | low) >> 11) * 0x1p-53;
}

#ifdef __CUDA_ARCH__
template <class T> MT_HD T cos_once(T x) { return math::cos(x); }
template <class T> MT_HD T sin_once(T x) { return math::sin(x); }
#else  // angles of at most one turn need no long reduction
template <class T> MT_HD T cos_once(T x) { return math::core::near_cos(x); }
template <class T> MT_HD T sin_once(T x) { return math::core::near_sin(x); }
#endif

/// Two normals from two uniforms (Box and Muller 1958); 1 - u keeps the logarithm finite.
template <class T> MT_HD void normals(T u, T v, T* out) {
  const T radius = math::sqrt(T(-2) * math::log(T(1) - u)), angle = T(6.28318530717958648) * v;
  out[0] = radius * cos_once(angle);
  out[1] = radius * sin_once(angle);
}

/// The number of elements per counter.
MT_HD int64_t random_group(Distribution what, Dtype dtype) {
  return what == Distribution::integer || dtype == Dtype::f64 ? 2 : 4;
}

/// The elements of one counter, as T.
template <class T> MT_HD void random_values(const Random& r, uint64_t counter, T* out) {
  const Words w = philox(r.seed, r.offset + counter);
  if (r.what == Distribution::integer) {
    for (int i = 0; i < 2; ++i) {
      const uint64_t word = static_cast<uint64_t>(w.v[2 * i]) << 32 | w.v[2 * i + 1];
      out[i] = static_cast<T>(r.low + static_cast<int64_t>(r.span ? word % r.span : word));
    }
  } else if constexpr (sizeof(T) == 8 && math::is_floating<T>) {
    T u[2] = {uniform(w.v[0], w.v[1]), uniform(w.v[2], w.v[3])};
    if (r.what == Distribution::normal) normals(u[0], u[1], out);
    else out[0] = u[0], out[1] = u[1];
  } else if constexpr (math::is_floating<T>) {
    for (int i = 0; i < 4; i += 2) {
      T u[2] = {uniform(w.v[i]), uniform(w.v[i + 1])};
      if (r.what == Distribution::normal) normals(u[0], u[1], out + i);
      else out[i] = u[0], out[i + 1] = u[1];
    }
  }
}

}  // namespace MT_ISA
}  // namespace mt
