// lower.cpp -- lowers expression programs to lane programs, with the elementwise formulas
#include "kernels/cpu/jit/lower.h"

#include "kernels/cpu/jit/jit_x64.h"

#include <utility>

#include "kernels/cpu/jit/lane_math.h"
#include "kernels/table.h"

namespace mt::ir {
namespace {

/// The formula of an operation on lanes: that of the struct, unless it depends on the kind of
/// number or is written in double.
template <class Op> struct Formula {
  template <class... T> static auto call(T... x) { return Op::f(x...); }
};

template <> struct Formula<op::Signbit> {
  template <class T> static auto call(T x) { return copysign(T(1), x) < T(0); }
};
template <> struct Formula<op::LogicalAnd> {
  template <class T> static auto call(T x, T y) { return (x != T(0)) & (y != T(0)); }
};
template <> struct Formula<op::LogicalOr> {
  template <class T> static auto call(T x, T y) { return (x != T(0)) | (y != T(0)); }
};
template <> struct Formula<op::LogicalXor> {
  template <class T> static auto call(T x, T y) { return (x != T(0)) ^ (y != T(0)); }
};
template <> struct Formula<op::TruncDivide> {
  template <class T> static auto call(T x, T y) { return trunc(x / y); }
};

/// Leaves inputs out of the range of a formula to the interpreter; NaN is allowed.
void require(Mask m) { LaneBuilder::current().guard(m.id); }

template <class T> T near_angle(T x) {
  require(!(fabs(x) > T(math::core::Real<T>::near)));
  return x;
}

template <> struct Formula<op::Sin> {
  static auto call(auto x) { return math::core::near_sin(near_angle(x)); }
};
template <> struct Formula<op::Cos> {
  static auto call(auto x) { return math::core::near_cos(near_angle(x)); }
};
template <> struct Formula<op::Tan> {
  static auto call(auto x) { return math::core::near_tan(near_angle(x)); }
};

/// C's fmod for |x| < 2^22 |y|: the truncated quotient is exact or one too large, and the
/// remainder, or how far it is below 0, has no more bits than x and y.
template <class T> T near_fmod(T x, T y) {
  const T a = fabs(x), b = fabs(y), most = b * T(0x1p22);
  require((a < most) & (most < T(math::kInfinity)));
  const T rest = fma(-trunc(a / b), b, a);
  return copysign(select(rest < T(0), rest + b, rest), x);
}
/// Whether the remainder and the divisor have different signs.
template <class T> Mask crosses(T rest, T y) {
  return (rest != T(0)) & ((rest < T(0)) != (y < T(0)));
}
template <> struct Formula<op::Fmod> {
  template <class T> static auto call(T x, T y) { return near_fmod(x, y); }
};
template <> struct Formula<op::Remainder> {
  template <class T> static auto call(T x, T y) {
    const T rest = near_fmod(x, y);
    return select(crosses(rest, y), rest + y, rest);
  }
};
template <> struct Formula<op::FloorDivide> {
  template <class T> static auto call(T x, T y) {  // math::floor_quotient for y != 0
    const T rest = near_fmod(x, y);
    T quotient = (x - rest) / y;
    quotient = select(crosses(rest, y), quotient - T(1), quotient);
    T whole = floor(quotient);
    whole = select(quotient - whole > T(0.5), whole + T(1), whole);
    return select(whole == T(0), copysign(T(0), x / y), whole);
  }
};

}  // namespace

/// Overloads for formulas that call one another by name.
template <class Op, class T, class... U> auto apply(Op, const Lane<T>& x, const U&... more) {
  return Formula<Op>::call(x, Lane<T>(more)...);
}
template <class T> Lane<T> zeros_like(const Lane<T>&) { return Lane<T>(0); }

namespace {

/// The operations that are left to the loops: their formulas are functions of kernels/math that no lanes have.
using WithoutLanes = op::List<op::NanToNum, op::Sinc, op::Sinh, op::Cosh, op::Asinh, op::Acosh,
                              op::Atanh, op::Erfinv, op::Polygamma, op::Digamma, op::Lgamma,
                              op::Pow, op::Atan2, op::Hypot, op::Igamma, op::Igammac>;
template <class Op, class T> constexpr bool has_lanes() {
  bool has = Op::info.accepts != op::Accepts::integer;
  op::for_each(WithoutLanes{}, [&](auto of) { has &= !std::is_same_v<Op, decltype(of)>; });
  return has &&
         (sizeof(T) == 4 || !std::is_same_v<Op, op::Tanhshrink>);  // in float64 it has a `?:`
}

/// Records an operation on numbers; the first input may be a mask.
using Recorder = int32_t (*)(const int32_t* in, const double* params);

template <class Op, class T, int I> auto input(const int32_t* in) {
  if constexpr (op::mask_first<Op> && I == 0) return Mask::of(in[I]);
  else return Lane<T>::of(in[I]);
}
template <class Op, class T, int... I, int... S>
int32_t record_as(const int32_t* in, const double* params, std::integer_sequence<int, I...>,
                  std::integer_sequence<int, S...>) {
  return Formula<Op>::call(input<Op, T, I>(in)..., Lane<T>(params[S])...).id;
}
template <class Op, class T> int32_t record_op(const int32_t* in, const double* params) {
  return record_as<Op, T>(in, params, std::make_integer_sequence<int, op::inputs<Op>>{},
                          std::make_integer_sequence<int, op::count_params(Op::info)>{});
}

/// Indexed by operation id; null if there is none.
template <class T> struct Recorders {
  Recorder of[op::Operations::size] = {};
  constexpr Recorders() {
    op::for_each(op::Operations{}, [this](auto op) {
      using Op = decltype(op);
      if constexpr (has_lanes<Op, T>()) of[op::id<Op>] = record_op<Op, T>;
    });
  }
};
template <class T> constexpr Recorders<T> kRecorders;

int32_t record_bools(int op, const int32_t* in) {
  const Mask a = Mask::of(in[0]), b = Mask::of(in[1]), c = Mask::of(in[2]);
  switch (op) {
    case op::id<op::LogicalNot>: return (!a).id;
    case op::id<op::LogicalAnd>: return (a & b).id;
    case op::id<op::LogicalOr>: return (a | b).id;
    case op::id<op::LogicalXor>:
    case op::id<op::Ne>: return (a ^ b).id;
    case op::id<op::Eq>: return (!(a ^ b)).id;
    case op::id<op::Where>: return ((a & b) | ((!a) & c)).id;
    default: return -1;
  }
}

}  // namespace

template <class T>
int32_t record_operation(int op, bool bools, const int32_t* in, const double* params) {
  if (bools) return record_bools(op, in);
  const Recorder f = kRecorders<T>.of[op];
  return f ? f(in, params) : -1;
}
template int32_t record_operation<float>(int, bool, const int32_t*, const double*);
template int32_t record_operation<double>(int, bool, const int32_t*, const double*);

namespace {

/// x / y with the bits of the division, for a y that many x share: by its reciprocal, with a quotient
/// that two remainders correct (Markstein 1990). A guard excludes numbers near the exponent limits.
Lane<float> divide_by_same(Lane<float> x, Lane<float> y) {
  using B = LaneBits<float>;
  const auto within = [](Lane<float> a, float low, float high) {
    return ((to_bits(a) & B(0x7fffffff)) - B(word_of(low))) < B(word_of(high) - word_of(low));
  };
  const Mask zero = (to_bits(x) & B(0x7fffffff)) == B(0);
  LaneBuilder::current().guard((zero | within(x, 0x1p-96f, 0x1p96f)).id);
  LaneBuilder::current().guard(within(y, 0x1p-24f, 0x1p24f).id);
  const Lane<float> inverse = Lane<float>(1) / y, rough = x * inverse;
  const Lane<float> near = fma(fma(-rough, y, x), inverse, rough);
  return copysign(fma(fma(-near, y, x), inverse, near), rough);
}
/// Whether a division costs more than divide_by_same on this CPU.
bool is_division_slow() {
  Isa isa;
  return jit_isa(isa) && isa == Isa::avx512;
}
/// Whether all elements of a run, or of a row, have the same value.
bool is_shared(const Instruction& c) {
  return c.op == kNumber || c.op == kConstant || (c.op == kInput && c.is_row);
}

template <class T> bool record_program(const Program& p, LaneBuilder& builder) {
  const bool slow_division = sizeof(T) == 4 && is_division_slow();
  std::vector<int32_t> value(p.count, -1);
  for (int i = 0; i < p.count; ++i) {
    const Instruction& c = p.code[i];
    builder.set_line(c.line);
    int32_t in[3] = {-1, -1, -1}, &out = value[i];
    bool bools = false;  // whether the last input is bool
    for (int k = 0; k < 3; ++k)
      if (c.op >= 0 && c.in[k] >= 0) in[k] = value[c.in[k]], bools = p.code[c.in[k]].is_bool;
    if (c.op == kInput) {
      const LaneOp load = c.is_bool ? LaneOp::load_bool : LaneOp::load;
      out = builder.add(load, -1, -1, -1, uint64_t(p.outputs + c.which));
    } else if (c.op == kNumber && !c.is_bool) {
      out = Lane<T>::number(c.which).id;
    } else if (c.op == kConstant) {
      out = c.is_bool ? builder.truth(c.constant != 0) : Lane<T>(c.constant).id;
    } else if (c.op == op::id<op::Div> && slow_division && is_shared(p.code[c.in[1]]) &&
               !is_shared(p.code[c.in[0]])) {
      out = divide_by_same(Lane<float>::of(in[0]), Lane<float>::of(in[1])).id;
    } else if (c.op >= 0) {
      out = record_operation<T>(c.op, bools, in, c.which >= 0 ? p.params + c.which : nullptr);
    }
    if (out < 0) return false;
  }
  builder.set_line(0);
  for (int k = 0; k < p.outputs; ++k) builder.store(k, value[p.output[k]]);
  return true;
}

}  // namespace
}  // namespace mt::ir

namespace mt {

bool lower(const Program& program, Dtype dtype, ir::LaneProgram& lanes) {
  const bool doubles = dtype == Dtype::f64;
  ir::LaneBuilder builder(doubles ? 8 : 4);
  if (!(doubles ? ir::record_program<double>(program, builder)
                : ir::record_program<float>(program, builder)))
    return false;
  lanes = builder.finish();
  lanes.operands = program.outputs + program.inputs;
  return true;
}

}  // namespace mt
