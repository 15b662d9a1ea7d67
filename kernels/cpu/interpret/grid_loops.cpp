// grid_loops.cpp -- the loops for the arithmetic of grid kernels
#include "kernels/cpu/interpret/grid_loops.h"

#include <type_traits>
#include <utility>

#include "kernels/cpu/interpret/grid_formulas.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// The floor of x / y, or the remainder, for one y. With |x| < 2^52 and y < 2^31 the quotient of doubles is
/// an integer or further than its rounding error from the next one, so its floor is exact. False: not done.
template <GridOp op> bool divide_by_one(int64_t* out, const int64_t* x, int64_t y, int64_t n) {
  if (y <= 0 || y >> 31) return false;
  int64_t bits = 0;
  for (int64_t i = 0; i < n; ++i) bits |= x[i] ^ x[i] >> 63;
  if (bits >> 52) return false;
  const double by = double(y);
  MT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const int64_t quotient = int64_t(math::floor(double(x[i]) / by));
    out[i] = op == GridOp::mod ? x[i] - quotient * y : quotient;
  }
  return true;
}

/// The first operand has type A, the others T; the result has the type that the formula returns.
template <GridOp op, class A, class T, int mode>
void run(void* out, const void* a, const void* b, const void* c, int64_t n) {
  constexpr int arity = kGridArity[int(op)];
  const A* const x = static_cast<const A*>(a);
  const T *const y = static_cast<const T*>(b), *const z = static_cast<const T*>(c);
  const A x0 = *x;
  const T y0 = arity > 1 ? *y : T(0), z0 = arity > 2 ? *z : T(0);
  auto* const o = static_cast<decltype(grid::formula<op>(x0, y0, z0))*>(out);
  if constexpr (std::is_same_v<T, int64_t> && (op == GridOp::mod || op == GridOp::floor_div))
    if ((mode & 3) == 1 && divide_by_one<op>(o, x, y0, n)) return;
  MT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i)
    o[i] = grid::formula<op>(mode & 1 ? x[i] : x0, mode & 2 ? y[i] : y0, mode & 4 ? z[i] : z0);
}

/// Fills the table.
struct Filled : GridLoops {
  template <GridOp op, class A, class T, int... mode>
  constexpr void set(GridType type, std::integer_sequence<int, mode...>) {
    constexpr int vectors = (1 << kGridArity[int(op)]) - 1;
    constexpr int least = vectors == 1 && op != GridOp::copy;  // other numbers are scalars
    ((of[int(op)][int(type)][mode] = run<op, A, T, (mode & vectors) | least>), ...);
  }
  template <class A, class T, GridOp... op> constexpr void set(GridType type) {
    (set<op, A, T>(type, std::make_integer_sequence<int, kGridModes>{}), ...);
  }
  /// Sets the loops that integers and reals have in common.
  template <class T> constexpr void set_numbers(GridType type) {
    using enum GridOp;
    set<T, T, neg, abs, copy, add, sub, mul, mod, min, max, lt, le, eq, ne, mul_add, fmod>(type);
    set<bool, T, select>(type);
  }
  template <class T> constexpr void set_real() {
    using enum GridOp;
    set_numbers<T>(GridType::real);
    set<T, T, sqrt, exp, log, log10, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, floor, ceil,
        div, pow, atan2>(GridType::real);
    set<int64_t, T, to_real>(GridType::integer);
  }
  constexpr void set_others() {
    using enum GridOp;
    set_numbers<int64_t>(GridType::integer);
    set<int64_t, int64_t, floor_div>(GridType::integer);
    set<bool, bool, copy, logical_not, logical_and, logical_or, eq, ne, select>(GridType::boolean);
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
