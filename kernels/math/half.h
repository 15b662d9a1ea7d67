// half.h -- storage formats of the two 16-bit floats: conversions to and from float32
//
// They are not used for computation. Code that reads such an element converts it to float, and code
// that writes one rounds to nearest even; subnormals, infinities and NaN are preserved. The
// conversions have no branches, so that loops over them are vectorized.
#pragma once
#ifndef __CUDACC_RTC__
#include <cstdint>
#endif

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define MT_HD __host__ __device__ __forceinline__
#else
#define MT_HD inline __attribute__((always_inline))
#endif

namespace mt {

/// 5 bits of exponent, 10 of mantissa. For a normal number the fields are shifted, and a product
/// corrects the exponent's bias; a subnormal one becomes the mantissa of a number in [0.5, 1).
MT_HD float float_of_f16(uint16_t h) {
  const uint32_t word = uint32_t(h) << 16, twice = word + word;
  const float normal = __builtin_bit_cast(float, (twice >> 4) + (0xe0u << 23)) * 0x1p-112f;
  const float small = __builtin_bit_cast(float, (twice >> 17) | (126u << 23)) - 0.5f;
  const uint32_t size = twice < (1u << 27) ? __builtin_bit_cast(uint32_t, small)
                                           : __builtin_bit_cast(uint32_t, normal);
  return __builtin_bit_cast(float, (word & 0x80000000u) | size);
}

/// Adding a power of two shifts out the bits that do not fit, which rounds; an overflow has already
/// become infinite in the first product.
MT_HD uint16_t f16_of_float(float x) {
#ifdef __CUDA_ARCH__
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));  // it converts a NaN to 0x7fff
  return x == x ? h : uint16_t(((__builtin_bit_cast(uint32_t, x) >> 16) & 0x8000u) | 0x7e00u);
#else
  const uint32_t word = __builtin_bit_cast(uint32_t, x), twice = word + word;
  const float size = __builtin_bit_cast(float, word & 0x7fffffffu);
  const float scaled_size = (size * 0x1p+112f) * 0x1p-110f;
  const uint32_t exponent = twice & 0xff000000u;
  const uint32_t least = exponent < 0x71000000u ? 0x71000000u : exponent;
  const float sum = __builtin_bit_cast(float, (least >> 1) + 0x07800000u) + scaled_size;
  const uint32_t bits = __builtin_bit_cast(uint32_t, sum);
  const uint32_t rounded_size = ((bits >> 13) & 0x7c00u) + (bits & 0xfffu);
  return uint16_t(((word & 0x80000000u) >> 16) | (twice > 0xff000000u ? 0x7e00u : rounded_size));
#endif
}

/// bfloat16 is the upper half of a float32. Rounding uses 16-bit halves, for wider vectors.
MT_HD float float_of_bf16(uint16_t h) { return __builtin_bit_cast(float, uint32_t(h) << 16); }
MT_HD uint16_t bf16_of_float(float x) {
  const uint32_t word = __builtin_bit_cast(uint32_t, x);
  const uint16_t high = uint16_t(word >> 16), low = uint16_t(word);
  const uint16_t up = uint16_t(low | (high & 1)) > 0x8000 ? 1 : 0;
  const uint16_t size = uint16_t((high & 0x7fff) | (low != 0 ? 1 : 0));
  return uint16_t(size > 0x7f80 ? (high & 0x8000) | 0x7fc0 : high + up);
}

/// An element of dtype float16: all operations except stores use a float.
struct Float16 {
  uint16_t bits;
  Float16() = default;
  template <class T> MT_HD explicit Float16(T x) : bits(f16_of_float(static_cast<float>(x))) {}
  MT_HD operator float() const { return float_of_f16(bits); }
};
/// An element of dtype bfloat16.
struct Bfloat16 {
  uint16_t bits;
  Bfloat16() = default;
  template <class T> MT_HD explicit Bfloat16(T x) : bits(bf16_of_float(static_cast<float>(x))) {}
  MT_HD operator float() const { return float_of_bf16(bits); }
};

}  // namespace mt
