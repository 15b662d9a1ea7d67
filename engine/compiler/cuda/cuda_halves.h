// cuda_halves.h -- 16-bit floats in the CUDA C of grid kernels and expression programs
#pragma once

namespace mt {

/// The types of 16-bit floats, rounded to nearest even as on the CPU.
inline constexpr char kCudaHalves[] = R"(union mt_bits { float number; unsigned bits; };
struct mt_bf16 {
  unsigned short bits;
  __device__ operator float() const {
    mt_bits b;
    b.bits = (unsigned)bits << 16;
    return b.number;
  }
  __device__ void operator=(float x) {
    mt_bits b;
    b.number = x;
    if (x != x) bits = (unsigned short)(b.bits >> 16 | 0x40);
    else bits = (unsigned short)((b.bits + 0x7fff + (b.bits >> 16 & 1)) >> 16);
  }
};
struct mt_f16 {
  unsigned short bits;
  __device__ operator float() const {
    mt_bits b;
    b.bits = (unsigned)(bits & 0x7fff) << 13;
    if ((bits & 0x7c00) == 0x7c00) b.bits |= 0x7f800000;
    else b.number *= 5192296858534827628530496329220096.0f;  // 2^112
    b.bits |= (unsigned)(bits & 0x8000) << 16;
    return b.number;
  }
  __device__ void operator=(float x) {
    mt_bits b;
    b.number = x;
    const unsigned sign = b.bits >> 16 & 0x8000;
    b.bits &= 0x7fffffff;
    if (b.bits > 0x7f800000) b.bits = 0x7e00;
    else if (b.bits >= 0x477ff000) b.bits = 0x7c00;
    else if (b.bits < 0x38800000) b.number += 0.5f, b.bits -= 0x3f000000;
    else b.bits = (b.bits + 0xc8000fff + (b.bits >> 13 & 1)) >> 13;
    bits = (unsigned short)(b.bits | sign);
  }
};
)";

}  // namespace mt
