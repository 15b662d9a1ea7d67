// simd.h -- one vector register of floats or doubles, as wide as the instruction set allows
#pragma once
#include <cstdint>

#include "kernels/base.h"

// The intrinsics of SSE2 and, as the build allows, of AVX; on Arm those of SSE2 and FMA, by SIMDe with NEON.
#ifdef __aarch64__
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/fma.h>
#else
#ifndef __clang__
#pragma GCC diagnostic push  // for a warning in g++ 12's own header: bug 105593
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#ifdef __AVX2__
#include <immintrin.h>
#else
#include <emmintrin.h>  // a tenth of the size of the header for all instruction sets
#endif
#ifndef __clang__
#pragma GCC diagnostic pop
#endif
#endif

// The intrinsics of the three widths differ only in their prefix.
#if defined(__AVX512F__)
#define MT_MM(op) _mm512_##op
#elif defined(__AVX2__)
#define MT_MM(op) _mm256_##op
#else
#define MT_MM(op) _mm_##op
#endif
#define MT_SIMD inline __attribute__((always_inline))

namespace mt {
inline namespace MT_ISA {
namespace simd {

#if defined(__AVX512F__)
using F32s = __m512;
using F64s = __m512d;
#elif defined(__AVX2__)
using F32s = __m256;
using F64s = __m256d;
#else
using F32s = __m128;
using F64s = __m128d;
#endif

template <class T> struct VectorOf;
template <> struct VectorOf<float> { using type = F32s; };
template <> struct VectorOf<double> { using type = F64s; };
/// The register type for elements T, and the number of elements in it.
template <class T> using Vector = typename VectorOf<T>::type;
template <class T> constexpr int kWidth = int(sizeof(F32s) / sizeof(T));
/// The number of elements in a lane: 16 bytes of a register, which shuffles do not leave.
template <class T> constexpr int kLane = int(16 / sizeof(T));

MT_SIMD F32s load(const float* p) { return MT_MM(loadu_ps)(p); }
MT_SIMD F64s load(const double* p) { return MT_MM(loadu_pd)(p); }
MT_SIMD void store(float* p, F32s v) { MT_MM(storeu_ps)(p, v); }
MT_SIMD void store(double* p, F64s v) { MT_MM(storeu_pd)(p, v); }
/// A non-temporal store, to an address that is a multiple of the register's size.
MT_SIMD void stream(float* p, F32s v) { MT_MM(stream_ps)(p, v); }
MT_SIMD F32s broadcast(float x) { return MT_MM(set1_ps)(x); }
MT_SIMD F64s broadcast(double x) { return MT_MM(set1_pd)(x); }
MT_SIMD F32s add(F32s a, F32s b) { return MT_MM(add_ps)(a, b); }
MT_SIMD F64s add(F64s a, F64s b) { return MT_MM(add_pd)(a, b); }

/// a * b + c: rounded once if the instruction set has FMA, otherwise twice.
#ifdef MT_HAS_FMA
MT_SIMD F32s fma(F32s a, F32s b, F32s c) { return MT_MM(fmadd_ps)(a, b, c); }
MT_SIMD F64s fma(F64s a, F64s b, F64s c) { return MT_MM(fmadd_pd)(a, b, c); }
#else
MT_SIMD F32s fma(F32s a, F32s b, F32s c) { return add(MT_MM(mul_ps)(a, b), c); }
MT_SIMD F64s fma(F64s a, F64s b, F64s c) { return add(MT_MM(mul_pd)(a, b), c); }
#endif

/// Adds a dot product to each element of `sum`: the elements of a and b are pairs of bfloat16. Subnormal operands and
/// results are 0. For processors with AVX512-BF16 only.
#ifdef __AVX512F__
MT_SIMD F32s add_dots(F32s a, F32s b, F32s sum) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}
#else
F32s add_dots(F32s a, F32s b, F32s sum);
#endif

/// Loads the elements whose bits are set in a mask; the others load as 0, unread.
#if defined(__AVX512F__)
using LaneMask = __mmask16;
MT_SIMD LaneMask mask_of(uint32_t bits) {  // faster than by a general register
  const __m512i one = _mm512_setr_epi32(1, 2, 4, 8, 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8, 1 << 9,
                                        1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15);
  return _mm512_test_epi32_mask(_mm512_set1_epi32(int(bits)), one);
}
MT_SIMD LaneMask first_lanes(int count) { return LaneMask((1u << count) - 1); }
MT_SIMD F32s load_where(const float* p, LaneMask mask) { return _mm512_maskz_loadu_ps(mask, p); }
#elif defined(__AVX2__)
using LaneMask = __m256i;
MT_SIMD LaneMask mask_of(uint32_t bits) {
  const __m256i one = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(int(bits)), one), one);
}
MT_SIMD LaneMask first_lanes(int count) {
  const __m256i at = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), at);
}
MT_SIMD F32s load_where(const float* p, LaneMask mask) { return _mm256_maskload_ps(p, mask); }
#else
using LaneMask = uint32_t;
MT_SIMD LaneMask mask_of(uint32_t bits) { return bits & 15; }
MT_SIMD LaneMask first_lanes(int count) { return (1u << count) - 1; }
MT_SIMD F32s load_where(const float* p, LaneMask mask) {
  if (mask == 15) return load(p);
  float x[kWidth<float>] = {};
  for (int i = 0; i < kWidth<float>; ++i)
    if (mask >> i & 1) __builtin_memcpy(x + i, p + i, sizeof *x);
  return load(x);
}
#endif

/// Loads or stores the first `count` elements (at least 1); the others load as 0, unread.
MT_SIMD F32s load_first(const float* p, int count) { return load_where(p, first_lanes(count)); }
#if defined(__AVX512F__)
MT_SIMD void store_first(float* p, F32s v, int count) {
  _mm512_mask_storeu_ps(p, first_lanes(count), v);
}
#elif defined(__AVX2__)
// Stores in powers of two: a masked store costs 12 cycles or more on AMD's Zen.
MT_SIMD void store_first(float* p, F32s v, int count) {
  __m128 x = _mm256_castps256_ps128(v);
  if (count & 4) _mm_storeu_ps(p, x), p += 4, x = _mm256_extractf128_ps(v, 1);
  if (count & 2) _mm_storel_pi(reinterpret_cast<__m64*>(p), x), p += 2, x = _mm_movehl_ps(x, x);
  if (count & 1) _mm_store_ss(p, x);
}
#else
MT_SIMD void store_first(float* p, F32s v, int count) {
  float x[kWidth<float>];
  store(x, v);
  for (int i = 0; i < count; ++i) __builtin_memcpy(p + i, x + i, sizeof *x);
}
#endif

/// Returns elements 0, 2, 4, .. of two registers.
#if defined(__AVX512F__)
MT_SIMD F32s even_elements(F32s a, F32s b) {
  const __m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(a, at, b);
}
MT_SIMD F64s even_elements(F64s a, F64s b) {
  return _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b);
}
#elif defined(__AVX2__)
MT_SIMD F32s even_elements(F32s a, F32s b) {
  const __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}
MT_SIMD F64s even_elements(F64s a, F64s b) {
  return _mm256_permute4x64_pd(_mm256_unpacklo_pd(a, b), 0xd8);
}
#else
MT_SIMD F32s even_elements(F32s a, F32s b) { return _mm_shuffle_ps(a, b, 0x88); }
MT_SIMD F64s even_elements(F64s a, F64s b) { return _mm_unpacklo_pd(a, b); }
#endif

/// Turns a and b into the first and the second half of a0 b0 a1 b1 ..
#if defined(__AVX512F__)
MT_SIMD void interleave(F32s& a, F32s& b) {
  const __m512i at = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const F32s low = _mm512_permutex2var_ps(a, at, b);
  b = _mm512_permutex2var_ps(a, _mm512_add_epi32(at, _mm512_set1_epi32(8)), b);
  a = low;
}
#elif defined(__AVX2__)
MT_SIMD void interleave(F32s& a, F32s& b) {
  const F32s low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
  a = _mm256_permute2f128_ps(low, high, 0x20), b = _mm256_permute2f128_ps(low, high, 0x31);
}
#else
MT_SIMD void interleave(F32s& a, F32s& b) {
  const F32s low = _mm_unpacklo_ps(a, b);
  b = _mm_unpackhi_ps(a, b), a = low;
}
#endif

/// Loads one lane from each of p, p + stride, p + 2 stride, .., or stores lanes there.
#if defined(__AVX512F__)
MT_SIMD F32s load_lanes(const float* p, int64_t stride) {
  F32s v = _mm512_castps128_ps512(_mm_loadu_ps(p));
  v = _mm512_insertf32x4(v, _mm_loadu_ps(p + stride), 1);
  v = _mm512_insertf32x4(v, _mm_loadu_ps(p + 2 * stride), 2);
  return _mm512_insertf32x4(v, _mm_loadu_ps(p + 3 * stride), 3);
}
MT_SIMD void store_lanes(float* p, int64_t stride, F32s v) {
  _mm_storeu_ps(p, _mm512_castps512_ps128(v));
  _mm_storeu_ps(p + stride, _mm512_extractf32x4_ps(v, 1));
  _mm_storeu_ps(p + 2 * stride, _mm512_extractf32x4_ps(v, 2));
  _mm_storeu_ps(p + 3 * stride, _mm512_extractf32x4_ps(v, 3));
}
#elif defined(__AVX2__)
MT_SIMD F32s load_lanes(const float* p, int64_t stride) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + stride), 1);
}
MT_SIMD void store_lanes(float* p, int64_t stride, F32s v) {
  _mm_storeu_ps(p, _mm256_castps256_ps128(v));
  _mm_storeu_ps(p + stride, _mm256_extractf128_ps(v, 1));
}
#else
MT_SIMD F32s load_lanes(const float* p, int64_t) { return load(p); }
MT_SIMD void store_lanes(float* p, int64_t, F32s v) { store(p, v); }
#endif

// Doubles are moved as pairs of floats.
MT_SIMD F64s load_first(const double* p, int count) {
  return MT_MM(castps_pd)(load_first(reinterpret_cast<const float*>(p), 2 * count));
}
MT_SIMD void store_first(double* p, F64s v, int count) {
  store_first(reinterpret_cast<float*>(p), MT_MM(castpd_ps)(v), 2 * count);
}
MT_SIMD F64s load_lanes(const double* p, int64_t stride) {
  return MT_MM(castps_pd)(load_lanes(reinterpret_cast<const float*>(p), 2 * stride));
}
MT_SIMD void store_lanes(double* p, int64_t stride, F64s v) {
  store_lanes(reinterpret_cast<float*>(p), 2 * stride, MT_MM(castpd_ps)(v));
}

/// Transposes a square in every lane: element j of register i becomes element i of register j.
MT_SIMD void transpose_lanes(F32s (&r)[4]) {
  const auto pairs = [](F32s v) { return MT_MM(castps_pd)(v); };
  const auto floats = [](F64s v) { return MT_MM(castpd_ps)(v); };
  const F64s a = pairs(MT_MM(unpacklo_ps)(r[0], r[1])), b = pairs(MT_MM(unpackhi_ps)(r[0], r[1]));
  const F64s c = pairs(MT_MM(unpacklo_ps)(r[2], r[3])), d = pairs(MT_MM(unpackhi_ps)(r[2], r[3]));
  r[0] = floats(MT_MM(unpacklo_pd)(a, c)), r[1] = floats(MT_MM(unpackhi_pd)(a, c));
  r[2] = floats(MT_MM(unpacklo_pd)(b, d)), r[3] = floats(MT_MM(unpackhi_pd)(b, d));
}
MT_SIMD void transpose_lanes(F64s (&r)[2]) {
  const F64s low = MT_MM(unpacklo_pd)(r[0], r[1]);
  r[1] = MT_MM(unpackhi_pd)(r[0], r[1]);
  r[0] = low;
}

/// Adds the lanes of v together and stores the sum, which is one lane.
#if defined(__AVX512F__)
MT_SIMD void store_lane_sum(float* p, F32s v) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
MT_SIMD void store_lane_sum(double* p, F64s v) {
  const __m256d half = _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
  _mm_storeu_pd(p, _mm_add_pd(_mm256_castpd256_pd128(half), _mm256_extractf128_pd(half, 1)));
}
#elif defined(__AVX2__)
MT_SIMD void store_lane_sum(float* p, F32s v) {
  _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
}
MT_SIMD void store_lane_sum(double* p, F64s v) {
  _mm_storeu_pd(p, _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1)));
}
#else
MT_SIMD void store_lane_sum(float* p, F32s v) { store(p, v); }
MT_SIMD void store_lane_sum(double* p, F64s v) { store(p, v); }
#endif

}  // namespace simd
}  // namespace MT_ISA
}  // namespace mt
