// copy_bytes.h -- memcpy for rows of up to a few pages, and memcpy with non-temporal stores
#pragma once
#include <utility>

#include "kernels/cpu/simd/simd.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {

constexpr int64_t kLongRow = 65536;  // bytes

/// Prefetches the cache lines that are kAhead bytes ahead in a row of n bytes, or in the next row.
/// Stores are then twice as fast if the lines are not cached.
template <int64_t bytes>
inline void fetch(const char* row, int64_t at, int64_t n, const char* next) {
  constexpr int64_t kAhead = 2048;
  const int64_t place = at + smaller(kAhead, n);
  const char* const lines = place < n ? row + place : next + (place - n);
  for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(lines + k, 1);
}

template <class V, int... K> MT_SIMD void reverse_items(V& x, std::integer_sequence<int, K...>) {
  x = __builtin_shufflevector(x, x, (int(sizeof...(K)) - 1 - K)...);
}
/// Calls `block(v, at)` for blocks that cover [0, n) for a small n; the last block may overlap the
/// one before. v is a value whose type has the size of the block.
template <class Block> MT_SIMD void cover(int64_t n, const Block& block) {
  typedef uint8_t B64 __attribute__((vector_size(64)));
  typedef uint8_t B32 __attribute__((vector_size(32)));
  typedef uint8_t B16 __attribute__((vector_size(16)));
  const auto ends = [&](auto&& v) __attribute__((always_inline)) {
    constexpr int64_t size = int64_t(sizeof v);
    block(v, 0);
    if (n > size) block(v, n - size);
  };
  if (n >= 64) {
    B64 v;
    for (int64_t at = 0; at < n; at += 64) block(v, smaller(at, n - 64));
  } else if (n >= 32) ends(B32{});
  else if (n >= 16) ends(B16{});
  else if (n >= 8) ends(uint64_t{});
  else if (n >= 4) ends(uint32_t{});
  else if (n >= 2) ends(uint16_t{});
  else if (n == 1) ends(uint8_t{});
}
/// memcpy of a few bytes.
MT_SIMD void copy_few(char* out, const char* in, int64_t n) {
  cover(
      n, [=](auto& v, int64_t at) __attribute__((always_inline)) {
        __builtin_memcpy(&v, in + at, sizeof v);
        __builtin_memcpy(out + at, &v, sizeof v);
      });
}
/// Fills n bytes with elements that are all `value`.
template <class U> MT_SIMD void fill_few(char* out, U value, int64_t n) {
  cover(
      n, [=](auto& v, int64_t at) __attribute__((always_inline)) {
        typedef U Items __attribute__((vector_size(sizeof v < sizeof(U) ? sizeof(U) : sizeof v)));
        const Items copies = value + Items{};
        __builtin_memcpy(out + at, &copies, sizeof v);
      });
}
/// Copies the elements of n bytes in reverse order.
template <class U> MT_SIMD void reverse_few(char* out, const char* in, int64_t n) {
  cover(
      n, [=](auto& v, int64_t at) __attribute__((always_inline)) {
        constexpr int items = int(sizeof v / sizeof(U));
        if constexpr (items > 1) {
          typedef U Items __attribute__((vector_size(sizeof v)));
          Items x;
          __builtin_memcpy(&x, in + n - at - int64_t(sizeof v), sizeof v);
          reverse_items(x, std::make_integer_sequence<int, items>{});
          __builtin_memcpy(out + at, &x, sizeof v);
        } else if constexpr (items == 1) {
          __builtin_memcpy(out + at, in + n - at - int64_t(sizeof v), sizeof v);
        }
      });
}

/// memcpy with vector loads and stores: if the two sides differ in alignment, the C library's `rep
/// movsb` is several times slower on AMD's Zen, and short rows save the call. `next`, if it is not
/// null, is the address of the next row: cache lines are prefetched before they are written.
inline void copy_bytes(char* out, const char* in, int64_t n, const char* next = nullptr) {
  constexpr int64_t width = int64_t(sizeof(simd::F32s)), step = 4 * width;
  if (n < step) return copy_few(out, in, n);
  if (n > kLongRow) return void(__builtin_memcpy(out, in, n));
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
  if (n % step) block(n - step);  // overlaps the previous block
}

/// Copies n bytes with non-temporal stores, so that lines of `out` need not be read first; `in` may
/// be one line that `repeats`. Other threads see the stores after finish_streams().
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
