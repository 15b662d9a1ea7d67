// copy_bytes.h -- memcpy for rows of a few vectors up to some pages
#pragma once
#include "kernels/cpu/simd.h"

namespace mt {
inline namespace MT_ISA {

/// memcpy with vector loads and stores: where both sides differ in alignment, the C library's `rep
/// movsb` is several times slower on AMD's Zen, and short rows save the call.
inline void copy_bytes(char* out, const char* in, int64_t n) {
  constexpr int64_t width = int64_t(sizeof(simd::F32s)), step = 4 * width;
  if (n < step || n > 65536) return void(__builtin_memcpy(out, in, size_t(n)));
  const auto block = [&](int64_t at) {
    simd::F32s v[4];
    for (int k = 0; k < 4; ++k)
      v[k] = simd::load(reinterpret_cast<const float*>(in + at + k * width));
    for (int k = 0; k < 4; ++k) simd::store(reinterpret_cast<float*>(out + at + k * width), v[k]);
  };
  for (int64_t at = 0; at + step <= n; at += step) block(at);
  if (n % step) block(n - step);  // over some bytes again
}

}  // namespace MT_ISA
}  // namespace mt
