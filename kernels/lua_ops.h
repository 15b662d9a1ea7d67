// lua_ops.h -- operations of Lua's numbers whose results differ from those of tensors; only grid kernels use them
#pragma once
#include "kernels/ops.h"

namespace mt::op {
inline namespace MT_ISA {

// clang-format off

struct LuaMod {
  static constexpr Info info{"lua_mod", "x % y of floats: x - floor(x / y) * y, rounded three times",
    Accepts::real, {nothing, a | b}, kQuotients, {1.5, 0.5, -0.5}};
  template <class T> MT_HD static T f(T x, T y) { return x - floor(x / y) * y; }
  template <class T> MT_HD static T da(T g) { return g; }
  template <class T> MT_HD static T db(T g, T x, T y) { return -g * floor(x / y); }
};

struct LuaMin {
  static constexpr Info info{"lua_min", "math.min: y where one of them is NaN",
    Accepts::number, {}, kPairs, {0.75, 1.25, 0.5}};
  template <class T> MT_HD static T f(T x, T y) { return select(x < y, x, y); }
};

struct LuaMax {
  static constexpr Info info{"lua_max", "math.max: y where one of them is NaN",
    Accepts::number, {}, kPairs, {2.5, 1.25, 3.5}};
  template <class T> MT_HD static T f(T x, T y) { return select(x > y, x, y); }
};

// clang-format on

/// Operations that have ids, but are not functions of tensors.
using OfLua = List<LuaMod, LuaMin, LuaMax>;

template <class... A, class... B> List<A..., B...> operator+(List<A...>, List<B...>);
using Operations = decltype(Elementwise{} + OfLua{});

}  // namespace MT_ISA
}  // namespace mt::op
