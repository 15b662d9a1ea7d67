// random.cpp -- the random verb on the CPU
#include "kernels/cpu/simd/blocks.h"

#include "kernels/math/random.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kLanes = 64;

/// A register of 64-bit elements with a 32-bit word in the lower half of each.
typedef uint64_t Words __attribute__((vector_size(sizeof(simd::F32s))));
MT_SIMD Words lower_product(Words a, uint32_t b) {
  using Register = decltype(MT_MM(set1_epi32)(0));
  return Words(MT_MM(mul_epu32)(Register(a), Register(Words{} + b)));
}

/// Computes the words of n counters, each word in its own array, padded to the end of a register.
/// The integers are the same as those of `philox` in random.h.
void philox_lanes(uint64_t seed, uint64_t counter, int64_t n, uint32_t (&word)[4][kLanes]) {
  constexpr int width = int(sizeof(Words) / 8);
  typedef uint32_t Halves __attribute__((vector_size(sizeof(Words) / 2)));
  Words at;
  for (int k = 0; k < width; ++k) at[k] = counter + uint64_t(k);
  for (int64_t i = 0; i < n; i += width, at += uint64_t(width)) {
    Words a = at, b = at >> 32, c = {}, d = {};
    uint32_t k = uint32_t(seed), l = uint32_t(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const Words p = lower_product(a, 0xd2511f53u), q = lower_product(c, 0xcd9e8d57u);
      a = (q >> 32) ^ b ^ uint64_t(k), b = q;
      c = (p >> 32) ^ d ^ uint64_t(l), d = p;
      k += 0x9e3779b9u, l += 0xbb67ae85u;
    }
    const Words all[4] = {a, b, c, d};
    for (int w = 0; w < 4; ++w) {
      const Halves lower = __builtin_convertvector(all[w], Halves);
      __builtin_memcpy(&word[w][i], &lower, sizeof lower);
    }
  }
}

/// word % span by a multiplication: with 2^64 / span rounded down the quotient is too small by at
/// most one. A span of 0 keeps all words.
struct Remainder {
  uint64_t span, inverse;
  explicit Remainder(uint64_t s) : span(s), inverse(s ? ~uint64_t{0} / s : 0) {}
  uint64_t operator()(uint64_t word) const {
    __extension__ typedef unsigned __int128 Product;
    const uint64_t quotient = uint64_t(Product{word} * inverse >> 64);
    const uint64_t rest = word - quotient * span;
    return rest - (rest >= span ? span : 0);
  }
};

/// Fills the output with the integers of `random_values`.
template <class T> void fill(const Random& r) {
  const Remainder remainder(r.span);
  parallel_chunks(r.n, 8192, r.n > kGrain, [&](int64_t at, int64_t end) {
    uint32_t word[4][kLanes];
    uint64_t random_word[2 * kLanes];
    for (; at < end; at += 2 * kLanes) {
      T* const out = static_cast<T*>(r.out) + at;
      const int64_t n = smaller(2 * kLanes, end - at), counters = ceil_div(n, 2);
      philox_lanes(r.seed, r.offset + uint64_t(at / 2), counters, word);
      for (int64_t i = 0; i < counters; ++i) {
        random_word[2 * i] = uint64_t(word[0][i]) << 32 | word[1][i];
        random_word[2 * i + 1] = uint64_t(word[2][i]) << 32 | word[3][i];
      }
      for (int64_t i = 0; r.span != 0 && i < n; ++i) random_word[i] = remainder(random_word[i]);
      for (int64_t i = 0; i < n; ++i) out[i] = T(r.low + int64_t(random_word[i]));
    }
  });
}

/// Computes the elements of n <= kLanes counters, as `random_values` does.
template <class T> void float_lanes(const Random& r, uint64_t counter, int64_t n, T* out) {
  constexpr int each = 16 / int(sizeof(T));
  uint32_t word[4][kLanes];
  T value[each][kLanes];
  philox_lanes(r.seed, r.offset + counter, n, word);
  for (int k = 0; k < each; ++k) {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      if constexpr (each == 4) value[k][i] = uniform(word[k][i]);
      else value[k][i] = uniform(word[2 * k][i], word[2 * k + 1][i]);
  }
  for (int k = 0; r.what == Distribution::normal && k < each; k += 2) {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      T pair[2];
      normals(value[k][i], value[k + 1][i], pair);
      value[k][i] = pair[0], value[k + 1][i] = pair[1];
    }
  }
  for (int64_t i = 0; i < n; ++i)
    for (int k = 0; k < each; ++k) out[each * i + k] = value[k][i];
}

template <class T> void fill_floats(const Random& r) {
  constexpr int64_t each = 16 / int64_t(sizeof(T)), batch = each * kLanes;
  parallel_chunks(r.n, 64 * batch, r.n > kGrain, [&](int64_t at, int64_t end) {
    for (; at < end; at += batch) {
      T* const out = static_cast<T*>(r.out) + at;
      const int64_t n = smaller(batch, end - at), counters = ceil_div(n, each);
      T rest[batch];
      float_lanes(r, uint64_t(at / each), counters, n < batch ? rest : out);
      if (n < batch) __builtin_memcpy(out, rest, n * sizeof(T));
    }
  });
}

}  // namespace

void random(const Random& r) {
  with_element(r.dtype, [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T>)
      if (r.what != Distribution::integer) return fill_floats<T>(r);
    fill<T>(r);
  });
}

}  // namespace MT_ISA
}  // namespace mt
