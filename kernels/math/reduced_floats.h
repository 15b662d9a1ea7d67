// reduced_floats.h -- storage formats of the 16-bit and 8-bit floats: conversions to and from float32
//
// They are not used for computation. Code that reads such an element converts it to float, and code
// that writes one rounds to nearest even; subnormals, infinities and NaN are preserved where the
// format has them. The conversions have no branches, so that loops over them are vectorized. The
// text of this file is also part of the CUDA C that is compiled at run time.
#pragma once
#ifndef __CUDACC_RTC__
#include <cstdint>
#else
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
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
  const float held = (size * 0x1p+112f) * 0x1p-110f;
  const uint32_t exponent = twice & 0xff000000u;
  const uint32_t least = exponent < 0x71000000u ? 0x71000000u : exponent;
  const float sum = __builtin_bit_cast(float, (least >> 1) + 0x07800000u) + held;
  const uint32_t bits = __builtin_bit_cast(uint32_t, sum);
  const uint32_t found = ((bits >> 13) & 0x7c00u) + (bits & 0xfffu);
  return uint16_t(((word & 0x80000000u) >> 16) | (twice > 0xff000000u ? 0x7e00u : found));
#endif
}

/// The upper half of a float32, rounded by the lower one: in 16-bit halves, for wider vectors.
MT_HD float float_of_bf16(uint16_t h) { return __builtin_bit_cast(float, uint32_t(h) << 16); }
MT_HD uint16_t bf16_of_float(float x) {
  const uint32_t word = __builtin_bit_cast(uint32_t, x);
  const uint16_t high = uint16_t(word >> 16), low = uint16_t(word);
  const uint16_t up = uint16_t(low | (high & 1)) > 0x8000 ? 1 : 0;
  const uint16_t size = uint16_t((high & 0x7fff) | (low != 0 ? 1 : 0));
  return uint16_t(size > 0x7f80 ? (high & 0x8000) | 0x7fc0 : high + up);
}

/// An element of a storage-only float: all operations except stores use a float.
struct StoredFloat {};

struct Float16 : StoredFloat {
  uint16_t bits;
  static constexpr float kLargest = 65504;  // the largest finite number
  static constexpr int kDigits = 11;        // bits of a significand, with the leading one
  Float16() = default;
  template <class T> MT_HD explicit Float16(T x) : bits(f16_of_float(static_cast<float>(x))) {}
  MT_HD void operator=(float x) { bits = f16_of_float(x); }
  MT_HD operator float() const { return float_of_f16(bits); }
};
struct Bfloat16 : StoredFloat {
  uint16_t bits;
  static constexpr float kLargest = 0x1.fep127f;
  static constexpr int kDigits = 8;
  Bfloat16() = default;
  template <class T> MT_HD explicit Bfloat16(T x) : bits(bf16_of_float(static_cast<float>(x))) {}
  MT_HD void operator=(float x) { bits = bf16_of_float(x); }
  MT_HD operator float() const { return float_of_bf16(bits); }
};

/// A sign, E bits of exponent and 7 - E of mantissa. IEEE formats have infinities; `finite` ones
/// have one NaN per sign instead, and numbers beyond the largest become NaN, as in PyTorch.
template <int E, bool finite> struct Float8 : StoredFloat {
  uint8_t bits;
  static constexpr int kMantissa = 7 - E, kDigits = kMantissa + 1, kShift = 23 - kMantissa;
  static constexpr uint32_t kBias = (1u << (E - 1)) - 1, kNan = 0x7f;
  /// The bits of infinity, or of NaN: those of all smaller numbers are in order.
  static constexpr uint32_t kEnd = finite ? kNan : 0x7fu >> kMantissa << kMantissa;
  static constexpr uint32_t kRebias = (127 - kBias) << 23;
  static constexpr float kLargest = __builtin_bit_cast(float, ((kEnd - 1) << kShift) + kRebias);
  /// A unit in the last place of this number is the smallest subnormal of the format: a sum with it
  /// is rounded to one.
  static constexpr uint32_t kSubnormal = (128 - kBias - uint32_t(kMantissa) + 23) << 23;

  Float8() = default;
  template <class T> MT_HD explicit Float8(T x) : bits(of(static_cast<float>(x))) {}
  MT_HD void operator=(float x) { bits = of(x); }
  MT_HD operator float() const {
    const uint32_t code = bits & 0x7fu;
    const float small =
        __builtin_bit_cast(float, code + kSubnormal) - __builtin_bit_cast(float, kSubnormal);
    uint32_t size = (code << kShift) + kRebias;
    size = code >> kMantissa ? size : __builtin_bit_cast(uint32_t, small);
    size = code >= kEnd ? 0x7f800000u | (code << kShift & 0x7fffffu) : size;
    return __builtin_bit_cast(float, (uint32_t(bits) & 0x80u) << 24 | size);
  }

 private:
  static MT_HD uint8_t of(float x) {
    const uint32_t word = __builtin_bit_cast(uint32_t, x), size = word & 0x7fffffffu;
    const uint32_t rounded = size + ((1u << (kShift - 1)) - 1) + (size >> kShift & 1);
    const float sum = __builtin_bit_cast(float, size) + __builtin_bit_cast(float, kSubnormal);
    uint32_t code = size < kRebias + (1u << 23) ? __builtin_bit_cast(uint32_t, sum) - kSubnormal
                                                : (rounded - kRebias) >> kShift;
    code = code < kEnd ? code : kEnd;
    code = size > 0x7f800000u ? kNan : code;
    return uint8_t((word >> 24 & 0x80u) | code);
  }
};
using Float8E4M3fn = Float8<4, true>;
using Float8E5M2 = Float8<5, false>;

}  // namespace mt
