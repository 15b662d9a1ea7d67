// reductions.h -- every reduction: what it starts from, how two elements join, and its help
#pragma once
#include "kernels/ops.h"

namespace mt::op {
inline namespace MT_ISA {

/// A reduction joins elements with an associative function, starting from its identity.
struct ReduceInfo {
  const char* name;
  const char* doc;
  bool empty_ok;         // false: an empty dimension has no answer (max of nothing)
  bool boolean = false;  // asks of each element whether it is nonzero, and answers bool
};

struct Sum {
  static constexpr ReduceInfo info{"sum", "the sum; of integers an int64, of nothing 0", true};
  template <class T> MT_HD static T identity() { return T(0); }
  template <class T> MT_HD static T join(T x, T y) { return x + y; }
};

struct Prod {
  static constexpr ReduceInfo info{"prod", "the product; of integers an int64, of nothing 1", true};
  template <class T> MT_HD static T identity() { return T(1); }
  template <class T> MT_HD static T join(T x, T y) { return x * y; }
};

struct Amax {
  static constexpr ReduceInfo info{"amax",
                                   "the largest element; NaN wins; ties share the gradient", false};
  template <class T> MT_HD static T identity() { return math::lowest<T>(); }
  template <class T> MT_HD static T join(T x, T y) { return Maximum::f(x, y); }
};

struct Amin {
  static constexpr ReduceInfo info{"amin",
                                   "the smallest element; NaN wins; ties share the gradient", false};
  template <class T> MT_HD static T identity() { return math::highest<T>(); }
  template <class T> MT_HD static T join(T x, T y) { return Minimum::f(x, y); }
};

struct All {
  static constexpr ReduceInfo info{"all", "whether every element is nonzero", true, true};
  template <class T> MT_HD static T identity() { return T(1); }
  template <class T> MT_HD static T join(T x, T y) { return T(x && y); }
};

struct Any {
  static constexpr ReduceInfo info{"any", "whether some element is nonzero", true, true};
  template <class T> MT_HD static T identity() { return T(0); }
  template <class T> MT_HD static T join(T x, T y) { return T(x || y); }
};

using Reductions = List<Sum, Prod, Amax, Amin, All, Any>;

}  // namespace MT_ISA
}  // namespace mt::op
