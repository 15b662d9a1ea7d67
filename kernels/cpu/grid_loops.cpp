// grid_loops.cpp -- the loops that a grid kernel's arithmetic is made of
#include "kernels/cpu/grid_loops.h"

#include "kernels/cpu/parallel.h"
#include "kernels/math/math.h"
#include "kernels/math/number.h"

namespace mt {
inline namespace MT_ISA {
namespace {

#define MT_ONE(name, formula)                                 \
  struct name {                                               \
    static constexpr int arity = 1;                           \
    template <class T> static auto f(T x) { return formula; } \
  };
#define MT_TWO(name, formula)                                      \
  struct name {                                                    \
    static constexpr int arity = 2;                                \
    template <class T> static auto f(T x, T y) { return formula; } \
  };
MT_ONE(Neg, T(-x))
MT_ONE(Abs, math::abs(x))
MT_ONE(Sqrt, math::sqrt(x))
MT_ONE(Exp, math::exp(x))
MT_ONE(Log, math::log(x))
MT_ONE(Log10, math::log10(x))
MT_ONE(Sin, math::sin(x))
MT_ONE(Cos, math::cos(x))
MT_ONE(Tan, math::tan(x))
MT_ONE(Asin, math::asin(x))
MT_ONE(Acos, math::acos(x))
MT_ONE(Atan, math::atan(x))
MT_ONE(Sinh, math::sinh(x))
MT_ONE(Cosh, math::cosh(x))
MT_ONE(Tanh, math::tanh(x))
MT_ONE(Floor, math::convert<int64_t>(math::floor(x)))
MT_ONE(Ceil, math::convert<int64_t>(math::ceil(x)))
template <class R> struct ToReal {
  static constexpr int arity = 1;
  static R f(int64_t x) { return static_cast<R>(x); }
};
MT_ONE(Copy, x)
MT_ONE(Not, !x)
MT_TWO(Add, T(x + y))
MT_TWO(Sub, T(x - y))
MT_TWO(Mul, T(x* y))
MT_TWO(Div, x / y)
MT_TWO(FloorDiv, math::floor_divide(x, y))
/// Lua's %, as LuaJIT computes it.
struct Mod {
  static constexpr int arity = 2;
  template <class T> static T f(T x, T y) {
    if constexpr (math::is_floating<T>) return x - math::floor(x / y) * y;
    else return math::floor_rest(math::fmod(x, y), y);
  }
};
MT_TWO(Pow, math::pow(x, y))
MT_TWO(Min, x < y ? x : y)
MT_TWO(Max, x > y ? x : y)
MT_TWO(Atan2, math::atan2(x, y))
MT_TWO(Fmod, math::fmod(x, y))
MT_TWO(Lt, x < y)
MT_TWO(Le, x <= y)
MT_TWO(Eq, x == y)
MT_TWO(Ne, x != y)
MT_TWO(And, bool(x& y))
MT_TWO(Or, bool(x | y))
/// Two roundings, as a product and a sum.
struct MulAdd {
  static constexpr int arity = 3;
  template <class T> static T f(T x, T y, T z) { return T(x * y) + z; }
};
struct Select {
  static constexpr int arity = 3;
  template <class T> static T f(bool x, T y, T z) { return x ? y : z; }
};
#undef MT_ONE
#undef MT_TWO

/// Operand k has type A, B or C; the result is what the formula returns.
template <class F, class A, class B, class C, int Mode> struct Run {
  static void run(void* out, const void* a, const void* b, const void* c, int64_t n) {
    const A* const x = static_cast<const A*>(a);
    const B* const y = static_cast<const B*>(b);
    const C* const z = static_cast<const C*>(c);
    constexpr bool vx = Mode & 1, vy = Mode & 2, vz = Mode & 4;
    if constexpr (F::arity == 1) {
      auto* const o = static_cast<decltype(F::f(*x))*>(out);
      MT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) o[i] = F::f(x[i]);
    } else if constexpr (F::arity == 2) {
      auto* const o = static_cast<decltype(F::f(*x, *y))*>(out);
      const A x0 = *x;
      const B y0 = *y;
      MT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) o[i] = F::f(vx ? x[i] : x0, vy ? y[i] : y0);
    } else {
      auto* const o = static_cast<decltype(F::f(*x, *y, *z))*>(out);
      const A x0 = *x;
      const B y0 = *y;
      const C z0 = *z;
      MT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) o[i] = F::f(vx ? x[i] : x0, vy ? y[i] : y0, vz ? z[i] : z0);
    }
  }
};

/// Fills the table.
struct Filled : GridLoops {
  template <class F, class A, class B = A, class C = A>
  constexpr void set(GridOp op, GridType type) {
    GridLoop* const mode = of[int(op)][int(type)];
    if constexpr (F::arity == 1) {
      for (int m = 0; m < kGridModes; ++m) mode[m] = Run<F, A, B, C, 1>::run;
    } else if constexpr (F::arity == 2) {
      for (int high = 0; high < 8; high += 4) {
        mode[high] = Run<F, A, B, C, 0>::run, mode[high + 1] = Run<F, A, B, C, 1>::run;
        mode[high + 2] = Run<F, A, B, C, 2>::run, mode[high + 3] = Run<F, A, B, C, 3>::run;
      }
    } else {
      mode[0] = Run<F, A, B, C, 0>::run, mode[1] = Run<F, A, B, C, 1>::run;
      mode[2] = Run<F, A, B, C, 2>::run, mode[3] = Run<F, A, B, C, 3>::run;
      mode[4] = Run<F, A, B, C, 4>::run, mode[5] = Run<F, A, B, C, 5>::run;
      mode[6] = Run<F, A, B, C, 6>::run, mode[7] = Run<F, A, B, C, 7>::run;
    }
  }
  /// What both kinds of numbers have.
  template <class T> constexpr void set_numbers(GridType t) {
    set<Neg, T>(GridOp::neg, t), set<Abs, T>(GridOp::abs, t), set<Copy, T>(GridOp::copy, t);
    set<Add, T>(GridOp::add, t), set<Sub, T>(GridOp::sub, t), set<Mul, T>(GridOp::mul, t);
    set<Mod, T>(GridOp::mod, t), set<Min, T>(GridOp::min, t), set<Max, T>(GridOp::max, t);
    set<Lt, T>(GridOp::lt, t), set<Le, T>(GridOp::le, t), set<Eq, T>(GridOp::eq, t);
    set<Ne, T>(GridOp::ne, t), set<Select, bool, T, T>(GridOp::select, t);
    set<MulAdd, T>(GridOp::mul_add, t), set<Fmod, T>(GridOp::fmod, t);
  }
  template <class T> constexpr void set_real() {
    const GridType t = GridType::real;
    set_numbers<T>(t);
    set<Sqrt, T>(GridOp::sqrt, t), set<Exp, T>(GridOp::exp, t), set<Log, T>(GridOp::log, t);
    set<Log10, T>(GridOp::log10, t), set<Sin, T>(GridOp::sin, t), set<Cos, T>(GridOp::cos, t);
    set<Tan, T>(GridOp::tan, t), set<Asin, T>(GridOp::asin, t), set<Acos, T>(GridOp::acos, t);
    set<Atan, T>(GridOp::atan, t), set<Sinh, T>(GridOp::sinh, t), set<Cosh, T>(GridOp::cosh, t);
    set<Tanh, T>(GridOp::tanh, t), set<Floor, T>(GridOp::floor, t), set<Ceil, T>(GridOp::ceil, t);
    set<Div, T>(GridOp::div, t), set<Pow, T>(GridOp::pow, t), set<Atan2, T>(GridOp::atan2, t);
    set<ToReal<T>, int64_t>(GridOp::to_real, GridType::integer);
  }
  constexpr void set_others() {
    set_numbers<int64_t>(GridType::integer);
    set<FloorDiv, int64_t>(GridOp::floor_div, GridType::integer);
    const GridType t = GridType::boolean;
    set<Copy, bool>(GridOp::copy, t), set<Not, bool>(GridOp::logical_not, t);
    set<And, bool>(GridOp::logical_and, t), set<Or, bool>(GridOp::logical_or, t);
    set<Eq, bool>(GridOp::eq, t), set<Ne, bool>(GridOp::ne, t),
        set<Select, bool>(GridOp::select, t);
  }
};
template <class T> constexpr GridLoops filled() {
  Filled all;
  all.set_real<T>(), all.set_others();
  return all;
}
constexpr GridLoops kSingle = filled<float>(), kDouble = filled<double>();

}  // namespace

const GridLoops& grid_loops(Dtype real) { return real == Dtype::f64 ? kDouble : kSingle; }

}  // namespace MT_ISA
}  // namespace mt
