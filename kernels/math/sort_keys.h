// sort_keys.h -- the unsigned integer keys of the sort verb
//
// An element is mapped to an unsigned key with the requested order: floats with their sign bit
// flipped, equal keys for the two zeros, NaN as the largest; complemented for descending order.
#pragma once
#include <type_traits>

#include "kernels/math/number.h"

namespace mt {
inline namespace MT_ISA {

template <class T> using KeyOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T> MT_HD KeyOf<T> key_of(T x) {
  using K = KeyOf<T>;
  if constexpr (math::is_floating<T>) {
    constexpr K sign = K(1) << (8 * sizeof(K) - 1);
    const K bits = __builtin_bit_cast(K, x + T(0));  // -0 + 0 is 0
    const K key = bits & sign ? ~bits : bits | sign;
    return x != x ? ~K(0) : key;
  } else if constexpr (sizeof(T) == 1) {
    return K(x);
  } else {
    return K(x) ^ K(1) << (8 * sizeof(K) - 1);
  }
}
/// The inverse of key_of, except for zeros and NaN.
template <class T> MT_HD T value_of(KeyOf<T> key) {
  using K = KeyOf<T>;
  if constexpr (math::is_floating<T>) {
    constexpr K sign = K(1) << (8 * sizeof(K) - 1);
    return __builtin_bit_cast(T, key & sign ? K(key ^ sign) : K(~key));
  } else if constexpr (sizeof(T) == 1) {
    return T(key);
  } else {
    return T(key ^ K(1) << (8 * sizeof(K) - 1));
  }
}
/// Whether several values have this key.
template <class T> MT_HD bool ambiguous(KeyOf<T> key) {
  return math::is_floating<T> && (key == ~KeyOf<T>(0) || key == key_of(T(0)));
}

/// A key and its position: in one word if lines are shorter than 2^32.
struct Wide {
  uint64_t key, at;
};
template <class K> using Item = std::conditional_t<sizeof(K) == 4, uint64_t, Wide>;
MT_HD uint64_t item(uint32_t key, int64_t at) { return uint64_t(key) << 32 | uint64_t(at); }
MT_HD Wide item(uint64_t key, int64_t at) { return {key, uint64_t(at)}; }
MT_HD uint32_t key_in(uint64_t item) { return uint32_t(item >> 32); }
MT_HD uint64_t key_in(const Wide& item) { return item.key; }
MT_HD int64_t at_in(uint64_t item) { return int64_t(item & 0xffffffff); }
MT_HD int64_t at_in(const Wide& item) { return int64_t(item.at); }

}  // namespace MT_ISA
}  // namespace mt
