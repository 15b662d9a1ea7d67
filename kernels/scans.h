// scans.h -- every scan in one struct: the running form of a reduction, or a state of its own
//
// A scan has the members of a reduction (reductions.h): `enter`, `combine`, and `finish`, which
// computes each result from all elements so far. Its gradient is a scan from the end of each line.
// `Result::wide`: integers are converted first, and the function has an in-place form.
// To add a scan: write its struct, its function, and its entry in the list at the end of the file.
#pragma once
#include "kernels/reductions.h"

namespace mt::op {
inline namespace MT_ISA {

/// The defaults of the properties of a scan.
///   reverse_scan        the gradient is this scan of the incoming gradient, from the end
///   weigh, unweigh      the gradient is unweigh(that scan of weigh(g, x, y), x, y); `by_sign`: for g
///                       where it is positive, minus that for -g where it is negative
///   needs_index         the second result is the positions of the elements, which get the gradient
struct Scanning : Reduction {
  static constexpr bool reverse_scan = false, by_sign = false;
  static constexpr bool lines_apart = false;  // faster on a GPU for lines adjacent in memory
};

/// The function object of a scan: `cumsum(x, dim)` calls `scan` of x's namespace.
template <class Op> struct ScanFunction {
  template <class X, class... P>
  auto operator()(const X& x, int64_t dim, const P&... params) const {
    return scan(Op{}, x, dim, params...);
  }
};
#ifdef __CUDACC__
#define MT_SCAN(Op, name)
#else
#define MT_SCAN(Op, name)                 \
  inline namespace functions {            \
  inline constexpr ScanFunction<Op> name; \
  }
#endif

/// The running form of a reduction.
template <class Of> struct Running : Scanning {
  static constexpr bool maps = Of::maps;
  using Total = Of;
  template <class A> MT_HD static A premap(A a) { return Of::premap(a); }
  template <class T> using State = typename Of::template State<T>;
  template <class S> MT_HD static S identity() { return Of::template identity<S>(); }
  template <class S> MT_HD static S combine(const S& x, const S& y) { return Of::combine(x, y); }
};

// clang-format off

struct Cumsum : Running<Sum> {
  static constexpr bool reverse_scan = true;
  static constexpr ReduceInfo info{"cumsum", "The sum of all elements so far along dim.",
    Takes::any, Result::wide, Empty::has_result, reads_nothing,
    kFour, {{1.5, -0.75, 2.25, 2.75}, {-1, -0.75, 1.25, 3.25}}, {}, Autocast::float32};
};
MT_SCAN(Cumsum, cumsum)

/// The gradient is in engine/ops/reduce.cpp, because it depends on where the zeros are.
struct Cumprod : Running<Prod> {
  static constexpr ReduceInfo info{"cumprod", "The product of all elements so far along dim.",
    Takes::any, Result::wide, Empty::has_result, reads_x | reads_result,
    kFour, {{1.5, -3.375, -10.125, -5.0625}, {-1, -0.25, -0.5, -1}}, {},
    Autocast::float32};
};
MT_SCAN(Cumprod, cumprod)

struct Logcumsumexp : Scanning {
  static constexpr bool reverse_scan = true, by_sign = true, lines_apart = true;
  static constexpr ReduceInfo info{"logcumsumexp",
    "log(cumsum(exp(x))) along dim, without overflow.",
    Takes::real, Result::same, Empty::has_result, reads_x | reads_result,
    kFour,
    {{1.5, 1.523245464372425, 3.2056943382598847, 3.2703802635371621},
     {-1, 0.50192908134537289, 2.2017654692844331, 2.7991099701326601}}, {},
    Autocast::float32_round};
  template <class T> using State = Wide<T>;
  template <class S> MT_HD static S identity() { return math::lowest<S>(); }
  template <class S, class T> MT_HD static S enter(T x, int64_t, const double*) { return S(x); }
  /// log(exp(a) + exp(b)).
  template <class S> MT_HD static S combine(S a, S b) {
    const S most = a > b ? a : b, least = a > b ? b : a;
    const S both = most + math::log1p(math::exp(least - most));
    const S known = a == b ? a : most;  // an infinity
    return most - most == S(0) ? both : (a != a ? a : b != b ? b : known);
  }
  /// The sum over later i of g[i] exp(x - y[i]), computed with logarithms.
  template <class V> static V weigh(const V& g, const V&, const V& y) {
    const V none(-math::kInfinity);
    return select(g > V(0), log(select(g > V(0), g, V(1))) - select(y == none, zero(y), y), none);
  }
  template <class V> static V unweigh(const V& s, const V& x, const V&) { return exp(s + x); }
};
MT_SCAN(Logcumsumexp, logcumsumexp)

/// The extreme so far and the position of its last occurrence, or of the last NaN.
template <bool Largest> struct RunningExtreme : Scanning {
  static constexpr bool needs_index = true;
  template <class T> using State = ArgState<T>;
  template <class T> MT_HD static T worst() { return Extreme<Largest>::template identity<T>(); }
  template <class T> MT_HD static bool wins(T x, T best) {
    return (Largest ? x >= best : x <= best) | (x != x);
  }
  template <class S> MT_HD static S identity() { return {worst<decltype(S::value)>(), -1}; }
  template <class S, class T> MT_HD static S enter(T x, int64_t i, const double*) { return {x, i}; }
  template <class S> MT_HD static S combine(const S& a, const S& b) {
    return b.at >= 0 && (a.at < 0 || wins(b.value, a.value)) ? b : a;
  }
  template <class T, class S> MT_HD static T finish(const S& s, const ReduceCall&) {
    return s.value;
  }
  template <class S> MT_HD static int64_t index(const S& s) { return s.at; }
};

struct Cummax : RunningExtreme<true> {
  static constexpr ReduceInfo info{"cummax",
    "The largest element so far and its last position; NaN is propagated.",
    Takes::any, Result::same, Empty::has_result, reads_nothing,
    kFour, {{1.5, 1.5, 3, 3}, {-1, 0.25, 2, 2}}};
};
MT_SCAN(Cummax, cummax)

struct Cummin : RunningExtreme<false> {
  static constexpr ReduceInfo info{"cummin",
    "The smallest element so far and its last position; NaN is propagated.",
    Takes::any, Result::same, Empty::has_result, reads_nothing,
    kFour, {{1.5, -2.25, -2.25, -2.25}, {-1, -1, -1, -1}}};
};
MT_SCAN(Cummin, cummin)

struct DiscountedState {
  double sum, factor;  // factor: the weight of the earlier elements
};

/// y[i] = x[i] + discount * y[i - 1]: a recursive filter; its gradient is the filter in reverse.
struct DiscountedCumsum : Scanning {
  static constexpr bool reverse_scan = true;
  static constexpr ReduceInfo info{"discounted_cumsum",
    "The sum of all elements so far along dim, each times discount to the power of its distance.",
    Takes::real, Result::same, Empty::has_result, reads_nothing,
    kFour, {{1.5, -1.5, 2.25, 1.625}, {-1, -0.25, 1.875, 2.9375}}, {{"discount", 0.5, true}},
    Autocast::float32};
  template <class T> using State = DiscountedState;
  template <class S> MT_HD static S identity() { return {0, 1}; }
  template <class S, class T> MT_HD static S enter(T x, int64_t, const double* param) {
    return {double(x), param[0]};
  }
  template <class S> MT_HD static S combine(const S& a, const S& b) {
    return {a.sum * b.factor + b.sum, a.factor * b.factor};
  }
  template <class T, class S> MT_HD static T finish(const S& s, const ReduceCall&) {
    return T(s.sum);
  }
};
MT_SCAN(DiscountedCumsum, discounted_cumsum)

// ---- the list: the only registration -----------------------------------------------------------

using Scans = List<Cumsum, Cumprod, Logcumsumexp, Cummax, Cummin, DiscountedCumsum>;

// clang-format on

}  // namespace MT_ISA
}  // namespace mt::op
