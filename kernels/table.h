// table.h -- ids, numbers of inputs and tables of loops, computed from the lists of operations
#pragma once
#include <type_traits>
#include <utility>

#include "kernels/gpu.h"
#include "kernels/scans.h"

namespace mt::op {
inline namespace MT_ISA {

// ---- the index of a type in a list --------------------------------------------------------------

template <class Op, class All> constexpr int index_in = 0;
template <class Op, class... All>
constexpr int index_in<Op, List<All...>> = [] {
  int i = 0;
  (void)((!__is_same(Op, All) && ++i) && ...);
  return i;
}();
/// The number of an operation for devices and bindings.
template <class Op> constexpr int id = index_in<Op, Operations>;
/// The numbers of a reduction and of a scan.
template <class Op> constexpr int reduction_id = index_in<Op, Reductions>;
template <class Op> constexpr int scan_id = index_in<Op, Scans>;
/// The version of the interface to a plug-in. It changes with the numbers of operations and dtypes, whose ids both use.
constexpr uint32_t kPluginAbi =
    ((kGpuAbi * 257 + Operations::size) * 257 + Reductions::size + Scans::size) * 257 + kDtypes;

/// Calls `body(Op{})` for each entry of a list.
template <class... Op, class Body> constexpr void for_each(List<Op...>, Body&& body) {
  (body(Op{}), ...);
}

// ---- the properties of an operation -------------------------------------------------------------

template <class Op, class = void> constexpr bool mask_first = false;
template <class Op> constexpr bool mask_first<Op, decltype(void(Op::mask_first))> = true;

template <class Op, class = void> constexpr bool opaque = false;
template <class Op> constexpr bool opaque<Op, decltype(void(Op::opaque))> = true;
/// Whether the formula can be expressed in other operations, which no bitwise operation can.
template <class Op> constexpr bool traceable = !opaque<Op> && Op::info.accepts != Accepts::integer;

template <class AnyInfo> constexpr int count_params(const AnyInfo& info) {
  int n = 0;
  for (const Param& p : info.params) n += p.name ? 1 : 0;
  return n;
}

template <class R, class... A> constexpr int count_arguments(R (*)(A...)) { return sizeof...(A); }

/// The number of tensors an operation takes: its formula's arguments minus its parameters.
template <class Op> constexpr int count_inputs() {
  if constexpr (mask_first<Op>)
    return count_arguments(&Op::template f<bool, double>) - count_params(Op::info);
  else return count_arguments(&Op::template f<double>) - count_params(Op::info);
}
template <class Op> constexpr int inputs = count_inputs<Op>();

template <class T> constexpr bool is_bool = static_cast<T>(2) == static_cast<T>(1);
template <class R, class... A> constexpr bool returns_bool(R (*)(A...)) { return is_bool<R>; }
/// Whether the operation is a predicate: its result is bool for all inputs.
template <class Op> constexpr bool is_predicate() {
  if constexpr (mask_first<Op>) return false;
  else return returns_bool(&Op::template f<double>);
}
template <class Op> constexpr bool answers_bool = is_predicate<Op>();

/// The formula as a type with a static `call`: part 0 is f, part i is the derivative by input i.
template <class Op, int Part> struct Formula;
template <class Op> struct Formula<Op, 0> {
  template <class... T> MT_HD static auto call(T... x) { return Op::f(x...); }
};
template <class Op> struct Formula<Op, 2> {
  template <class... T> MT_HD static auto call(const T&... x) { return Op::db(x...); }
};
template <class Op> struct Formula<Op, 3> {
  template <class... T> MT_HD static auto call(const T&... x) { return Op::dc(x...); }
};
template <class Op> struct Formula<Op, 1> {
  template <class... T> MT_HD static auto call(const T&... x) {
    if constexpr (inputs<Op> == 1) return Op::df(x...);
    else return Op::da(x...);
  }
};

constexpr int count_saved(int mask) {
  return (mask & 1) + (mask >> 1 & 1) + (mask >> 2 & 1) + (mask >> 3 & 1);
}
/// The number of tensors that the formula of a part reads: the inputs, or the incoming gradient and
/// the saved tensors.
template <class Op, int Part>
constexpr int operands = Part == 0 ? inputs<Op> : 1 + count_saved(Op::info.saves[Part - 1]);

/// Calls a part of an operation on values, with arrays of its operands and parameters.
template <class Op, int Part, class Value, class Param = double>
Value call_formula(const Value* operand, [[maybe_unused]] const Param* params) {
  const auto call = [&]<int... I, int... S>(std::integer_sequence<int, I...>,
                                            std::integer_sequence<int, S...>) {
    return Formula<Op, Part>::call(operand[I]..., Value(params[S])...);
  };
  return call(std::make_integer_sequence<int, operands<Op, Part>>{},
              std::make_integer_sequence<int, count_params(Op::info)>{});
}

// Not `requires { &Op::template df<double>; }`: nvcc's front end evaluates that as false, does not
// compile the kernels, and g++ then takes the addresses of kernels that do not exist.
template <class Op> constexpr bool has_df = requires { count_arguments(&Op::template df<double>); };
template <class Op> constexpr bool has_da = requires { count_arguments(&Op::template da<double>); };
template <class Op> constexpr bool has_db = requires { count_arguments(&Op::template db<double>); }
|| requires { count_arguments(&Op::template db<bool, double>); };
template <class Op> constexpr bool has_dc = requires { count_arguments(&Op::template dc<double>); }
|| requires { count_arguments(&Op::template dc<bool, double>); };
static_assert(has_df<Neg> && has_da<Mul> && has_db<Mul> && has_db<Where> && has_dc<Where> &&
              has_dc<Lerp> && !has_df<Eq> && !has_dc<Mul>);
/// Whether the operation has a derivative by input `Part` (1-based).
template <class Op, int Part>
constexpr bool has_derivative = Part == 1   ? has_df<Op> || has_da<Op>
                                : Part == 2 ? has_db<Op>
                                            : has_dc<Op>;

/// Whether element type T reaches the formula (otherwise the engine converts it first).
template <class T> constexpr bool accepts(Accepts what) {
  return what == Accepts::any       ? true
         : what == Accepts::number  ? !is_bool<T>
         : what == Accepts::integer ? math::is_integer<T>
                                    : math::is_floating<T>;
}

// ---- the types of a formula's operands ------------------------------------------------------------

template <bool Bool, class T> struct BoolOr { using type = T; };
template <class T> struct BoolOr<true, T> { using type = bool; };
/// Operand I of a part, counted from the first input: a mask is bool, all others have the type of
/// the computation.
template <class Op, int Part, class T, int I>
using In = typename BoolOr<mask_first<Op> && I == (Part == 0 ? 0 : 1), T>::type;
template <class Op, int Part, class T>
using Out = typename BoolOr<Part == 0 && answers_bool<Op>, T>::type;

// ---- reductions and scans -------------------------------------------------------------------------

/// Whether element type T reaches the loops of a reduction (otherwise the engine converts it).
template <class T> constexpr bool accepts(Takes what) {
  return what == Takes::any ? true : what == Takes::bools ? is_bool<T> : math::is_floating<T>;
}
/// Whether element type T reaches the loops of a scan.
template <class Op, class T>
constexpr bool scans = accepts<T>(Op::info.takes) &&
                       (Op::info.result != Result::wide || !math::is_integer<T> || sizeof(T) == 8);
/// The type of a reduction's result.
template <class Op, class T>
using ResultType = std::conditional_t<
    Op::info.result == Result::boolean, bool,
    std::conditional_t<Op::info.result == Result::integer ||
                           (Op::info.result == Result::wide && math::is_integer<T>),
                       int64_t, T>>;

/// An entry of a table with a row for each entry of a list and a column for each dtype: `Loops` has
/// `of<Op, T>()`, which is null where T does not reach the loops.
template <class Loops, class... Op> auto loop_of(int op, Dtype dtype, List<Op...>) {
  using Loop = typename Loops::Loop;
  static const Loop loops[][kLoopDtypes] = {
      {Loops::template of<Op, bool>(), Loops::template of<Op, uint8_t>(),
       Loops::template of<Op, int32_t>(), Loops::template of<Op, int64_t>(),
       Loops::template of<Op, float>(), Loops::template of<Op, double>()}...};
  return loops[op][static_cast<int>(dtype)];
}

/// The derivative of a reduction as an elementwise operation on the incoming gradient and what df
/// reads, expanded to the input's shape; its parameters are the count and the reduction's own.
template <class Op> struct GradientOf {
  // clang-format off
  static constexpr Info info{Op::info.name, "", Accepts::real, {nothing}, {}, {},
    {{"count"}, Op::info.params[0], Op::info.params[1], Op::info.params[2]}};
  // clang-format on
  static constexpr uint8_t reads = Op::info.reads | (Op::ties_share ? reads_second : 0);
  static constexpr int x = 1, y = x + (reads & reads_x ? 1 : 0),
                       second = y + (reads & reads_result ? 1 : 0),
                       inputs = second + (reads & reads_second ? 1 : 0);
  template <class T, class... U> MT_HD static T f(T g, U... more) {
    const T v[] = {g, T(more)..., g};
    ReduceContext<T> c{double(v[inputs]), {}, v[second]};
    for (int k = 0; k < count_params(Op::info); ++k) c.param[k] = double(v[inputs + 1 + k]);
    return Op::df(g, v[x], v[y], c);
  }
};
template <class Op> constexpr int inputs<GradientOf<Op>> = GradientOf<Op>::inputs;
template <class Op> constexpr bool answers_bool<GradientOf<Op>> = false;

/// Whether the gradient of a reduction is computed by a kernel.
template <class Op> constexpr bool has_gradient_kernel = has_df<Op> && !Op::hands_on;

template <class Op>
using GradientsOf = std::conditional_t<has_gradient_kernel<Op>, List<GradientOf<Op>>, List<>>;
template <class... Op>
auto with_gradients(List<Op...>) -> decltype((Operations{} + ... + GradientsOf<Op>{}));
/// The operations of the map verb: those on elements, then gradients of reductions.
using Mapped = decltype(with_gradients(Reductions{}));
template <class Op> constexpr int gradient_id = index_in<GradientOf<Op>, Mapped>;

}  // namespace MT_ISA
}  // namespace mt::op
