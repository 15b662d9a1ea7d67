// reductions.h -- every reduction: what it starts from, how two elements join, and its help
#pragma once
#include "kernels/ops.h"

namespace mt::op {
inline namespace MT_ISA {

/// What becomes of an element before it is joined.
enum class Premap { identity, abs, square, nonzero };

/// A reduction joins elements with an associative function, starting from its identity.
struct ReduceInfo {
  const char* name;
  const char* doc;
  bool empty_ok;         // false: an empty dimension has no answer (max of nothing)
  bool boolean = false;  // asks of each element whether it is nonzero, and answers bool
  Premap premap = Premap::identity;
  int extreme = 0;  // 1: the largest is kept, -1: the smallest; NaN wins
};

struct Sum {
  static constexpr ReduceInfo info{"sum", "The sum; of integers an int64, of nothing 0.", true};
  template <class T> MT_HD static T identity() { return T(0); }
  template <class T> MT_HD static T join(T x, T y) { return x + y; }
};

struct Prod {
  static constexpr ReduceInfo info{"prod", "The product; of integers an int64, of nothing 1.",
                                   true};
  template <class T> MT_HD static T identity() { return T(1); }
  template <class T> MT_HD static T join(T x, T y) { return x * y; }
};

struct Amax {
  static constexpr ReduceInfo info{"amax",
                                   "The largest element; NaN wins; ties share the gradient.",
                                   false,
                                   false,
                                   Premap::identity,
                                   1};
  template <class T> MT_HD static T identity() { return math::lowest<T>(); }
  template <class T> MT_HD static T join(T x, T y) { return Maximum::f(x, y); }
};

struct Amin {
  static constexpr ReduceInfo info{"amin",
                                   "The smallest element; NaN wins; ties share the gradient.",
                                   false,
                                   false,
                                   Premap::identity,
                                   -1};
  template <class T> MT_HD static T identity() { return math::highest<T>(); }
  template <class T> MT_HD static T join(T x, T y) { return Minimum::f(x, y); }
};

struct All {
  static constexpr ReduceInfo info{"all", "Whether every element is nonzero.", true, true};
  template <class T> MT_HD static T identity() { return T(1); }
  template <class T> MT_HD static T join(T x, T y) { return T(x && y); }
};

struct Any {
  static constexpr ReduceInfo info{"any", "Whether some element is nonzero; NaN is.", true, true};
  template <class T> MT_HD static T identity() { return T(0); }
  template <class T> MT_HD static T join(T x, T y) { return T(x || y); }
};

struct CountNonzero {
  static constexpr ReduceInfo info{"count_nonzero", "How many elements are not 0; NaN is not.",
                                   true, false, Premap::nonzero};
  template <class T> MT_HD static T identity() { return T(0); }
  template <class T> MT_HD static T join(T x, T y) { return x + y; }
};

struct Norm1 {
  static constexpr ReduceInfo info{"norm", "The sum of magnitudes.", true, false, Premap::abs};
  template <class T> MT_HD static T identity() { return T(0); }
  template <class T> MT_HD static T join(T x, T y) { return x + y; }
};

/// The square of the norm: the engine takes the root.
struct Norm2 {
  static constexpr ReduceInfo info{"norm", "The sum of squares.", true, false, Premap::square};
  template <class T> MT_HD static T identity() { return T(0); }
  template <class T> MT_HD static T join(T x, T y) { return x + y; }
};

struct NormMax {
  static constexpr ReduceInfo info{"norm", "The largest magnitude.", false, false, Premap::abs, 1};
  template <class T> MT_HD static T identity() { return T(0); }
  template <class T> MT_HD static T join(T x, T y) { return Maximum::f(x, y); }
};

using Reductions = List<Sum, Prod, Amax, Amin, All, Any, CountNonzero, Norm1, Norm2, NormMax>;

/// What elements of type T are joined in: floats and small integers in something wider.
template <class Op, class T> struct Accumulator { using type = T; };
#define MT_ACCUMULATE(Op, T, A) \
  template <> struct Accumulator<Op, T> { using type = A; };
#define MT_ACCUMULATE_WIDE(Op, Float) \
  MT_ACCUMULATE(Op, float, Float)     \
  MT_ACCUMULATE(Op, bool, int64_t)    \
  MT_ACCUMULATE(Op, uint8_t, int64_t) \
  MT_ACCUMULATE(Op, int32_t, int64_t)
MT_ACCUMULATE_WIDE(Sum, double)
MT_ACCUMULATE_WIDE(Prod, double)
MT_ACCUMULATE_WIDE(Norm1, double)
MT_ACCUMULATE_WIDE(Norm2, double)
MT_ACCUMULATE_WIDE(CountNonzero, int64_t)
MT_ACCUMULATE(CountNonzero, double, int64_t)
#undef MT_ACCUMULATE_WIDE
#undef MT_ACCUMULATE

/// An element as its reduction joins it, in the type A of the partial results.
template <class Op, class A, class T> MT_HD A enter(T x) {
  if constexpr (Op::info.premap == Premap::nonzero) return A(x != T(0));
  const A a = math::convert<A>(x);
  if constexpr (Op::info.premap == Premap::abs) return select(a < A(0), A(A(0) - a), a);
  else if constexpr (Op::info.premap == Premap::square) return a * a;
  else return a;
}

// ---- partial results that are more than one number ------------------------------------------------

/// The mean and the sum of squared deviations from it.
struct WelfordState {
  double n, mean, m2;
};
/// As in Chan, Golub & LeVeque 1979.
MT_HD WelfordState join(const WelfordState& a, const WelfordState& b) {
  if (a.n == 0) return b;
  if (b.n == 0) return a;
  const double n = a.n + b.n, delta = b.mean - a.mean;
  return {n, a.mean + delta * (b.n / n), a.m2 + b.m2 + delta * delta * (a.n * b.n / n)};
}
/// The variance: over nothing where the correction leaves nothing.
MT_HD double variance(const WelfordState& s, double correction) {
  const double left = s.n - correction;
  return s.m2 / (left > 0 ? left : 0.0);
}
MT_HD double mean(const WelfordState& s) { return s.n > 0 ? s.mean : 0.0 / s.n; }

/// log(sum(exp(x))) as an offset, which is finite, and the sum of exp(x - offset).
template <class T> struct LogSumExpState {
  T offset;
  double sum;
};
template <class T> MT_HD T offset_for(T most) {
  return most - most == T(0) ? most : T(0);  // infinities and NaN are met unshifted
}
template <class T>
MT_HD LogSumExpState<T> join(const LogSumExpState<T>& a, const LogSumExpState<T>& b) {
  if (a.sum == 0) return b;
  if (b.sum == 0) return a;
  const T most = a.offset > b.offset ? a.offset : b.offset;
  return {most, a.sum * math::exp(double(a.offset) - double(most)) +
                    b.sum * math::exp(double(b.offset) - double(most))};
}
template <class T> MT_HD double logarithm(const LogSumExpState<T>& s) {
  return double(s.offset) + math::log(s.sum);
}

/// Whether x takes the place of the extreme so far; a NaN counts as the extreme.
template <class Op, class T> MT_HD bool is_better(T x, T best) {
  const bool further = Op::info.extreme > 0 ? x > best : x < best;
  return further | ((x != x) & (best == best));
}

}  // namespace MT_ISA
}  // namespace mt::op
