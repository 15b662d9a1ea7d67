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
__attribute__((target("f16c"))) inline int64_t load_f16_registers(float* out, const uint16_t* in,
                                                                  int64_t n) {
  constexpr int64_t width = simd::kWidth<float>;
  for (int64_t i = 0; i + width <= n; i += width) {
    F16s v;
    __builtin_memcpy(&v, in + i, sizeof v);
    simd::store(out + i, MT_MM(cvtph_ps)(v));
  }
  return n / width * width;
}
__attribute__((target("f16c"))) inline int64_t store_f16_registers(uint16_t* out, const float* in,
                                                                   int64_t n) {
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

template <class To, class From> void cast_run(To* out, const From* in, int64_t n) {
  MT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<To>(in[i]);
}
/// Converts from a storage-only dtype to compute_dtype(from), float32 or int32.
inline void load_converted(Dtype from, void* out, const void* in, int64_t n) {
  const uint16_t* const h = static_cast<const uint16_t*>(in);
  float* const f = static_cast<float*>(out);
  if (from == Dtype::f16) {
    MT_INDEPENDENT
    for (int64_t i = load_f16_registers(f, h, n); i < n; ++i) f[i] = float_of_f16(h[i]);
  } else if (from == Dtype::bf16) {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) f[i] = float_of_bf16(h[i]);
  } else if (from == Dtype::i8) {
    cast_run(static_cast<int32_t*>(out), static_cast<const int8_t*>(in), n);
  } else {
    cast_run(static_cast<int32_t*>(out), static_cast<const int16_t*>(in), n);
  }
}
/// Converts from compute_dtype(to); integers lose their upper bits.
inline void store_converted(Dtype to, void* out, const void* in, int64_t n) {
  uint16_t* const h = static_cast<uint16_t*>(out);
  const float* const f = static_cast<const float*>(in);
  if (to == Dtype::f16) {
    MT_INDEPENDENT
    for (int64_t i = store_f16_registers(h, f, n); i < n; ++i) h[i] = f16_of_float(f[i]);
  } else if (to == Dtype::bf16) {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) h[i] = bf16_of_float(f[i]);
  } else if (to == Dtype::i8) {
    cast_run(static_cast<int8_t*>(out), static_cast<const int32_t*>(in), n);
  } else {
    cast_run(static_cast<int16_t*>(out), static_cast<const int32_t*>(in), n);
  }
}

}  // namespace MT_ISA
}  // namespace mt
