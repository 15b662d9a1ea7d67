// random.cpp -- the random verb on the CPU
#include "kernels/math/random.h"

#include "kernels/cpu/blocks.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kLanes = 64;

/// The words of n counters, each word in an array of its own, so that the loop becomes SIMD code. The
/// same integers as `philox` of random.h.
void philox_lanes(uint64_t seed, uint64_t counter, int64_t n, uint32_t (&word)[4][kLanes]) {
  MT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t at = counter + uint64_t(i);
    uint32_t a = uint32_t(at), b = uint32_t(at >> 32), c = 0, d = 0;
    uint32_t k = uint32_t(seed), l = uint32_t(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const uint64_t p = uint64_t{0xd2511f53u} * a, q = uint64_t{0xcd9e8d57u} * c;
      a = uint32_t(q >> 32) ^ b ^ k, b = uint32_t(q);
      c = uint32_t(p >> 32) ^ d ^ l, d = uint32_t(p);
      k += 0x9e3779b9u, l += 0xbb67ae85u;
    }
    word[0][i] = a, word[1][i] = b, word[2][i] = c, word[3][i] = d;
  }
}

/// word % span by a product: 2^64 / span rounded down makes the quotient too small by one at most. A span of 0 keeps
/// all words.
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

/// Whole numbers, as `random_values` gives them.
template <class T> void fill(const Random& r) {
  const Remainder remainder(r.span);
  parallel_chunks(r.n, 8192, r.n > kGrain, [&](int64_t at, int64_t end) {
    uint32_t word[4][kLanes];
    T value[2][kLanes];
    for (; at < end; at += 2 * kLanes) {
      T* const out = static_cast<T*>(r.out) + at;
      const int64_t n = smaller(2 * kLanes, end - at), counters = ceil_div(n, 2);
      philox_lanes(r.seed, r.offset + uint64_t(at / 2), counters, word);
      for (int k = 0; k < 2; ++k)
        for (int64_t i = 0; i < counters; ++i) {
          const uint64_t drawn = remainder(uint64_t(word[2 * k][i]) << 32 | word[2 * k + 1][i]);
          value[k][i] = T(r.low + int64_t(drawn));
        }
      for (int64_t i = 0; i < n; ++i) out[i] = value[i % 2][i / 2];
    }
  });
}

/// The elements of n <= kLanes counters, as `random_values` gives them.
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
  const bool whole = r.what == Distribution::integer;
  switch (r.dtype) {
    case Dtype::b8: return fill<bool>(r);
    case Dtype::u8: return fill<uint8_t>(r);
    case Dtype::i32: return fill<int32_t>(r);
    case Dtype::i64: return fill<int64_t>(r);
    case Dtype::f32: return whole ? fill<float>(r) : fill_floats<float>(r);
    default: return whole ? fill<double>(r) : fill_floats<double>(r);
  }
}

}  // namespace MT_ISA
}  // namespace mt
