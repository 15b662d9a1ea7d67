// scans.h -- what a scan starts from, and how it joins the next element
#pragma once
#include "kernels/reductions.h"

namespace mt {
inline namespace MT_ISA {

/// `Of` is the same as a reduction; `cut`: a line may be joined in parts.
struct SumSoFar {
  using Of = op::Sum;
  static constexpr bool cut = true;
  template <class A> MT_HD static A identity() { return A(0); }
  template <class A> MT_HD static A join(A a, A b) { return a + b; }
};
struct ProdSoFar {
  using Of = op::Prod;
  static constexpr bool cut = true;
  template <class A> MT_HD static A identity() { return A(1); }
  template <class A> MT_HD static A join(A a, A b) { return a * b; }
};
/// log(exp(a) + exp(b)).
struct LogAdd {
  static constexpr bool cut = false;
  template <class A> MT_HD static A identity() { return math::lowest<A>(); }
  template <class A> MT_HD static A join(A a, A b) {
    const A most = a > b ? a : b, least = a > b ? b : a;
    const A sum = most + math::log1p(math::exp(least - most));
    const A known = a == b ? a : most;  // an infinity
    return most - most == A(0) ? sum : (a != a ? a : b != b ? b : known);
  }
};

/// Whether x takes the place of the extreme so far: also where it equals it, and if it is NaN.
template <bool Largest, class T> MT_HD bool wins_so_far(T x, T best) {
  return (Largest ? x >= best : x <= best) | (x != x);
}
template <class T, bool Largest> MT_HD T worst_so_far() {
  return Largest ? math::lowest<T>() : math::highest<T>();
}

}  // namespace MT_ISA
}  // namespace mt
