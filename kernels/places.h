// places.h -- positions that are data: reading one, joining values that meet, searching sorted data
#pragma once
#include "kernels/device.h"

namespace mt {
inline namespace MT_ISA {

/// How positions are read.
struct Positions {
  int64_t extent, first, back;

  /// Position i counted from 0, and whether it is not there: then 0. Callers keep `wrong` in a
  /// variable of their own, so that it lives in a register.
  MT_HD int64_t read(int64_t i, bool& wrong) const {
    const int64_t k = i + (i < 0 ? back : -first);
    const bool there = uint64_t(k) < uint64_t(extent);
    wrong |= !there;
    return there ? k : 0;
  }
};

/// What becomes of a cell when x comes.
template <Join J, class T> MT_HD T join(T cell, T x) {
  if constexpr (J == Join::set) return x;
  else if constexpr (J == Join::add) return static_cast<T>(cell + x);
  else if constexpr (J == Join::mul) return static_cast<T>(cell * x);
  else if constexpr (J == Join::max) return x > cell || x != x ? x : cell;  // NaN stays
  else return x < cell || x != x ? x : cell;
}

/// How many of n sorted elements come before the value; of equal ones none (`Right`: all). A NaN
/// comes last.
template <bool Right, class T> MT_HD int64_t place_among(const T* sorted, int64_t n, T value) {
  const T* low = sorted;
  while (n > 0) {
    const int64_t half = n / 2;
    const bool up = Right ? !(low[half] > value) : !(low[half] >= value);
    low = up ? low + half + 1 : low;
    n = up ? n - half - 1 : half;
  }
  return low - sorted;
}

}  // namespace MT_ISA
}  // namespace mt
