// storage_types.h -- converts contiguous elements of storage-only dtypes to the compute dtype and back
#pragma once
#include "kernels/base.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/simd/simd.h"

namespace mt {
inline namespace MT_ISA {

/// Converts leading elements with F16C instructions and returns their number; cpu.cpp requires F16C
/// wherever it selects AVX2.
#ifdef __AVX2__
#ifdef __AVX512F__
using F16s = __m256i;
#else
using F16s = __m128i;
#endif
inline int64_t load_f16_registers(float* out, const uint16_t* in, int64_t n) {
  constexpr int64_t width = simd::kWidth<float>;
  for (int64_t i = 0; i + width <= n; i += width) {
    F16s v;
    __builtin_memcpy(&v, in + i, sizeof v);
    simd::store(out + i, MT_MM(cvtph_ps)(v));
  }
  return n / width * width;
}
inline int64_t store_f16_registers(uint16_t* out, const float* in, int64_t n) {
  constexpr int64_t width = simd::kWidth<float>;
  for (int64_t i = 0; i + width <= n; i += width) {
    const F16s v = MT_MM(cvtps_ph)(simd::load(in + i), _MM_FROUND_TO_NEAREST_INT);
    __builtin_memcpy(out + i, &v, sizeof v);
  }
  return n / width * width;
}
#else
inline int64_t load_f16_registers(float*, const uint16_t*, int64_t) { return 0; }
inline int64_t store_f16_registers(uint16_t*, const float*, int64_t) { return 0; }
#endif

/// Converts the elements [from, n); integers lose their upper bits.
template <class To, class From> void cast_run(void* out, const void* in, int64_t from, int64_t n) {
  To* const to = static_cast<To*>(out);
  const From* const x = static_cast<const From*>(in);
  MT_INDEPENDENT
  for (int64_t i = from; i < n; ++i) to[i] = static_cast<To>(x[i]);
}
/// Calls f(T(), C()) with the types of a storage-only dtype and of the dtype it is computed in.
template <class F> void with_storage_type(Dtype dtype, const F& f) {
#define MT_CASE(name, T, text, computed)                                          \
  case Dtype::name:                                                               \
    if constexpr (is_storage_only(Dtype::name)) f(T(), ctype<Dtype::computed>()); \
    break;
  switch (dtype) {
    MT_DTYPES(MT_CASE)
    default: break;
  }
#undef MT_CASE
}
/// Converts from a storage-only dtype to compute_dtype(from), float32 or int32.
inline void load_converted(Dtype from, void* out, const void* in, int64_t n) {
  const int64_t done = from != Dtype::f16 ? 0
                                          : load_f16_registers(static_cast<float*>(out),
                                                               static_cast<const uint16_t*>(in), n);
  with_storage_type(from, [=](auto stored, auto computed) {
    cast_run<decltype(computed), decltype(stored)>(out, in, done, n);
  });
}
/// Converts from compute_dtype(to) to the storage-only dtype `to`.
inline void store_converted(Dtype to, void* out, const void* in, int64_t n) {
  const int64_t done = to != Dtype::f16 ? 0
                                        : store_f16_registers(static_cast<uint16_t*>(out),
                                                              static_cast<const float*>(in), n);
  with_storage_type(to, [=](auto stored, auto computed) {
    cast_run<decltype(stored), decltype(computed)>(out, in, done, n);
  });
}

}  // namespace MT_ISA
}  // namespace mt
