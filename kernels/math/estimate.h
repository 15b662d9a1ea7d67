// estimate.h -- fast estimates of reciprocals, which the following computation refines
#pragma once
#include "kernels/base.h"
#if defined(__AVX512F__) && !defined(__CUDA_ARCH__)
#ifndef __clang__
#pragma GCC diagnostic push  // g++ 12 warns about its own header: bug 105593
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#ifndef __clang__
#pragma GCC diagnostic pop
#endif
#endif

namespace mt {
inline namespace MT_ISA {
namespace math::core {

/// 1 / d for a normal d below 2^125: in AVX-512 within 2^-14. (A division there takes as long as 16
/// products.)
MT_HD double about_inverse(double d) { return 1 / d; }
#if defined(__AVX512F__) && !defined(__CUDA_ARCH__)
MT_HD float about_inverse(float d) {
  return _mm_cvtss_f32(_mm_rcp14_ss(_mm_set_ss(d), _mm_set_ss(d)));
}
/// 1 / sqrt(x) within 2^-14, also for denormals; exact for 0, infinity, NaN and negative numbers.
MT_HD float about_rsqrt(float x) {
  return _mm_cvtss_f32(_mm_rsqrt14_ss(_mm_set_ss(x), _mm_set_ss(x)));
}
#else
MT_HD float about_inverse(float d) { return 1 / d; }
#ifndef __CUDA_ARCH__
MT_HD float about_rsqrt(float x) { return 1 / __builtin_sqrtf(x); }
#endif
#endif

}  // namespace math::core
}  // namespace MT_ISA
}  // namespace mt
