// ops.h -- every elementwise operation: formula, derivatives, help, test points in one struct
//
// A formula is a template over T that uses `select` and never `?:` or `if`. So the same line is
// compiled for
//   float, double, integers   the loops of the CPU and CUDA kernels,
//   mt::Tensor                recorded operations, for gradients of gradients,
//   a symbolic value          fused kernels.
// Operations call one another by name (`sigmoid(x)`), which works for each such T.
// To add an operation: write its struct, or its row in a table, and its entry in the list MT_OPERATIONS.
#pragma once
#include "kernels/base.h"
#include "kernels/math/math.h"
#include "kernels/math/number.h"
#include "kernels/math/special.h"

namespace mt::op {
inline namespace MT_ISA {

// ---- the declarations of an operation -----------------------------------------------------------

/// The element types that the formula accepts; others are converted first.
enum class Accepts : uint8_t {
  any,      // all dtypes unchanged, including bool
  number,   // bool becomes int64
  real,     // bool and integers become the default float
  integer,  // bool and integers unchanged; floats are an error
};

/// The tensors that a derivative needs besides the incoming gradient; they are passed in the order
/// a, b, c, output.
enum Saves : uint8_t { nothing = 0, a = 1, b = 2, c = 4, output = 8 };

/// The default of a parameter: `value`, or a limit of the input's dtype.
enum class Default : uint8_t { value, largest, lowest };

/// A number argument of the call, not a tensor. If it has no default (`required`), tests sample
/// with the value.
struct Param {
  const char* name = nullptr;
  double value = 0;  // kNil, which the formula replaces by the limit, if the default is a limit
  bool required = false;
  Default is = Default::value;
};

constexpr int kMaxInputs = 3, kMaxParams = 4, kPoints = 3;

/// The range from which tests sample the inputs, and inputs with known results.
template <int Points, int Numbers> struct Domain {
  double lo, hi, in[Points][Numbers];
  constexpr Domain within(double least, double most) const {
    Domain d = *this;
    d.lo = least, d.hi = most;
    return d;
  }
};
using Inputs = Domain<kPoints, kMaxInputs>;

/// The valid integer values of the second input: for others there is no integer result.
enum class Divisor : uint8_t { any, nonzero, nonnegative };

/// Inputs for which a formula has a faster path with the same bits, which the loops of a CPU check
/// for (kernels/cpu/simd/fast_path.h): angles that are reduced by subtraction, quotients below
/// 2^28, positive numbers.
enum class Shortcut : uint8_t { none, angle, quotient, positive };

/// Properties that only a few operations set, by name after the parameters.
struct Facts {
  /// Why bool tensors are an error, and what to use instead; null if they are accepted.
  const char* refuses_bool = nullptr;
  /// Why floats are an error with Accepts::integer.
  const char* refuses_float =
      "have no bitwise operations; use bool or integer tensors, as from :long()";
  Divisor divisor = Divisor::any;
  /// The inputs that stay float32 next to 16-bit floats when they are plain numbers.
  uint8_t wide_numbers = nothing;
  Shortcut shortcut[1 + kMaxInputs] = {};  // of the formula, then of its derivatives
  bool autocast_float32 = false;           // under autocast 16-bit floats become float32
  bool logical = false;  // tests whether elements are 0: bool tensors with numbers stay bool
};

struct Info {
  const char* name;
  const char* doc;
  Accepts accepts;
  uint8_t saves[kMaxInputs];  // a mask for each derivative
  Inputs domain;
  /// Results for domain.in, computed with mpmath, so that a wrong formula cannot pass its own test.
  double results[kPoints];
  Param params[kMaxParams] = {};
  Facts facts = {};
};

/// Makes an operation callable by name: on numbers it computes the formula, on other types it calls
/// `apply` of that type's namespace.
template <class Op> struct Function {
  template <class T, class... U>
  MT_HD constexpr auto operator()(const T& x, const U&... more) const {
    if constexpr (math::is_number<T>) return static_cast<T>(Op::f(x, more...));
    else return apply(Op{}, x, more...);
  }
};

/// Every operation: its struct, and the function object for it. The order defines their numbers.
// clang-format off
#define MT_OPERATIONS(V) V(Neg, neg) V(Sign, sign) V(Abs, abs) V(Reciprocal, reciprocal)          \
  V(Square, square) V(Deg2rad, deg2rad) V(Rad2deg, rad2deg) V(Sqrt, sqrt) V(Rsqrt, rsqrt)         \
  V(Floor, floor) V(Ceil, ceil) V(Round, round) V(Trunc, trunc) V(Frac, frac) V(Clamp, clamp)     \
  V(NanToNum, nan_to_num) V(Exp, exp) V(Expm1, expm1) V(Exp2, exp2) V(Log, log) V(Log1p, log1p)   \
  V(Log2, log2) V(Log10, log10) V(Sin, sin) V(Cos, cos) V(Tan, tan) V(Sinc, sinc) V(Asin, asin)   \
  V(Acos, acos) V(Atan, atan) V(Sinh, sinh) V(Cosh, cosh) V(Asinh, asinh) V(Acosh, acosh)         \
  V(Atanh, atanh) V(Erf, erf) V(Erfc, erfc) V(Erfinv, erfinv) V(Ndtr, ndtr)                       \
  V(Polygamma, polygamma) V(Digamma, digamma) V(Lgamma, lgamma) V(Tanh, tanh)                     \
  V(Tanhshrink, tanhshrink) V(Sigmoid, sigmoid) V(Logit, logit) V(Relu, relu)                     \
  V(Hardtanh, hardtanh) V(Relu6, relu6) V(Hardsigmoid, hardsigmoid) V(Hardswish, hardswish)       \
  V(Threshold, threshold) V(Hardshrink, hardshrink) V(Softshrink, softshrink) V(Huber, huber)     \
  V(LeakyRelu, leaky_relu) V(Elu, elu) V(Celu, celu) V(Selu, selu) V(Gelu, gelu)                  \
  V(GeluTanh, gelu_tanh) V(Silu, silu) V(Softplus, softplus) V(Logsigmoid, logsigmoid)            \
  V(Mish, mish) V(Softsign, softsign) V(LogicalNot, logical_not) V(Isnan, isnan) V(Isinf, isinf)  \
  V(Isposinf, isposinf) V(Isneginf, isneginf) V(Isfinite, isfinite) V(Signbit, signbit)           \
  V(Add, add) V(Sub, sub) V(Mul, mul) V(Div, div) V(FloorDivide, floor_divide)                    \
  V(TruncDivide, trunc_divide) V(Remainder, remainder) V(Fmod, fmod) V(Pow, pow)                  \
  V(Minimum, minimum) V(Maximum, maximum) V(Fmin, fmin) V(Fmax, fmax) V(Atan2, atan2)             \
  V(Hypot, hypot) V(Copysign, copysign) V(Xlogy, xlogy) V(Igamma, igamma) V(Igammac, igammac)     \
  V(Logaddexp, logaddexp) V(Heaviside, heaviside) V(Prelu, prelu) V(Lt, lt) V(Le, le) V(Gt, gt)   \
  V(Ge, ge) V(Eq, eq) V(Ne, ne) V(LogicalAnd, logical_and) V(LogicalOr, logical_or)               \
  V(LogicalXor, logical_xor) V(BitwiseNot, bitwise_not) V(BitwiseAnd, bitwise_and)                \
  V(BitwiseOr, bitwise_or) V(BitwiseXor, bitwise_xor) V(BitwiseLeftShift, bitwise_left_shift)     \
  V(BitwiseRightShift, bitwise_right_shift) V(Gcd, gcd) V(Lcm, lcm) V(Where, where) V(Lerp, lerp) \
  V(Addcmul, addcmul) V(Addcdiv, addcdiv)
// clang-format on

/// The function objects are in a namespace apart from the structs: the engine exports only these,
/// as mt::relu and so on. nvcc requires that those used in kernels are on the device.
#ifdef __CUDACC__
#define MT_STORAGE static __device__
#else
#define MT_STORAGE inline
#endif
#define MT_FUNCTION(Op, name)             \
  struct Op;                              \
  inline namespace functions {            \
  MT_STORAGE constexpr Function<Op> name; \
  }
MT_OPERATIONS(MT_FUNCTION)
#undef MT_FUNCTION
#undef MT_STORAGE

using math::select;
/// A zero of the same shape: the derivative of a constant function.
template <class T> MT_HD constexpr auto zero(const T& x) {
  if constexpr (math::is_number<T>) return T(0);
  else return zeros_like(x);
}

constexpr Inputs kReals{-4, 4, {{-1.25}, {0.5}, {2.75}}},
    kPositive{0.3, 4, {{0.375}, {1.5}, {3.25}}}, kUnit{-0.9, 0.9, {{-0.625}, {0.375}, {0.875}}},
    kPairs{-4, 4, {{2.5, 0.75}, {1.25, 1.25}, {0.5, 3.5}}},
    kPositivePairs = kPairs.within(0.3, 4), kLogic{-1, 1, {{0, 0.25}, {-1, 2}, {0, 0}}},
    kQuotients{0.3, 4, {{7.5, 2}, {-7.5, 2}, {7.5, -2}}}, kBits{0, 9, {{12, 10}, {7, 0}, {6, 9}}},
    kTriples{-4, 4, {{1, 3, 0.25}, {-2, 2.5, 0.5}, {0.5, 0.5, 2}}};

/// A formula that calls a function of kernels/math with one input or with two. `opaque`: it cannot
/// be expressed in other operations; the same holds for a formula that branches on the type T.
#define MT_MATH(name)                  \
  static constexpr bool opaque = true; \
  template <class T> MT_HD static T f(T x) { return math::name(x); }
#define MT_MATH_OF_TWO(name)           \
  static constexpr bool opaque = true; \
  template <class T> MT_HD static T f(T x, T y) { return math::name(x, y); }
/// An operation that is a function of kernels/math of one input. `derivative` is an expression of the incoming gradient
/// g and of what is `saved`: the input x or the output y. The results and the other members of Info follow.
#define MT_UNARY_MATH(Op, name, doc, accepts, saved, domain, derivative, ...) \
  struct Op {                                                                 \
    static constexpr Info info{                                               \
        #name, doc, Accepts::accepts, {saved_##saved}, domain, __VA_ARGS__};  \
    MT_MATH(name)                                                             \
    template <class T> MT_HD static T df(T g, T saved) { return derivative; } \
  };
constexpr uint8_t saved_x = a, saved_y = output;
constexpr Facts kAutocastFloat32{.autocast_float32 = true};

// The rows of Info are tables.
// clang-format off

// ---- one input: arithmetic and rounding ---------------------------------------------------------

/// Operations whose gradient is 0.
struct Flat {
  template <class T> MT_HD static T df(T g) { return zero(g); }
};
struct FlatPair {
  template <class T> MT_HD static T da(T g) { return zero(g); }
  template <class T> MT_HD static T db(T g) { return zero(g); }
};

struct Neg {
  static constexpr Info info{"neg", "-x",
    Accepts::number, {nothing}, kReals, {1.25, -0.5, -2.75}, {},
    {.refuses_bool = "minus of a bool tensor; use logical_not, or :long() first"}};
  template <class T> MT_HD static T f(T x) { return -x; }
  template <class T> MT_HD static T df(T g) { return -g; }
};

struct Sign : Flat {
  static constexpr Info info{"sign", "-1, 0 or 1 (0 for NaN); its gradient is 0",
    Accepts::any, {nothing}, kReals, {-1, 1, 1}};
  template <class T> MT_HD static T f(T x) {
    return select(x > T(0), T(1), select(x < T(0), T(-1), T(0)));
  }
};

MT_UNARY_MATH(Abs, abs, "|x|; the slope at 0 is 0", number, x, kReals, g * sign(x), {1.25, 0.5, 2.75})

struct Reciprocal {
  static constexpr Info info{"reciprocal", "1 / x",
    Accepts::real, {output}, kPositive,
    {2.6666666666666667, 0.66666666666666667, 0.30769230769230769}, {}, {.autocast_float32 = true}};
  template <class T> MT_HD static T f(T x) { return T(1) / x; }
  template <class T> MT_HD static T df(T g, T y) { return -g * y * y; }
};

struct Square {
  static constexpr Info info{"square", "x * x",
    Accepts::number, {a}, kReals, {1.5625, 0.25, 7.5625}};
  template <class T> MT_HD static T f(T x) { return x * x; }
  template <class T> MT_HD static T df(T g, T x) { return g * (x + x); }
};

struct Deg2rad {
  static constexpr Info info{"deg2rad", "degrees as radians",
    Accepts::real, {nothing}, kReals,
    {-0.02181661564992912, 0.0087266462599716479, 0.047996554429844063}};
  template <class T> MT_HD static T f(T x) { return x * T(0.0174532925199432958); }
  template <class T> MT_HD static T df(T g) { return f(g); }
};

struct Rad2deg {
  static constexpr Info info{"rad2deg", "radians as degrees",
    Accepts::real, {nothing}, kReals, {-71.619724391352901, 28.64788975654116, 157.56339366097638}};
  template <class T> MT_HD static T f(T x) { return x * T(57.2957795130823209); }
  template <class T> MT_HD static T df(T g) { return f(g); }
};

MT_UNARY_MATH(Sqrt, sqrt, "square root", real, y, kPositive.within(0.1, 4), g / (y + y),
  {0.61237243569579452, 1.224744871391589, 1.8027756377319946})
MT_UNARY_MATH(Rsqrt, rsqrt, "1 / sqrt(x)", real, y, kPositive, T(-0.5) * g * y * y * y,
  {1.6329931618554521, 0.81649658092772603, 0.55470019622522912}, {}, kAutocastFloat32)

/// A function of kernels/math that rounds.
#define MT_ROUNDING(Op, name, doc, ...)                                                               \
  struct Op : Flat {                                                                                  \
    static constexpr Info info{#name, doc, Accepts::number, {nothing}, kReals, {__VA_ARGS__}};        \
    MT_MATH(name)                                                                                     \
  };
MT_ROUNDING(Floor, floor, "the largest whole number not above x", -2, 0, 2)
MT_ROUNDING(Ceil, ceil, "the smallest whole number not below x", -1, 1, 3)
MT_ROUNDING(Round, round, "the nearest whole number, halves to even", -1, 0, 3)
MT_ROUNDING(Trunc, trunc, "x without its fraction", -1, 0, 2)
#undef MT_ROUNDING

struct Frac {
  static constexpr Info info{"frac", "x - trunc(x): the fraction, with the sign of x",
    Accepts::number, {nothing}, kReals, {-0.25, 0.5, 0.75}};
  template <class T> MT_HD static T f(T x) { return x - trunc(x); }
  template <class T> MT_HD static T df(T g) { return g; }
};

struct Clamp {
  static constexpr Info info{"clamp",
    "x clamped to min..max; NaN is propagated; the slope is 0 at the ends and at NaN",
    Accepts::number, {a}, kReals, {-1.25, 0.5, 2.75},
    {{"min", -math::kInfinity}, {"max", math::kInfinity}}};
  template <class T> MT_HD static T f(T x, T lo, T hi) {
    T raised = select(x < lo, lo, x);
    return select(raised > hi, hi, raised);
  }
  // a bound that is NaN is ignored
  template <class T> MT_HD static T df(T g, T x, T lo, T hi) {
    T under = select(x < hi, g, select(hi != hi, g, zero(g)));
    return select(x > lo, under, select(lo != lo, under, zero(g)));
  }
};

struct NanToNum {
  static constexpr bool opaque = true;
  static constexpr Info info{"nan_to_num",
    "NaN, inf and -inf replaced; nil means the dtype's largest or lowest number",
    Accepts::any, {a}, kReals, {-1.25, 0.5, 2.75},
    {{"nan", 0}, {"posinf", math::kNil, false, Default::largest},
     {"neginf", math::kNil, false, Default::lowest}}};
  template <class T> MT_HD static T f(T x, T nan, T above, T below) {
    if constexpr (math::is_floating<T>) {
      const T inf = T(math::kInfinity);
      T high = select(above != above, math::largest<T>(), above);
      T low = select(below != below, -math::largest<T>(), below);
      return select(x != x, nan, select(x == inf, high, select(x == -inf, low, x)));
    } else {
      return x;
    }
  }
  template <class T> MT_HD static T df(T g, T x, T, T, T) {
    return select(abs(x) < T(math::kInfinity), g, zero(g));
  }
};

// ---- one input: exponentials, logarithms, trigonometry ------------------------------------------

MT_UNARY_MATH(Exp, exp, "e to the power x", real, y, kReals, g * y,
  {0.2865047968601901, 1.6487212707001281, 15.642631884188172}, {}, kAutocastFloat32)
MT_UNARY_MATH(Expm1, expm1, "exp(x) - 1, accurate near 0", real, y, kReals, g * (y + T(1)),
  {-0.7134952031398099, 0.64872127070012815, 14.642631884188172}, {}, kAutocastFloat32)
MT_UNARY_MATH(Exp2, exp2, "2 to the power x", real, y, kReals, g * y * T(0.693147180559945309),
  {0.42044820762685727, 1.414213562373095, 6.7271713220297163}, {}, kAutocastFloat32)
MT_UNARY_MATH(Log, log, "natural logarithm", real, x, kPositive.within(0.2, 4), g / x,
  {-0.98082925301172624, 0.40546510810816438, 1.1786549963416461}, {}, kAutocastFloat32)
MT_UNARY_MATH(Log1p, log1p, "log(1 + x), accurate near 0",
  real, x, (Inputs{-0.7, 4, {{-0.625}, {0.5}, {2.75}}}), g / (x + T(1)),
  {-0.98082925301172624, 0.40546510810816438, 1.3217558399823194}, {}, kAutocastFloat32)
MT_UNARY_MATH(Log2, log2, "logarithm to base 2", real, x, kPositive.within(0.2, 4), g / (x * T(0.693147180559945309)),
  {-1.4150374992788438, 0.58496250072115618, 1.7004397181410922}, {}, kAutocastFloat32)
MT_UNARY_MATH(Log10, log10, "logarithm to base 10",
  real, x, kPositive.within(0.2, 4), g / (x * T(2.30258509299404568)),
  {-0.42596873227228115, 0.17609125905568124, 0.51188336097887438}, {}, kAutocastFloat32)
MT_UNARY_MATH(Sin, sin, "sine, x in radians", real, x, kReals, g * cos(x),
  {-0.94898461935558621, 0.479425538604203, 0.3816609920523317}, {}, {.shortcut = {Shortcut::angle, Shortcut::angle}})
MT_UNARY_MATH(Cos, cos, "cosine, x in radians", real, x, kReals, -g * sin(x),
  {0.31532236239526867, 0.87758256189037272, -0.92430237863246354},
  {}, {.shortcut = {Shortcut::angle, Shortcut::angle}})
MT_UNARY_MATH(Tan, tan, "tangent, x in radians", real, y, kReals.within(-1.4, 1.4), g * (y * y + T(1)),
  {-3.0095696738628313, 0.54630248984379051, -0.41291789448493249},
  {}, {.shortcut = {Shortcut::angle}, .autocast_float32 = true})

struct Sinc {
  static constexpr Info info{"sinc", "sin(pi x) / (pi x), 1 at 0",
    Accepts::real, {a}, kReals, {-0.18006326323142121, 0.63661977236758134, 0.081846937832464188}};
  MT_MATH(sinc)
  // pi (z cos z - sin z) / z^2 with z = pi x; a series where the difference cancels
  template <class T> MT_HD static T df(T g, T x) {
    T z = x * T(3.14159265358979324), w = z * z, far = select(abs(z) < T(1), zero(z) + T(1), z);
    T series = T(-1. / 840) + w * (T(1. / 45360) + w * (T(-1. / 3991680) +
               w * (T(1. / 518918400) + w * (T(-1. / 93405312000) + w * T(1. / 22230464256000)))));
    T near = z * (T(-1. / 3) + w * (T(1. / 30) + w * series));
    T slope = select(abs(z) < T(1), near, (far * cos(far) - sin(far)) / (far * far));
    return g * (slope * T(3.14159265358979324));
  }
};

MT_UNARY_MATH(Asin, asin, "arcsine, in radians", real, x, kUnit, g * rsqrt((T(1) - x) * (T(1) + x)),
  {-0.67513153293703165, 0.38439677449563908, 1.0654358165107393}, {}, kAutocastFloat32)
MT_UNARY_MATH(Acos, acos, "arccosine, in radians", real, x, kUnit, -g * rsqrt((T(1) - x) * (T(1) + x)),
  {2.2459278597319283, 1.1863995522992575, 0.50536051028415731}, {}, kAutocastFloat32)
MT_UNARY_MATH(Atan, atan, "arctangent, in radians", real, x, kReals, g / (x * x + T(1)),
  {-0.89605538457134396, 0.46364760900080612, 1.2220253232109896})
MT_UNARY_MATH(Sinh, sinh, "hyperbolic sine", real, x, kReals, g * cosh(x),
  {-1.6019190803008256, 0.52109530549374736, 7.789352011490732}, {}, kAutocastFloat32)
MT_UNARY_MATH(Cosh, cosh, "hyperbolic cosine", real, x, kReals, g * sinh(x),
  {1.8884238771610157, 1.1276259652063808, 7.8532798726974396}, {}, kAutocastFloat32)
MT_UNARY_MATH(Asinh, asinh, "inverse hyperbolic sine", real, x, kReals, g * rsqrt(x * x + T(1)),
  {-1.0475930126492587, 0.48121182505960345, 1.7362775864618003})
MT_UNARY_MATH(Acosh, acosh, "inverse hyperbolic cosine, for x from 1 on",
  real, x, (Inputs{1.2, 4, {{1.25}, {1.5}, {3.25}}}), g * rsqrt((x - T(1)) * (x + T(1))),
  {0.69314718055994531, 0.96242365011920689, 1.8472460857138378})
MT_UNARY_MATH(Atanh, atanh, "inverse hyperbolic tangent", real, x, kUnit, g / ((T(1) - x) * (T(1) + x)),
  {-0.73316853439671352, 0.39422868018213508, 1.354025100551105})
MT_UNARY_MATH(Erf, erf, "error function", real, x, kReals.within(-3, 3), g * T(1.12837916709551257) * exp(-x * x),
  {-0.92290012825645823, 0.52049987781304654, 0.99989937807788036})
MT_UNARY_MATH(Erfc, erfc, "1 - erf(x), accurate for large x",
  real, x, kReals.within(-3, 3), g * T(-1.12837916709551257) * exp(-x * x),
  {1.9229001282564582, 0.47950012218695346, 0.00010062192211963684})
MT_UNARY_MATH(Erfinv, erfinv, "the inverse of erf", real, y, kUnit, g * T(0.886226925452758014) * exp(y * y),
  {-0.62730734778855896, 0.3456171147832066, 1.0847870400692831}, {}, kAutocastFloat32)
MT_UNARY_MATH(Ndtr, ndtr, "the normal distribution function, accurate far below 0",
  real, x, kReals.within(-3, 3), g * (T(0.398942280401432678) * exp(T(-0.5) * x * x)),
  {0.10564977366685526, 0.6914624612740131, 0.99702023676494544})

struct Polygamma {
  static constexpr Info info{"polygamma", "the n-th derivative of digamma, n from 0 to 30",
    Accepts::real, {a}, kPositive.within(0.4, 4),
    {8.1617776327615079, 0.93480220054467931, 0.35979829030957988}, {{"n", 1, true}}};
  MT_MATH_OF_TWO(polygamma)
  template <class T> MT_HD static T df(T g, T x, T n) {
    return g * polygamma(x, n + T(1));
  }
};

MT_UNARY_MATH(Digamma, digamma, "the derivative of lgamma", real, x, kPositive.within(0.4, 4), g * polygamma(x, T(1)),
  {-2.7539990491451396, 0.036489973978576521, 1.016990911068179})
MT_UNARY_MATH(Lgamma, lgamma, "the logarithm of |gamma(x)|", real, x, kPositive.within(0.4, 4), g * digamma(x),
  {0.86307398227064746, -0.12078223763524522, 0.93580193110872536}, {}, {.shortcut = {Shortcut::positive}})

// ---- one input: activations ---------------------------------------------------------------------

MT_UNARY_MATH(Tanh, tanh, "hyperbolic tangent", real, y, kReals, g * (T(1) - y * y),
  {-0.8482836399575129, 0.46211715726000976, 0.99185972456820775})
MT_UNARY_MATH(Tanhshrink, tanhshrink, "x - tanh(x)", real, x, kReals, g * square(tanh(x)),
  {-0.4017163600424871, 0.037882842739990241, 1.7581402754317923})
MT_UNARY_MATH(Sigmoid, sigmoid, "1 / (1 + exp(-x))", real, y, kReals, g * (y * (T(1) - y)),
  {0.22270013882530885, 0.62245933120185456, 0.93991334982599238})

struct Logit {
  static constexpr bool opaque = true;
  static constexpr Info info{"logit",
    "log(x / (1 - x)); with eps, x is first clamped to eps .. 1 - eps",
    Accepts::real, {a}, {0.1, 0.9, {{0.125}, {0.375}, {0.875}}},
    {-1.9459101490553133, -0.51082562376599068, 1.9459101490553133}, {{"eps", math::kNil}}};
  template <class T> MT_HD static T f(T x, T eps) {
    return math::logit(select(x < eps, eps, select(x > T(1) - eps, T(1) - eps, x)));
  }
  // 0 where x is clamped; NaN outside 0..1; the branch that is not selected stays finite
  template <class T> MT_HD static T df(T g, T x, T eps) {
    T p = x * (T(1) - x), one = zero(x) + T(1);
    T free = select(x < eps, zero(x), select(T(1) - x < eps, zero(x), one));
    T inside = select(p < T(0), zero(g) + T(math::kNil), g / select(free == T(0), one, p));
    return select(free == T(0), zero(g), inside);
  }
};

struct Relu {
  static constexpr Info info{"relu", "max(x, 0); the slope at 0 is 0",
    Accepts::number, {output}, kReals, {0, 0.5, 2.75}};
  template <class T> MT_HD static T f(T x) { return select(x < T(0), T(0), x); }  // NaN stays NaN
  template <class T> MT_HD static T df(T g, T y) { return select(y <= T(0), zero(g), g); }
};

struct Hardtanh {
  static constexpr Info info{"hardtanh",
    "x clamped to min_val..max_val; the slope at the ends and at NaN is 0",
    Accepts::number, {a}, kReals, {-1, 0.5, 1}, {{"min_val", -1}, {"max_val", 1}}};
  template <class T> MT_HD static T f(T x, T low, T high) { return clamp(x, low, high); }
  template <class T> MT_HD static T df(T g, T x, T low, T high) {
    return select(x > low, select(x < high, g, zero(g)), zero(g));
  }
};

struct Relu6 {
  static constexpr Info info{"relu6", "x clamped to 0..6; the slope at the ends and at NaN is 0",
    Accepts::number, {output}, {-4, 8, {{-1.25}, {0.5}, {6.5}}}, {0, 0.5, 6}};
  template <class T> MT_HD static T f(T x) { return clamp(x, T(0), T(6)); }
  template <class T> MT_HD static T df(T g, T y) { return Hardtanh::df(g, y, T(0), T(6)); }
};

struct Hardsigmoid {
  static constexpr Info info{"hardsigmoid",
    "(x + 3) / 6 clamped to 0..1; the slope at the ends is 0",
    Accepts::real, {a}, kReals, {0.29166666666666667, 0.58333333333333333, 0.95833333333333333}};
  template <class T> MT_HD static T f(T x) { return clamp(x + T(3), T(0), T(6)) * T(1. / 6); }
  template <class T> MT_HD static T df(T g, T x) {
    return Hardtanh::df(g * T(1. / 6), x, T(-3), T(3));
  }
};

struct Hardswish {
  static constexpr Info info{"hardswish", "x * hardsigmoid(x); the slope at NaN is NaN (Howard 2019)",
    Accepts::real, {a}, kReals, {-0.36458333333333333, 0.29166666666666667, 2.6354166666666667}};
  template <class T> MT_HD static T f(T x) { return x * Hardsigmoid::f(x); }
  template <class T> MT_HD static T df(T g, T x) {
    return select(x <= T(-3), zero(g), select(x >= T(3), g, g * (x / T(3) + T(0.5))));
  }
};

struct Threshold {
  static constexpr Info info{"threshold", "x where it exceeds threshold, else value",
    Accepts::number, {a}, kReals, {2, 2, 2.75}, {{"threshold", 0.5, true}, {"value", 2, true}}};
  template <class T> MT_HD static T f(T x, T threshold, T value) {
    return select(x <= threshold, value, x);
  }
  template <class T> MT_HD static T df(T g, T x, T threshold, T) {
    return select(x <= threshold, zero(g), g);
  }
};

struct Shrink {
  template <class T> MT_HD static T df(T g, T x, T lambd) {
    return select(abs(x) > lambd, g, zero(g));
  }
};

struct Hardshrink : Shrink {
  static constexpr Info info{"hardshrink", "x, or 0 where |x| <= lambd; the slope at NaN is 0",
    Accepts::real, {a}, kReals, {-1.25, 0, 2.75}, {{"lambd", 0.5}}};
  template <class T> MT_HD static T f(T x, T lambd) {
    return select(abs(x) <= lambd, T(0), x);
  }
};

struct Softshrink : Shrink {
  static constexpr Info info{"softshrink",
    "x moved towards 0 by lambd, 0 where |x| <= lambd; the slope at NaN is 0",
    Accepts::real, {a}, kReals, {-0.75, 0, 2.25}, {{"lambd", 0.5}}};
  template <class T> MT_HD static T f(T x, T lambd) {
    return select(x > lambd, x - lambd, select(x < -lambd, x + lambd, select(x != x, x, T(0))));
  }
};

struct Huber {
  static constexpr Info info{"huber", "x^2 / 2 up to |x| = delta, delta (|x| - delta / 2) beyond",
    Accepts::real, {a}, kReals, {0.75, 0.125, 2.25}, {{"delta", 1}}};
  template <class T> MT_HD static T f(T x, T delta) {
    const T size = abs(x), c = select(size > delta, delta, size);
    return c * (size - c * T(0.5));  // c * size - c * c / 2 is NaN where x * x overflows
  }
  template <class T> MT_HD static T df(T g, T x, T delta) {
    return g * select(x > delta, delta, select(x < -delta, -delta, x));
  }
};

struct LeakyRelu {
  static constexpr Info info{"leaky_relu", "x, or negative_slope * x below 0",
    Accepts::real, {a}, kReals, {-0.0125, 0.5, 2.75}, {{"negative_slope", 0.01}}};
  template <class T> MT_HD static T f(T x, T slope) { return select(x > T(0), x, slope * x); }
  template <class T> MT_HD static T df(T g, T x, T slope) { return select(x > T(0), g, slope * g); }
};

/// (e^x - 1) / 2, and e^-|x|.
template <class T> MT_HD T half_expm1(T x) {
  if constexpr (math::is_number<T> || math::is_symbolic<T>) return math::half_expm1(x);
  else return T(0.5) * expm1(x);
}
template <class T> MT_HD T exp_minus(T x) {
  if constexpr (math::is_number<T> || math::is_symbolic<T>) return math::core::exp_minus(x);
  else return exp(-abs(x));
}

struct Elu {
  static constexpr Info info{"elu",
    "x, or alpha * (exp(x) - 1) below 0; the slope at NaN is NaN (Clevert 2015)",
    Accepts::real, {a}, kReals, {-0.7134952031398099, 0.5, 2.75}, {{"alpha", 1}},
    {.shortcut = {Shortcut::positive}}};
  template <class T> MT_HD static T f(T x, T alpha) {
    return select(x < T(0), (alpha + alpha) * half_expm1(x), x);
  }
  // clamped to at most 0, so that exp never overflows
  template <class T> MT_HD static T df(T g, T x, T alpha) {
    return select(x > T(0), g, g * alpha * exp(clamp(x, T(-math::kInfinity), T(0))));
  }
};

struct Celu {
  static constexpr Info info{"celu", "x, or alpha * (exp(x / alpha) - 1) below 0; the slope at NaN is NaN (Barron 2017)",
    Accepts::real, {a}, kReals, {-0.7134952031398099, 0.5, 2.75}, {{"alpha", 1}},
    {.shortcut = {Shortcut::positive}}};
  template <class T> MT_HD static T f(T x, T alpha) {
    return select(x < T(0), (alpha + alpha) * half_expm1(x * (T(1) / alpha)), x);
  }
  template <class T> MT_HD static T df(T g, T x, T alpha) {
    return select(x > T(0), g, g * exp(clamp(x, T(-math::kInfinity), T(0)) / alpha));
  }
};

struct Selu {
  static constexpr Info info{"selu",
    "elu with the alpha and the scale that keep mean and variance; the slope at NaN is NaN (Klambauer "
    "2017)",
    Accepts::real, {a}, kReals, {-1.254395446337865, 0.52535049367774025, 2.8894277152275714}, {},
    {.shortcut = {Shortcut::positive}}};
  template <class T> MT_HD static T f(T x) {
    return select(x < T(0), T(2 * kScale * kAlpha) * half_expm1(x), T(kScale) * x);
  }
  template <class T> MT_HD static T df(T g, T x) {
    T below = g * T(kScale * kAlpha) * exp(clamp(x, T(-math::kInfinity), T(0)));
    return select(x > T(0), g * T(kScale), below);
  }

 private:
  static constexpr double kScale = 1.05070098735548049, kAlpha = 1.67326324235437728;
};

struct Gelu {
  static constexpr Info info{"gelu",
    "x times the normal distribution function of x (Hendrycks 2016)",
    Accepts::real, {a}, kReals, {-0.13206221708356907, 0.34573123063700655, 2.7418056511036}};
  MT_MATH(gelu)
  template <class T> MT_HD static T df(T g, T x) {
    if constexpr (math::is_number<T> || math::is_symbolic<T>) return g * math::gelu_slope(x);
    else return g * (ndtr(x) + x * exp(T(-0.5) * x * x) * T(0.398942280401432678));
  }
};

struct GeluTanh {
  static constexpr Info info{"gelu_tanh",
    "gelu's approximation with tanh: gelu(x, {approximate='tanh'})",
    Accepts::real, {a}, kReals, {-0.1322857970302854, 0.34571400982514392, 2.742276855926382}};
  template <class T> MT_HD static T f(T x) {  // (1 + tanh(u)) / 2 is sigmoid(2u)
    return x * sigmoid(x * (T(k1) + T(k3) * (x * x)));
  }
  template <class T> MT_HD static T df(T g, T x) {  // above 25 every value is 0 or 1
    T y = clamp(x, T(-25), T(25)), s = sigmoid(y * (T(k1) + T(k3) * (y * y)));
    return g * (s + y * s * (T(1) - s) * (T(k1) + T(3 * k3) * (y * y)));
  }

 private:
  static constexpr double k1 = 1.59576912160573071, k3 = 0.0713548162726002488;
};

MT_UNARY_MATH(Silu, silu, "x * sigmoid(x), also called swish",
  real, x, kReals, g * (sigmoid(x) * (T(1) + x * (T(1) - sigmoid(x)))),
  {-0.27837517353163607, 0.31122966560092728, 2.584761712021479})

struct Softplus {
  static constexpr bool opaque = true;
  static constexpr Info info{"softplus",
    "log(1 + exp(beta x)) / beta; x itself where beta x exceeds threshold",
    Accepts::real, {a}, kReals, {0.25192908134537289, 0.97407698418010668, 2.8119675890031986},
    {{"beta", 1}, {"threshold", 20}}, {.autocast_float32 = true}};
  template <class T> MT_HD static T f(T x, T beta, T limit) {
    return select(x * beta > limit, x, math::softplus(x * beta) / beta);
  }
  template <class T> MT_HD static T df(T g, T x, T beta, T limit) {
    return select(x * beta > limit, g, g * sigmoid(x * beta));
  }
};

struct Logsigmoid {
  static constexpr bool opaque = true;
  static constexpr Info info{"logsigmoid", "log(sigmoid(x)), without overflow",
    Accepts::real, {a}, kReals, {-1.5019290813453729, -0.47407698418010668, -0.061967589003198625},
    {}, {.autocast_float32 = true}};
  template <class T> MT_HD static T f(T x) { return T(0) - math::softplus(-x); }
  template <class T> MT_HD static T df(T g, T x) { return g * sigmoid(-x); }
};

struct Mish {
  static constexpr Info info{"mish", "x * tanh(softplus(x)) (Misra 2019)",
    Accepts::real, {a}, kReals, {-0.30841396114152768, 0.3752452113048951, 2.7302142043358296}};
  // tanh(softplus(x)) with e = exp(-|x|): sums of positive numbers that do not overflow
  template <class T> MT_HD static T f(T x) {
    T e = exp_minus(x), up = T(1) + e + e, down = e * (e + T(2));
    return x * (select(x < T(0), down, up) / select(x < T(0), down + T(2), up + T(2) * e * e));
  }
  template <class T> MT_HD static T df(T g, T x) {
    T t = tanh(softplus(x, T(1), T(20)));
    return g * (t + x * sigmoid(x) * (T(1) - t * t));
  }
};

struct Softsign {
  static constexpr Info info{"softsign", "x / (1 + |x|)",
    Accepts::real, {a}, kReals, {-0.55555555555555556, 0.33333333333333333, 0.73333333333333333}};
  template <class T> MT_HD static T f(T x) { return x / (T(1) + abs(x)); }
  template <class T> MT_HD static T df(T g, T x) { return g / square(T(1) + abs(x)); }
};

// ---- one input: tests (the result is bool, there is no gradient) --------------------------------

#define MT_TEST(Op, name, doc, accepts, domain, expression, ...)                              \
  struct Op {                                                                                 \
    static constexpr Info info{#name, doc, Accepts::accepts, {}, domain, {__VA_ARGS__}};      \
    template <class T> MT_HD static auto f(T x) { return expression; }                        \
  };
MT_TEST(LogicalNot, logical_not, "true where x is 0", any, (Inputs{-1, 1, {{-1}, {0}, {1}}}), x == T(0), 0, 1, 0)
MT_TEST(Isnan, isnan, "true where x is not a number", number, kReals, x != x, 0, 0, 0)
MT_TEST(Isinf, isinf, "true where x is infinite", real, kReals, abs(x) == T(math::kInfinity), 0, 0, 0)
MT_TEST(Isposinf, isposinf, "true where x is infinite and positive", real, kReals, x == T(math::kInfinity), 0, 0, 0)
MT_TEST(Isneginf, isneginf, "true where x is infinite and negative", real, kReals, x == T(-math::kInfinity), 0, 0, 0)
MT_TEST(Isfinite, isfinite, "true where x is neither infinite nor NaN", real, kReals,
        abs(x) < T(math::kInfinity), 1, 1, 1)
#undef MT_TEST

struct Signbit {
  static constexpr bool opaque = true;
  static constexpr Info info{"signbit", "true where the sign bit of x is set, also for -0",
    Accepts::any, {}, kReals, {1, 0, 0}};
  template <class T> MT_HD static auto f(T x) {
    if constexpr (math::is_floating<T>) return math::copysign(T(1), x) < T(0);
    else return x < T(0);
  }
};

// ---- two inputs: arithmetic ---------------------------------------------------------------------

struct Add {
  static constexpr Info info{"add", "x + y; for two bools their logical or",
    Accepts::any, {nothing, nothing}, kPairs, {3.25, 2.5, 4}, {}, {.wide_numbers = a | b}};
  template <class T> MT_HD static T f(T x, T y) { return x + y; }
  template <class T> MT_HD static T da(T g) { return g; }
  template <class T> MT_HD static T db(T g) { return g; }
};

struct Sub {
  static constexpr Info info{"sub", "x - y",
    Accepts::number, {nothing, nothing}, kPairs, {1.75, 0, -3}, {},
    {.refuses_bool = "the difference of two bool tensors; use logical_xor, or :long() first",
     .wide_numbers = b}};
  template <class T> MT_HD static T f(T x, T y) { return x - y; }
  template <class T> MT_HD static T da(T g) { return g; }
  template <class T> MT_HD static T db(T g) { return -g; }
};

struct Mul {
  static constexpr Info info{"mul", "x * y; for two bools their logical and",
    Accepts::any, {b, a}, kPairs, {1.875, 1.5625, 1.75}, {}, {.wide_numbers = a | b}};
  MT_MATH_OF_TWO(times)
  template <class T> MT_HD static T da(T g, T y) { return g * y; }
  template <class T> MT_HD static T db(T g, T x) { return g * x; }
};

struct Div {
  static constexpr Info info{"div", "x / y; a float for integers",
    Accepts::real, {b, a | b}, kPositivePairs, {3.3333333333333333, 1, 0.14285714285714286},
    {}, {.wide_numbers = b}};
  template <class T> MT_HD static T f(T x, T y) { return x / y; }
  template <class T> MT_HD static T da(T g, T y) { return g / y; }
  template <class T> MT_HD static T db(T g, T x, T y) { return -g * (x / y) / y; }
};

struct FloorDivide : FlatPair {
  static constexpr Info info{"floor_divide", "x / y rounded down; integers stay integers",
    Accepts::number, {nothing, nothing}, kQuotients, {3, -4, -4}, {},
    {.divisor = Divisor::nonzero, .shortcut = {Shortcut::quotient}}};
  MT_MATH_OF_TWO(floor_divide)
};

struct TruncDivide : FlatPair {
  static constexpr Info info{"trunc_divide",
    "x / y without its fraction: div(x, y, {rounding_mode='trunc'})",
    Accepts::number, {nothing, nothing}, kQuotients, {3, -3, -3}, {},
    {.divisor = Divisor::nonzero}};
  MT_MATH_OF_TWO(trunc_divide)
};

struct Remainder {
  static constexpr Info info{"remainder", "x - y * floor(x / y): the sign of y, as Lua's %",
    Accepts::number, {nothing, a | b}, kQuotients, {1.5, 0.5, -0.5}, {},
    {.divisor = Divisor::nonzero, .shortcut = {Shortcut::quotient, Shortcut::none, Shortcut::quotient}}};
  MT_MATH_OF_TWO(remainder)
  template <class T> MT_HD static T da(T g) { return g; }
  template <class T> MT_HD static T db(T g, T x, T y) { return -g * floor_divide(x, y); }
};

struct Fmod {
  static constexpr Info info{"fmod", "x - y * trunc(x / y): the sign of x, as C's fmod",
    Accepts::number, {nothing, a | b}, kQuotients, {1.5, -1.5, 1.5}, {},
    {.divisor = Divisor::nonzero, .shortcut = {Shortcut::quotient}}};
  MT_MATH_OF_TWO(fmod)
  template <class T> MT_HD static T da(T g) { return g; }
  template <class T> MT_HD static T db(T g, T x, T y) { return -g * trunc(x / y); }
};

struct Pow {
  static constexpr Info info{"pow", "x to the power y",
    Accepts::number, {a | b, a | output}, kPairs.within(0.3, 3),
    {1.9881768219176267, 1.3217140793007051, 0.088388347648318441}, {},
    {.divisor = Divisor::nonnegative, .autocast_float32 = true}};
  MT_MATH_OF_TWO(pow)
  template <class T> MT_HD static T da(T g, T x, T y) {  // g * y may overflow where the power is 0
    T less = select(y == T(0), zero(y), y - T(1));  // 0 to the power -1 is infinite
    return select(y == T(0), zero(g), g * pow(x, less) * y);
  }
  // base 0: the derivative does not depend on the exponent, unless that is negative
  template <class T> MT_HD static T db(T g, T x, T power) {
    T one = zero(x) + T(1), whole = select(abs(power) < T(math::kInfinity), one, zero(x));
    T flat = select(x == T(0), whole, zero(x));
    return select(flat == T(0), g * log(select(flat == T(0), x, one)) * power, zero(g));
  }
};

/// NaN is propagated.
template <bool Larger> struct Extremum {
  template <class T> MT_HD static auto wins(T x, T y) {
    if constexpr (Larger) return x > y;
    else return x < y;
  }
  template <class T> MT_HD static T f(T x, T y) { return select(x != x, x, select(wins(x, y), x, y)); }
  template <class T> MT_HD static T da(T g, T x, T y) {
    return select(x == y, g / T(2), select(wins(y, x), zero(g), g));
  }
  template <class T> MT_HD static T db(T g, T x, T y) { return da(g, y, x); }
};
/// The extremum that ignores NaN: if one input is NaN the result is the other.
template <bool Larger> struct ExtremumOfNumbers {
  template <class T> MT_HD static auto holds(T x, T y) {
    if constexpr (Larger) return x >= y;
    else return x <= y;
  }
  template <class T> MT_HD static T f(T x, T y) {
    return select(holds(x, y), x, select(y != y, x, y));
  }
  template <class T> MT_HD static T da(T g, T x, T y) {
    return select(x == y, g / T(2), select(holds(x, y), g, select(y != y, g, zero(g))));
  }
  template <class T> MT_HD static T db(T g, T x, T y) {
    return select(x == y, g / T(2), select(holds(x, y), zero(g), select(y != y, zero(g), g)));
  }
};

struct Minimum : Extremum<false> {
  static constexpr Info info{"minimum", "the smaller of x and y, or NaN; ties share the gradient",
    Accepts::any, {a | b, a | b}, kPairs, {0.75, 1.25, 0.5}};
};

struct Maximum : Extremum<true> {
  static constexpr Info info{"maximum", "the larger of x and y, or NaN; ties share the gradient",
    Accepts::any, {a | b, a | b}, kPairs, {2.5, 1.25, 3.5}};
};

struct Fmin : ExtremumOfNumbers<false> {
  static constexpr Info info{"fmin",
    "the smaller of x and y, ignoring a NaN; ties share the gradient",
    Accepts::any, {a | b, a | b}, kPairs, {0.75, 1.25, 0.5}};
};

struct Fmax : ExtremumOfNumbers<true> {
  static constexpr Info info{"fmax",
    "the larger of x and y, ignoring a NaN; ties share the gradient",
    Accepts::any, {a | b, a | b}, kPairs, {2.5, 1.25, 3.5}};
};

struct Atan2 {
  static constexpr Info info{"atan2", "the angle in radians of the point (y, x)",
    Accepts::real, {a | b, a | b}, kPositivePairs,
    {1.2793395323170295, 0.78539816339744831, 0.14189705460416392}};
  MT_MATH_OF_TWO(atan2)
  template <class T> MT_HD static T da(T g, T y, T x) { return g * x / squares(x, y); }
  template <class T> MT_HD static T db(T g, T y, T x) { return -g * y / squares(x, y); }

 private:
  template <class T> MT_HD static T squares(T x, T y) {  // 1 at the origin, where the gradient is 0
    return select(x * x + y * y == T(0), zero(x) + T(1), x * x + y * y);
  }
};

struct Hypot {
  static constexpr Info info{"hypot", "sqrt(x*x + y*y) without overflow",
    Accepts::real, {a | output, b | output}, kPositivePairs,
    {2.6100766272276375, 1.7677669529663688, 3.5355339059327376}};
  MT_MATH_OF_TWO(hypot)
  template <class T> MT_HD static T da(T g, T x, T length) { return g * (x / length); }
  template <class T> MT_HD static T db(T g, T y, T length) { return g * (y / length); }
};

struct Copysign {
  static constexpr Info info{"copysign", "|x| with the sign of y; the slope at 0 is 0",
    Accepts::real, {a | b, nothing}, {-4, 4, {{2.5, -0.75}, {-1.25, 1.25}, {-0.5, -3.5}}},
    {-2.5, 1.25, -0.5}};
  MT_MATH_OF_TWO(copysign)
  template <class T> MT_HD static T da(T g, T x, T y) {
    T slope = select(x == x, sign(x), x);  // NaN for NaN
    return g * slope * copysign(zero(y) + T(1), y);
  }
  template <class T> MT_HD static T db(T g) { return zero(g); }
};

struct Xlogy {
  static constexpr Info info{"xlogy", "x * log(y), and 0 where x is 0, unless y is NaN",
    Accepts::real, {a | b, a | b}, kPositivePairs,
    {-0.71920518112945232, 0.27892943914276219, 0.626381484247684}};
  template <class T> MT_HD static T f(T x, T y) {
    return select(y != y, y, select(x == T(0), T(0), x * log(y)));
  }
  template <class T> MT_HD static T da(T g, T x, T y) {  // 0 where both the value and log are lost
    T some = select(y <= T(0), select(x == T(0), zero(y) + T(1), y), y);
    return xlogy(g, some);
  }
  template <class T> MT_HD static T db(T g, T x, T y) { return g * x / y; }
};

struct Igamma {
  static constexpr Info info{"igamma",
    "the regularized lower incomplete gamma function P(x, y), which rises from 0 to 1; no gradient "
    "for x",
    Accepts::real, {nothing, a | b}, kPositivePairs,
    {0.086930185455604539, 0.61852877199692632, 0.9918490284064973}};
  MT_MATH_OF_TWO(igamma)
  template <class T> MT_HD static T db(T g, T s, T x) {
    return g * exp(xlogy(s - T(1), x) - x - lgamma(s));
  }
};

struct Igammac {
  static constexpr Info info{"igammac",
    "the upper incomplete gamma function 1 - P(x, y), accurate near 0; no gradient for x",
    Accepts::real, {nothing, a | b}, kPositivePairs,
    {0.91306981454439546, 0.38147122800307368, 0.0081509715935027003}};
  MT_MATH_OF_TWO(igammac)
  template <class T> MT_HD static T db(T g, T s, T x) { return Igamma::db(-g, s, x); }
};

struct Logaddexp {
  static constexpr Info info{"logaddexp", "log(exp(x) + exp(y)) without overflow",
    Accepts::real, {a | b, a | b}, kPairs,
    {2.6602241504380872, 1.9431471805599453, 3.5485873515737421}, {}, {.autocast_float32 = true}};
  template <class T> MT_HD static T f(T x, T y) {
    T larger = select(x != x, x, select(x > y, x, y)), apart = -abs(x - y);
    return select(x == y, x + T(0.693147180559945309), larger + log1p(exp(apart)));
  }
  template <class T> MT_HD static T da(T g, T x, T y) { return g * sigmoid(x - y); }
  template <class T> MT_HD static T db(T g, T x, T y) { return g * sigmoid(y - x); }
};

struct Heaviside {
  static constexpr Info info{"heaviside", "0 below 0, 1 above, y where x is 0; it has no gradient",
    Accepts::any, {}, {-4, 4, {{2.5, 0.75}, {0, 1.25}, {-0.5, 3.5}}}, {1, 1.25, 0}};
  template <class T> MT_HD static T f(T x, T y) {
    return select(x == T(0), y, select(x > T(0), T(1), T(0)));
  }
};

struct Prelu {
  static constexpr Info info{"prelu",
    "x, or weight * x below 0: a slope for each channel (He 2015)",
    Accepts::real, {a | b, a}, {-4, 4, {{2.5, 0.75}, {-1.25, 1.25}, {-0.5, 3.5}}},
    {2.5, -1.5625, -1.75}};
  template <class T> MT_HD static T f(T x, T slope) { return LeakyRelu::f(x, slope); }
  template <class T> MT_HD static T da(T g, T x, T slope) { return LeakyRelu::df(g, x, slope); }
  template <class T> MT_HD static T db(T g, T x) { return select(x > T(0), zero(g), x * g); }
};

// ---- two inputs: comparisons and logic (the result is bool) -------------------------------------

/// An operation of two inputs, defined by an expression in x and y, without a gradient.
#define MT_EXPRESSION(Op, name, doc, accepts, domain, expression, ...)                        \
  struct Op {                                                                                 \
    static constexpr Info info{#name, doc, Accepts::accepts, {}, domain, {__VA_ARGS__}};      \
    template <class T> MT_HD static auto f(T x, T y) { return expression; }                   \
  };

MT_EXPRESSION(Lt, lt, "x < y", any, kPairs, x < y, 0, 0, 1)
MT_EXPRESSION(Le, le, "x <= y", any, kPairs, x <= y, 0, 1, 1)
MT_EXPRESSION(Gt, gt, "x > y", any, kPairs, x > y, 1, 0, 0)
MT_EXPRESSION(Ge, ge, "x >= y", any, kPairs, x >= y, 1, 1, 0)
MT_EXPRESSION(Eq, eq, "x equals y", any, kPairs, x == y, 0, 1, 0)
MT_EXPRESSION(Ne, ne, "x differs from y", any, kPairs, x != y, 1, 0, 1)

#define MT_LOGICAL(Op, name, doc, symbol, ...)                                                              \
  struct Op {                                                                                               \
    static constexpr bool opaque = true;                                                                    \
    static constexpr Info info{#name, doc, Accepts::any, {}, kLogic, {__VA_ARGS__}, {}, {.logical = true}}; \
    template <class T> MT_HD static auto f(T x, T y) { return bool((x != T(0)) symbol (y != T(0))); }       \
  };
MT_LOGICAL(LogicalAnd, logical_and, "whether both are nonzero", &, 0, 1, 0)
MT_LOGICAL(LogicalOr, logical_or, "whether x or y is nonzero", |, 1, 1, 0)
MT_LOGICAL(LogicalXor, logical_xor, "whether exactly one is nonzero", ^, 1, 0, 0)
#undef MT_LOGICAL

// ---- bits: bool and integers only ---------------------------------------------------------------

struct BitwiseNot {
  static constexpr Info info{"bitwise_not",
    "the inverted bits of an integer; not x for a bool",
    Accepts::integer, {}, {0, 9, {{0}, {5}, {12}}}, {-1, -6, -13}};
  template <class T> MT_HD static T f(T x) {
    return static_cast<T>(math::bits(x) ^ math::bits(T(-1)));
  }
};

MT_EXPRESSION(BitwiseAnd, bitwise_and, "the bits set in both", integer, kBits,
              static_cast<T>(math::bits(x) & math::bits(y)), 8, 0, 0)
MT_EXPRESSION(BitwiseOr, bitwise_or, "the bits set in x or y", integer, kBits,
              static_cast<T>(math::bits(x) | math::bits(y)), 14, 7, 15)
MT_EXPRESSION(BitwiseXor, bitwise_xor, "the bits that differ", integer, kBits,
              static_cast<T>(math::bits(x) ^ math::bits(y)), 6, 7, 15)
#undef MT_EXPRESSION

struct BitwiseLeftShift {
  static constexpr Info info{"bitwise_left_shift",
    "x shifted left by y bits; 0 where y is negative or at least the width",
    Accepts::integer, {}, {0, 9, {{3, 2}, {1, 6}, {9, 0}}}, {12, 64, 9}};
  MT_MATH_OF_TWO(shift_left)
};

struct BitwiseRightShift {
  static constexpr Info info{"bitwise_right_shift",
    "x shifted right by y bits; only the sign remains where y is negative or large",
    Accepts::integer, {}, {0, 9, {{12, 2}, {64, 6}, {9, 70}}}, {3, 1, 0}};
  MT_MATH_OF_TWO(shift_right)
};

constexpr const char* kNoDivisors =
    "have no common divisors and multiples; use integer tensors, as from :long()";

struct Gcd {
  static constexpr Info info{"gcd", "the greatest common divisor, 0 for two zeros",
    Accepts::integer, {}, kBits, {2, 7, 3}, {},
    {.refuses_float = kNoDivisors}};
  MT_MATH_OF_TWO(gcd)
};

struct Lcm {
  static constexpr Info info{"lcm", "the least common multiple, 0 if x or y is 0",
    Accepts::integer, {}, kBits, {60, 0, 18}, {},
    {.refuses_float = kNoDivisors}};
  MT_MATH_OF_TWO(lcm)
};

// ---- three inputs -------------------------------------------------------------------------------

/// The first input is a bool tensor: `mask_first`.
struct Where {
  static constexpr bool mask_first = true;
  static constexpr Info info{"where", "x where the condition is true, else y",
    Accepts::any, {nothing, a, a}, {-4, 4, {{1, 2.5, -3}, {0, 2.5, -3}, {1, 0, 7}}}, {2.5, -3, 0}};
  template <class M, class T> MT_HD static T f(M mask, T x, T y) { return select(mask, x, y); }
  template <class M, class T> MT_HD static T db(T g, M mask) { return select(mask, g, zero(g)); }
  template <class M, class T> MT_HD static T dc(T g, M mask) { return select(mask, zero(g), g); }
};

struct Lerp {
  static constexpr Info info{"lerp", "x + weight * (y - x)",
    Accepts::real, {c, c, a | b}, kTriples, {1.5, 0.25, 0.5}};
  template <class T> MT_HD static T f(T x, T y, T weight) {  // exact for weights 0 and 1
    return select(weight < T(0.5), x + weight * (y - x), y - (y - x) * (T(1) - weight));
  }
  template <class T> MT_HD static T da(T g, T weight) { return g * (T(1) - weight); }
  template <class T> MT_HD static T db(T g, T weight) { return g * weight; }
  template <class T> MT_HD static T dc(T g, T x, T y) { return g * (y - x); }
};

struct Addcmul {
  static constexpr Info info{"addcmul", "x + value * y * z",
    Accepts::number, {nothing, c, b}, kTriples, {1.75, -0.75, 1.5}, {{"value", 1}}};
  template <class T> MT_HD static T f(T x, T y, T z, T value) { return x + value * y * z; }
  template <class T> MT_HD static T da(T g, T) { return g; }
  template <class T> MT_HD static T db(T g, T z, T value) { return g * (z * value); }
  template <class T> MT_HD static T dc(T g, T y, T value) { return g * (y * value); }
};

struct Addcdiv {
  static constexpr Info info{"addcdiv", "x + value * y / z",
    Accepts::real, {nothing, c, b | c}, kTriples.within(0.3, 4), {13, 3, 0.75}, {{"value", 1}}};
  template <class T> MT_HD static T f(T x, T y, T z, T value) { return x + value * y / z; }
  template <class T> MT_HD static T da(T g, T) { return g; }
  template <class T> MT_HD static T db(T g, T z, T value) { return g * (value / z); }
  template <class T> MT_HD static T dc(T g, T y, T z, T value) {
    return -g * (value * y / (z * z));
  }
};

// ---- Lua's own: results that differ from those of tensors; only grid kernels use them -------------

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

#undef MT_UNARY_MATH
#undef MT_MATH
#undef MT_MATH_OF_TWO

// clang-format on

// ---- the list of all structs --------------------------------------------------------------------

template <class... Op> struct List { static constexpr int size = sizeof...(Op); };
template <class, class... Op> List<Op...> list_after();
#define MT_ENTRY(Op, name) , Op
using Elementwise = decltype(list_after<void MT_OPERATIONS(MT_ENTRY)>());
#undef MT_ENTRY
/// Operations that have ids, but are not functions of tensors.
using OfLua = List<LuaMod, LuaMin, LuaMax>;

template <class... A, class... B> List<A..., B...> operator+(List<A...>, List<B...>);
using Operations = decltype(Elementwise{} + OfLua{});

}  // namespace MT_ISA
}  // namespace mt::op
