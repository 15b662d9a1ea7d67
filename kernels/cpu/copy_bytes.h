// copy_bytes.h -- memcpy for rows of a few vectors up to some pages, and past the caches
#pragma once
#include "kernels/cpu/simd.h"

namespace mt {
inline namespace MT_ISA {

constexpr int64_t kLongRow = 65536;  // bytes

/// Asks for the lines that lie kAhead bytes behind these of a row of n bytes, or in the next row. To
/// write them is twice as fast then, where they come from the memory.
template <int64_t bytes>
inline void fetch(const char* row, int64_t at, int64_t n, const char* next) {
  constexpr int64_t kAhead = 2048;
  const int64_t place = at + smaller(kAhead, n);
  const char* const lines = place < n ? row + place : next + (place - n);
  for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(lines + k, 1);
}

/// memcpy with vector loads and stores: where both sides differ in alignment, the C library's `rep
/// movsb` is several times slower on AMD's Zen, and short rows save the call. `next`, where it is not
/// null, is where the following row will be: lines are fetched some way before they are written.
inline void copy_bytes(char* out, const char* in, int64_t n, const char* next = nullptr) {
  constexpr int64_t width = int64_t(sizeof(simd::F32s)), step = 4 * width;
  if (n < step || n > kLongRow) return void(__builtin_memcpy(out, in, n));
  const auto block = [&](int64_t at) {
    simd::F32s v[4];
    for (int k = 0; k < 4; ++k)
      v[k] = simd::load(reinterpret_cast<const float*>(in + at + k * width));
    for (int k = 0; k < 4; ++k) simd::store(reinterpret_cast<float*>(out + at + k * width), v[k]);
  };
  for (int64_t at = 0; at + step <= n; at += step) {
    if (next) fetch<step>(out, at, n, next);
    block(at);
  }
  if (n % step) block(n - step);  // over some bytes again
}

/// The same past the caches: n bytes of `in`, or of one line that repeats, from which lines of `out`
/// need not be read first. Other threads see them after finish_streams().
template <bool repeats> inline void stream_bytes(char* out, const char* in, int64_t n) {
  constexpr int64_t line = 64, width = int64_t(sizeof(simd::F32s));
  int64_t at = smaller(n, -reinterpret_cast<intptr_t>(out) & (line - 1));
  __builtin_memcpy(out, in, at);
  for (; at + line <= n; at += line)
    for (int64_t k = 0; k < line; k += width)
      simd::stream(reinterpret_cast<float*>(out + at + k),
                   simd::load(reinterpret_cast<const float*>(in + (repeats ? k : at + k))));
  __builtin_memcpy(out + at, in + (repeats ? 0 : at), n - at);
}
inline void finish_streams() { _mm_sfence(); }

}  // namespace MT_ISA
}  // namespace mt
