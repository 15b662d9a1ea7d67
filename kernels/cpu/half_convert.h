// half_convert.h -- contiguous 16-bit floats to float32 and back
#pragma once
#include "kernels/base.h"
#include "kernels/cpu/parallel.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace mt {
inline namespace MT_ISA {

/// How many elements, from the first, the machine's own conversion of float16 has done: cpu.cpp asks
/// for it wherever it takes AVX2.
#ifdef __AVX2__
__attribute__((target("f16c"))) inline int64_t widen_eights(float* out, const uint16_t* in,
                                                            int64_t n) {
  for (int64_t i = 0; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  return n / 8 * 8;
}
__attribute__((target("f16c"))) inline int64_t narrow_eights(uint16_t* out, const float* in,
                                                             int64_t n) {
  for (int64_t i = 0; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  return n / 8 * 8;
}
#else
inline int64_t widen_eights(float*, const uint16_t*, int64_t) { return 0; }
inline int64_t narrow_eights(uint16_t*, const float*, int64_t) { return 0; }
#endif

inline void widen_run(Dtype from, float* out, const void* in, int64_t n) {
  const uint16_t* const h = static_cast<const uint16_t*>(in);
  if (from == Dtype::f16) {
    MT_INDEPENDENT
    for (int64_t i = widen_eights(out, h, n); i < n; ++i) out[i] = float_of_f16(h[i]);
  } else {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = float_of_bf16(h[i]);
  }
}
inline void narrow_run(Dtype to, void* out, const float* in, int64_t n) {
  uint16_t* const h = static_cast<uint16_t*>(out);
  if (to == Dtype::f16) {
    MT_INDEPENDENT
    for (int64_t i = narrow_eights(h, in, n); i < n; ++i) h[i] = f16_of_float(in[i]);
  } else {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) h[i] = bf16_of_float(in[i]);
  }
}

}  // namespace MT_ISA
}  // namespace mt
