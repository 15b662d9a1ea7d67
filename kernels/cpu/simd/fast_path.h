// fast_path.h -- operations with a faster path for most numbers, and the test for whether a loop may use it
//
// The fast path gives the same bits where it is allowed, so that an element's result does not
// depend on its neighbours. A loop tests kProbe elements, which are then in the L1 cache, and calls
// the formula with Reduced numbers or with plain ones.
#pragma once
#include "kernels/cpu/pool/parallel.h"
#include "kernels/ops.h"

namespace mt {
inline namespace MT_ISA {

constexpr int64_t kProbe = 1024;

using op::Shortcut;
template <class Op, int Part> constexpr Shortcut shortcut = Op::info.facts.shortcut[Part];

#if defined(__FMA__) || defined(__AVX512F__)
constexpr bool kHasFma = true;
#else
constexpr bool kHasFma = false;
#endif

/// Whether a loop over T may use it: for double a quotient needs fma; integers divide as floats.
template <class Op, int Part, class T>
constexpr bool has_shortcut =
    math::is_floating<T>
        ? shortcut<Op, Part> != Shortcut::none &&
              (sizeof(T) == 4 || shortcut<Op, Part> != Shortcut::quotient || kHasFma)
        : math::is_integer<T>&& Part == 0 && shortcut<Op, Part> == Shortcut::quotient;

/// Whether all of x[0, n) are angles that are reduced by subtraction.
template <class T> bool all_near(int64_t n, const T* x) {
  const auto size = [](T y) {  // for a double the upper half
    return uint32_t(math::core::to_bits(y) >> (8 * sizeof(T) - 32)) & 0x7fffffffu;
  };
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i) most = size(x[i]) > most ? size(x[i]) : most;
  return most < size(math::core::Real<T>::near);
}
template <class T> bool all_positive(int64_t n, const T* x) {
  constexpr int64_t kFirst = 64;  // a quick test: if these are positive, the others mostly are
  if (n > kFirst && !all_positive(kFirst, x)) return false;
  int others = 0;
  for (int64_t i = 0; i < n; ++i) others |= x[i] > T(0) ? 0 : 1;
  return others == 0;
}
/// Whether all |x / y| are below 2^28, and y is neither 0 nor infinite; for integers, whether all are below 2^52.
template <class T> bool all_moderate(int64_t n, const T* x, const T* y) {
  if constexpr (math::is_integer<T>) {
    uint64_t bits = 0;
    for (int64_t i = 0; i < n && sizeof(T) == 8; ++i)
      bits |= uint64_t((x[i] ^ (x[i] < 0 ? T(-1) : T(0))) | (y[i] ^ (y[i] < 0 ? T(-1) : T(0))));
    return bits < uint64_t{1} << 52;
  }
  int others = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T size = math::abs(y[i]) * T(0x1p28);
    others |= (math::abs(x[i]) < size) & (size < T(math::kInfinity)) ? 0 : 1;
  }
  return others == 0;
}

template <class Op, int Part, class T> bool in_fast_range(int64_t n, const T* x) {
  if constexpr (shortcut<Op, Part> == Shortcut::angle) return all_near(n, x);
  else return all_positive(n, x);
}
template <class Op, int Part, class T> bool in_fast_range(int64_t n, const T* x, const T* y) {
  if constexpr (Part == 0) return all_moderate(n, x, y);
  else return all_near(n, y);  // x is the incoming gradient
}
template <class Op, int Part, class T>
bool in_fast_range(int64_t n, const T*, const T* x, const T* y) {
  return all_moderate(n, x, y);
}

}  // namespace MT_ISA
}  // namespace mt
