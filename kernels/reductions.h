// reductions.h -- every reduction in one struct: state, result, derivative, help, test points
//
// `enter` makes a state from one element, `combine` joins two states in any order, `finish` computes the result.
// The order of combining depends only on the shape (kernels/cpu/verbs/reduce.cpp, kernels/cuda/reduce.cu).
// To add a reduction: write its struct, its function, and its entry in the list at the end of the
// file. A scan (scans.h) can be its running form.
#pragma once
#include "kernels/ops.h"

namespace mt::op {
inline namespace MT_ISA {

// ---- the declarations of a reduction ------------------------------------------------------------

/// The dtypes that a reduction accepts.
enum class Takes : uint8_t {
  any,     // all dtypes unchanged
  real,    // bool and integers become the default float
  floats,  // others are an error
  bools,   // others are first compared with 0
};

/// The dtype of the result.
enum class Result : uint8_t {
  same,     // the input's
  wide,     // the input's; int64 for integers and bools
  integer,  // int64
  boolean,  // bool
};

/// Whether the reduction of no elements has a result.
enum class Empty : uint8_t { has_result, refused };

/// The tensors that `df` reads besides the incoming gradient.
enum Reads : uint8_t { reads_nothing = 0, reads_x = 1, reads_result = 2, reads_second = 4 };

/// The float type in which a function of Lua computes under autocast (bindings/core/autocast.h).
enum class Autocast : uint8_t { none, float32, float32_round };

/// The range from which tests sample, and elements with known results.
using Lines = Domain<2, 4>;
constexpr Lines kFour{-4, 4, {{1.5, -2.25, 3, 0.5}, {-1, 0.25, 2, 2}}},
    kWithZero{-4, 4, {{1.5, -2.25, 3, 0.5}, {-1, 0, 2, 2}}};

/// Describes a reduction or scan. Without `doc` it is part of a function and has no documentation.
struct ReduceInfo {
  const char* name;
  const char* doc;
  Takes takes;
  Result result;
  Empty empty;
  uint8_t reads;
  Lines domain;
  double results[2][4];  // for domain.in, from another program; a scan has one per element
  Param params[kMaxParams - 1] = {};
  Autocast autocast = Autocast::none;
};

/// The arguments of `finish`: the number of elements per result, and the parameters.
struct ReduceCall {
  double count;
  const double* param;
};

/// The arguments of `df`, numbers or tensors. `second`: the second result; for a struct whose ties
/// share the gradient, the number of elements that tie.
template <class V> struct ReduceContext {
  double count;
  double param[kMaxParams - 1];
  V second;
};

/// The defaults of the properties of a reduction.
///   maps         the state is a number, `enter` is `premap` of the converted element, and `premap` and
///                `combine` accept vectors of floats too
///   hands_on     `df` is g: no kernel runs
///   folds        floats may be mapped and combined in groups of eight before they are widened
///   extreme      1: the result is the largest element, -1: the smallest
///   two_results  `second` computes the second result
///   ties_share   the elements for which `ties(x, y)` holds share the gradient
///   needs_index  the result is a position, the second result its element, which has a gradient
struct Reduction {
  static constexpr bool maps = false, hands_on = false, folds = false, two_results = false,
                        ties_share = false, needs_index = false;
  static constexpr int extreme = 0;
  template <class A> MT_HD static A premap(A a) { return a; }
  template <class T, class S> MT_HD static S finish(const S& s, const ReduceCall&) { return s; }
};

/// The function object of a reduction: `sum(x, dims, keepdim)` calls `reduce` of x's namespace,
/// which also defines the type of dims.
template <class Op, class X> struct DimsOf;
template <class Op> struct ReduceFunction {
  template <class X, class... P>
  auto operator()(const X& x, const typename DimsOf<Op, X>::type& dims = {}, bool keepdim = false,
                  const P&... params) const {
    return reduce(Op{}, x, dims, keepdim, params...);
  }
};
#ifdef __CUDACC__
#define MT_REDUCTION(Op, name)
#else
#define MT_REDUCTION(Op, name)              \
  inline namespace functions {              \
  inline constexpr ReduceFunction<Op> name; \
  }
#endif

// ---- states that are one number -------------------------------------------------------------------

/// The type in which elements of type T are added and multiplied: wider for floats and small integers.
template <class T> struct WideOf { using type = int64_t; };
template <> struct WideOf<float> { using type = double; };
template <> struct WideOf<double> { using type = double; };
template <class T> using Wide = typename WideOf<T>::type;

struct Adds : Reduction {
  static constexpr bool maps = true;
  template <class T> using State = Wide<T>;
  template <class S> MT_HD static S identity() { return S(0); }
  template <class S> MT_HD static S combine(S x, S y) { return x + y; }
};
struct Multiplies : Reduction {
  static constexpr bool maps = true;
  template <class T> using State = Wide<T>;
  template <class S> MT_HD static S identity() { return S(1); }
  template <class S> MT_HD static S combine(S x, S y) { return x * y; }
};
/// NaN is propagated.
template <bool Largest> struct Extreme : Reduction {
  static constexpr bool maps = true, ties_share = true;
  static constexpr int extreme = Largest ? 1 : -1;
  template <class T> using State = T;
  template <class S> MT_HD static S identity() {
    return Largest ? math::lowest<S>() : math::highest<S>();
  }
  template <class S> MT_HD static S combine(S x, S y) {
    if constexpr (Largest) return Maximum::f(x, y);
    else return Minimum::f(x, y);
  }
  template <class V> static auto ties(const V& x, const V& y) { return x == y; }
  template <class V>
  MT_HD static V df(const V& g, const V& x, const V& y, const ReduceContext<V>& c) {
    return select(x == y, g, zero(g)) / c.second;
  }
};

// clang-format off

struct Sum : Adds {
  static constexpr bool hands_on = true, folds = true;
  static constexpr ReduceInfo info{"sum", "The sum; int64 for integers, 0 for no elements.",
    Takes::any, Result::wide, Empty::has_result, reads_nothing,
    kFour, {{2.75}, {3.25}}, {}, Autocast::float32};
  template <class V>
  MT_HD static V df(const V& g, const V&, const V&, const ReduceContext<V>&) { return g; }
};
MT_REDUCTION(Sum, sum)

struct NanSum : Adds {
  static constexpr bool folds = true;
  static constexpr ReduceInfo info{"nansum", "The sum of the elements that are not NaN.",
    Takes::any, Result::wide, Empty::has_result, reads_x,
    kFour, {{2.75}, {3.25}}, {}, Autocast::float32};
  template <class A> MT_HD static A premap(A a) { return a == a ? a : A{}; }
  template <class V>
  MT_HD static V df(const V& g, const V& x, const V&, const ReduceContext<V>&) {
    return select(x == x, g, zero(g));
  }
};
MT_REDUCTION(NanSum, nansum)

/// The gradient is in engine/ops/reduce.cpp, because it depends on where the zeros are.
struct Prod : Multiplies {
  static constexpr ReduceInfo info{"prod", "The product; int64 for integers, 1 for no elements.",
    Takes::any, Result::wide, Empty::has_result, reads_x | reads_result,
    kFour, {{-5.0625}, {-1}}, {}, Autocast::float32};
};
MT_REDUCTION(Prod, prod)

struct Amax : Extreme<true> {
  static constexpr ReduceInfo info{"amax", "The largest element or NaN; ties share the gradient.",
    Takes::any, Result::same, Empty::refused, reads_x | reads_result,
    kFour, {{3}, {2}}};
};
MT_REDUCTION(Amax, amax)

struct Amin : Extreme<false> {
  static constexpr ReduceInfo info{"amin", "The smallest element or NaN; ties share the gradient.",
    Takes::any, Result::same, Empty::refused, reads_x | reads_result,
    kFour, {{-2.25}, {-1}}};
};
MT_REDUCTION(Amin, amin)

struct LogicalReduction : Reduction {
  static constexpr bool maps = true;
  template <class T> using State = T;
};

struct All : LogicalReduction {
  static constexpr ReduceInfo info{"all",
    "Whether all are nonzero: a Lua boolean, or a bool tensor along dim.",
    Takes::bools, Result::boolean, Empty::has_result, reads_nothing,
    kWithZero, {{1}, {0}}};
  template <class S> MT_HD static S identity() { return S(1); }
  template <class S> MT_HD static S combine(S x, S y) { return S(x & y); }
};
MT_REDUCTION(All, all)

struct Any : LogicalReduction {
  static constexpr ReduceInfo info{"any",
    "Whether any is nonzero: a Lua boolean, or a bool tensor along dim.",
    Takes::bools, Result::boolean, Empty::has_result, reads_nothing,
    {-4, 4, {{1.5, -2.25, 3, 0.5}, {0, 0, 0, 0}}}, {{1}, {0}}};
  template <class S> MT_HD static S identity() { return S(0); }
  template <class S> MT_HD static S combine(S x, S y) { return S(x | y); }
};
MT_REDUCTION(Any, any)

struct CountNonzero : Adds {
  static constexpr ReduceInfo info{"count_nonzero", "The number of nonzero elements; NaN counts.",
    Takes::any, Result::integer, Empty::has_result, reads_nothing,
    kWithZero, {{4}, {3}}};
  template <class A> MT_HD static A premap(A a) { return a != 0 ? A{} + 1 : A{}; }
};
MT_REDUCTION(CountNonzero, count_nonzero)

// ---- states of several numbers --------------------------------------------------------------------

/// log(sum(exp(x))) as an offset, which is finite, and the sum of exp(x - offset).
template <class T> struct LogSumExpState {
  T offset;
  double sum;
};
template <class T> MT_HD T offset_for(T most) {
  return most - most == T(0) ? most : T(0);  // infinities and NaN are compared unshifted
}

struct LogSumExp : Reduction {
  static constexpr ReduceInfo info{"logsumexp", "log(sum(exp(x))) without overflow; -inf if empty.",
    Takes::real, Result::same, Empty::has_result, reads_x | reads_result,
    kFour, {{3.2703802635371621}, {2.7991099701326601}}, {}, Autocast::float32};
  template <class T> using State = LogSumExpState<T>;
  template <class S> MT_HD static S identity() { return {0, 0}; }
  template <class S, class T> MT_HD static S enter(T x, int64_t, const double*) {
    const T offset = offset_for(x);
    return {offset, math::exp(double(x) - double(offset))};
  }
  template <class S> MT_HD static S combine(const S& a, const S& b) {
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    const auto most = a.offset > b.offset ? a.offset : b.offset;
    return {most, a.sum * math::exp(double(a.offset) - double(most)) +
                      b.sum * math::exp(double(b.offset) - double(most))};
  }
  template <class T, class S> MT_HD static T finish(const S& s, const ReduceCall&) {
    return T(double(s.offset) + math::log(s.sum));
  }
  /// A row of only -infinity has the gradient 0: its sum of exp does not depend on any element.
  template <class V>
  MT_HD static V df(const V& g, const V& x, const V& y, const ReduceContext<V>&) {
    return g * exp(x - select(y == V(-math::kInfinity), zero(y), y));
  }
};
MT_REDUCTION(LogSumExp, logsumexp)

/// An element and its position; -1: no element yet.
template <class T> struct ArgState {
  T value;
  int64_t at;
};
/// Whether x replaces the extreme so far; a NaN counts as the extreme.
template <class Op, class T> MT_HD bool is_better(T x, T best) {
  const bool further = Op::extreme > 0 ? x > best : x < best;
  return further | ((x != x) & (best == best));
}

template <bool Largest> struct ArgExtreme : Reduction {
  static constexpr bool two_results = true, needs_index = true;
  static constexpr int extreme = Largest ? 1 : -1;
  using Value = Extreme<Largest>;  // the reduction that returns only the element
  template <class T> using State = ArgState<T>;
  template <class S> MT_HD static S identity() { return {0, -1}; }
  template <class S, class T> MT_HD static S enter(T x, int64_t i, const double*) { return {x, i}; }
  template <class S> MT_HD static S combine(const S& a, const S& b) {
    if (a.at < 0) return b;
    if (b.at < 0) return a;
    if (is_better<ArgExtreme>(a.value, b.value)) return a;
    if (is_better<ArgExtreme>(b.value, a.value)) return b;
    return a.at < b.at ? a : b;
  }
  template <class T, class S> MT_HD static int64_t finish(const S& s, const ReduceCall&) {
    return s.at;
  }
  template <class T, class S> MT_HD static T second(const S& s) { return s.value; }
};

struct Argmax : ArgExtreme<true> {
  static constexpr ReduceInfo info{"argmax", "The position (from 1) of the first largest element.",
    Takes::any, Result::integer, Empty::refused, reads_nothing,
    kFour, {{2}, {2}}};
};
MT_REDUCTION(Argmax, argmax)

struct Argmin : ArgExtreme<false> {
  static constexpr ReduceInfo info{"argmin", "The position (from 1) of the first smallest element.",
    Takes::any, Result::integer, Empty::refused, reads_nothing,
    kFour, {{1}, {0}}};
};
MT_REDUCTION(Argmin, argmin)

/// The mean and the sum of squared deviations from it (Welford 1962).
struct Moments {
  double n, mean, m2;
};
/// Combines two sets (Chan, Golub & LeVeque 1979).
MT_HD Moments combine(const Moments& a, const Moments& b) {
  if (a.n == 0) return b;
  if (b.n == 0) return a;
  const double n = a.n + b.n, delta = b.mean - a.mean;
  return {n, a.mean + delta * (b.n / n), a.m2 + b.m2 + delta * delta * (a.n * b.n / n)};
}

/// The second result is the mean. mt.var has a different signature (`unbiased`).
struct Var : Reduction {
  static constexpr bool two_results = true;
  static constexpr ReduceInfo info{"var",
    "The variance: squared deviations over n - correction; unbiased=false is correction=0. By "
    "position keepdim comes after dim (in PyTorch unbiased): x:var(1, {unbiased=false}).",
    Takes::floats, Result::same, Empty::has_result, reads_x | reads_second,
    kFour, {{4.890625}, {2.140625}}, {{"correction", 1}}, Autocast::float32_round};
  template <class T> using State = Moments;
  template <class S> MT_HD static S identity() { return {0, 0, 0}; }
  template <class S, class T> MT_HD static S enter(T x, int64_t, const double*) { return {1, double(x), 0}; }
  template <class S> MT_HD static S combine(const S& a, const S& b) { return op::combine(a, b); }
  /// The divisor; 0 where the correction leaves no elements.
  MT_HD static double left(double count, double correction) {
    return count > correction ? count - correction : 0;
  }
  template <class T, class S> MT_HD static T finish(const S& s, const ReduceCall& c) {
    return T(s.m2 / left(s.n, c.param[0]));
  }
  template <class T, class S> MT_HD static T second(const S& s) {
    return T(s.n > 0 ? s.mean : 0.0 / s.n);
  }
  /// The mean, for gradients of gradients: `reduced` computes other reductions of x.
  template <class F> static auto second_of(const F& reduced, double count) {
    return reduced(Sum{}) / count;
  }
  template <class V>
  MT_HD static V df(const V& g, const V& x, const V&, const ReduceContext<V>& c) {
    return g * (x - c.second) * V(2 / left(c.count, c.param[0]));
  }
};

struct EntropyState {
  double sum, product;  // of x and of x log(x)
};

/// The second result is the sum.
struct Entropy : Reduction {
  static constexpr bool two_results = true;
  static constexpr ReduceInfo info{"entropy",
    "The Shannon entropy -sum(p * log(p)) of p = x / sum(x), where 0 * log(0) is 0; NaN if empty.",
    Takes::real, Result::same, Empty::has_result, reads_x | reads_result | reads_second,
    {0.1, 4, {{1, 1, 2, 4}, {0.5, 0, 1.5, 3}}}, {{1.2130075659799043}, {0.89794572485677978}}, {},
    Autocast::float32};
  template <class T> using State = EntropyState;
  template <class S> MT_HD static S identity() { return {0, 0}; }
  template <class S, class T> MT_HD static S enter(T x, int64_t, const double*) {
    const double p = double(x);
    return {p, p == 0 ? 0 : p * math::log(p)};
  }
  template <class S> MT_HD static S combine(const S& a, const S& b) {
    return {a.sum + b.sum, a.product + b.product};
  }
  template <class T, class S> MT_HD static T finish(const S& s, const ReduceCall&) {
    return T(math::log(s.sum) - s.product / s.sum);
  }
  template <class T, class S> MT_HD static T second(const S& s) { return T(s.sum); }
  template <class F> static auto second_of(const F& reduced, double) { return reduced(Sum{}); }
  template <class V>
  MT_HD static V df(const V& g, const V& x, const V& y, const ReduceContext<V>& c) {
    return -g * (log(x / c.second) + y) / c.second;
  }
};
MT_REDUCTION(Entropy, entropy)

// ---- parts of norm ----------------------------------------------------------------------------------

struct Norm1 : Adds {
  static constexpr ReduceInfo info{"norm", nullptr,
    Takes::floats, Result::same, Empty::has_result, reads_x,
    kFour, {{7.25}, {5.25}}};
  template <class A> MT_HD static A premap(A a) { return a < 0 ? -a : a; }
  template <class V>
  MT_HD static V df(const V& g, const V& x, const V&, const ReduceContext<V>&) {
    return g * sign(x);
  }
};

struct Norm2 : Adds {
  static constexpr ReduceInfo info{"norm", nullptr,
    Takes::floats, Result::same, Empty::has_result, reads_x | reads_result,
    kFour, {{4.0697051490249266}, {3.0103986446980739}}};
  template <class A> MT_HD static A premap(A a) { return a * a; }
  template <class T, class S> MT_HD static T finish(const S& s, const ReduceCall&) {
    return T(math::sqrt(s));  // of a double, because the squares of float32 would overflow
  }
  template <class V>
  MT_HD static V df(const V& g, const V& x, const V& y, const ReduceContext<V>&) {
    return select(y == V(0), zero(g), x / select(y == V(0), y + V(1), y) * g);
  }
};

struct NormMax : Extreme<true> {
  static constexpr ReduceInfo info{"norm", nullptr,
    Takes::floats, Result::same, Empty::refused, reads_x | reads_result,
    kFour, {{3}, {2}}};
  template <class A> MT_HD static A premap(A a) { return a < 0 ? -a : a; }
  template <class V> static auto ties(const V& x, const V& y) { return abs(x) == y; }
  template <class V>
  MT_HD static V df(const V& g, const V& x, const V& y, const ReduceContext<V>& c) {
    return select(abs(x) == y, g, zero(g)) * sign(x) / c.second;
  }
};

// ---- the list: the only registration -----------------------------------------------------------

using Reductions = List<Sum, NanSum, Prod, Amax, Amin, All, Any, CountNonzero, LogSumExp, Argmax, Argmin,
                        Var, Entropy, Norm1, Norm2, NormMax>;

// clang-format on

// ---- helpers for loops ------------------------------------------------------------------------------

/// The state type for elements of type T.
template <class Op, class T> using StateOf = typename Op::template State<T>;

/// Converts element i to a state.
template <class Op, class S, class T> MT_HD S enter(T x, int64_t i, const double* param) {
  if constexpr (Op::maps) return Op::premap(math::convert<S>(x));
  else return Op::template enter<S>(x, i, param);
}

}  // namespace MT_ISA
}  // namespace mt::op
