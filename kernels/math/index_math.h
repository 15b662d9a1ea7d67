// index_math.h -- indices as data: reading an index, combining colliding values, searching sorted data
#pragma once
#include <type_traits>

#include "kernels/device.h"

namespace mt {
inline namespace MT_ISA {

/// The rules for reading an index.
struct Positions {
  int64_t extent, first, back;

  /// Index i as a position counted from 0; sets `wrong` if it is out of bounds, and then returns 0.
  /// Callers keep `wrong` in a local variable, so that it stays in a register.
  MT_HD int64_t read(int64_t i, bool& wrong) const {
    const int64_t k = i + (i < 0 ? back : -first);
    const bool inside = uint64_t(k) < uint64_t(extent);
    wrong |= !inside;
    return inside ? k : 0;
  }
};

/// Returns f(constant of that type and value).
template <class F> MT_HD auto with_join(ScatterReduce how, const F& f) {
  using enum ScatterReduce;
  switch (how) {
    case set: return f(std::integral_constant<ScatterReduce, set>());
    case add: return f(std::integral_constant<ScatterReduce, add>());
    case mul: return f(std::integral_constant<ScatterReduce, mul>());
    case max: return f(std::integral_constant<ScatterReduce, max>());
    default: return f(std::integral_constant<ScatterReduce, min>());
  }
}
/// The new value of element `cell` after x is scattered to it; max and min propagate NaN.
template <ScatterReduce J, class T> MT_HD T join(T cell, T x) {
  if constexpr (J == ScatterReduce::set) return x;
  else if constexpr (J == ScatterReduce::add) return static_cast<T>(cell + x);
  else if constexpr (J == ScatterReduce::mul) return static_cast<T>(cell * x);
  else if constexpr (J == ScatterReduce::max) return x > cell || x != x ? x : cell;
  else return x < cell || x != x ? x : cell;
}

/// searchsorted: how many of n sorted elements are below each value (`Right`: at most as large).
/// A NaN value comes last. The searches run in lockstep, so that their latencies overlap.
template <bool Right, int Count, class T>
MT_HD void places_among(const T* sorted, int64_t n, const T* value, int64_t* place) {
  const auto before = [](T x, T v) { return Right ? !(x > v) : !(x >= v); };
  for (int k = 0; k < Count; ++k) place[k] = 0;
  for (; n > 1; n -= n / 2) {
    const int64_t half = n / 2;
    for (int k = 0; k < Count; ++k)
      place[k] += before(sorted[place[k] + half - 1], value[k]) ? half : 0;
  }
  for (int k = 0; n > 0 && k < Count; ++k) place[k] += before(sorted[place[k]], value[k]);
}
template <bool Right, class T> MT_HD int64_t place_among(const T* sorted, int64_t n, T value) {
  int64_t place;
  places_among<Right, 1>(sorted, n, &value, &place);
  return place;
}

}  // namespace MT_ISA
}  // namespace mt
