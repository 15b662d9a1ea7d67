// grid_formulas.h -- the formulas of grid kernels: on numbers in loops, on lanes in machine code
#pragma once
#include "kernels/grid.h"
#include "kernels/math/math.h"
#include "kernels/math/number.h"

namespace mt {
inline namespace MT_ISA {
namespace grid {

using math::select;  // lanes have their own overload

template <GridOp op> struct Formula;
#define MT_ONE(name, formula)                                 \
  template <> struct Formula<GridOp::name> {                  \
    template <class T> static auto f(T x) { return formula; } \
  };
#define MT_TWO(name, formula)                                      \
  template <> struct Formula<GridOp::name> {                       \
    template <class T> static auto f(T x, T y) { return formula; } \
  };
MT_ONE(neg, T(-x))
MT_ONE(abs, math::abs(x))
MT_ONE(sqrt, math::sqrt(x))
MT_ONE(exp, math::exp(x))
MT_ONE(log, math::log(x))
MT_ONE(log10, math::log10(x))
MT_ONE(sin, math::sin(x))
MT_ONE(cos, math::cos(x))
MT_ONE(tan, math::tan(x))
MT_ONE(asin, math::asin(x))
MT_ONE(acos, math::acos(x))
MT_ONE(atan, math::atan(x))
MT_ONE(sinh, math::sinh(x))
MT_ONE(cosh, math::cosh(x))
MT_ONE(tanh, math::tanh(x))
MT_ONE(floor, math::convert<int64_t>(math::floor(x)))
MT_ONE(ceil, math::convert<int64_t>(math::ceil(x)))
MT_ONE(copy, x)
MT_ONE(logical_not, !x)
MT_TWO(add, T(x + y))
MT_TWO(sub, T(x - y))
MT_TWO(mul, T(x* y))
MT_TWO(div, x / y)
MT_TWO(floor_div, math::floor_divide(x, y))
/// Lua's % operator, as LuaJIT computes it.
template <> struct Formula<GridOp::mod> {
  template <class T> static T f(T x, T y) {
    if constexpr (math::is_integer<T>) return math::floor_rest(math::fmod(x, y), y);
    else return x - math::floor(x / y) * y;
  }
};
MT_TWO(pow, math::pow(x, y))
MT_TWO(min, select(x < y, x, y))
MT_TWO(max, select(x > y, x, y))
MT_TWO(atan2, math::atan2(x, y))
MT_TWO(fmod, math::fmod(x, y))
MT_TWO(lt, x < y)
MT_TWO(le, x <= y)
MT_TWO(eq, x == y)
MT_TWO(ne, x != y)
MT_TWO(logical_and, T(x& y))
MT_TWO(logical_or, T(x | y))
#undef MT_ONE
#undef MT_TWO

/// Applies a formula to its operands, as many as it has; reals have the type T.
template <GridOp op, class A, class T> auto formula(A x, T y, T z) {
  constexpr int arity = kGridArity[int(op)];
  if constexpr (op == GridOp::to_real) return static_cast<T>(x);
  else if constexpr (op == GridOp::mul_add) return T(x * y) + z;  // two roundings
  else if constexpr (op == GridOp::select) return select(x, y, z);
  else if constexpr (arity == 1) return Formula<op>::f(x);
  else return Formula<op>::f(x, y);
}

}  // namespace grid
}  // namespace MT_ISA
}  // namespace mt
