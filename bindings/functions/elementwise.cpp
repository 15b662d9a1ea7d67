// elementwise.cpp -- the operations of kernels/ops.h as Lua functions, operators, and comparisons
#include <cmath>
#include <deque>
#include <initializer_list>

#include "bindings/functions/functions.h"
#include "engine/autograd/graph.h"
#include "engine/ops/ops.h"

namespace mt::lua {
namespace {

int finish(Args& a, int op, const Tensor* const* input, const double* params) {
  if (a.out()) {
    const bool direct = may_write_to(a, input, op_row(op).inputs);
    const Into into(direct ? tensor_at(a.L, a.out()) : nullptr);
    return a.push(elementwise(op, input, params));
  }
  if (!a.entry().in_place) return a.push(elementwise(op, input, params));
  a.tensor(1);
  elementwise_(op, input, params);
  return a.self();
}

int elementwise_body(Args& a) {
  const Entry& e = a.entry();
  const OpRow& row = op_row(e.op);
  Tensor operand[op::kMaxInputs];
  const Tensor* input[op::kMaxInputs];
  for (int i = 0; i < row.inputs; ++i) {
    const Tensor* t = tensor_at(a.L, i + 1);
    if (!t) operand[i] = a.operand(i + 1), t = &operand[i];
    input[i] = t;
  }
  double params[op::kMaxParams] = {};
  for (int i = 0; i < row.params; ++i) {
    const auto& p = row.info->params[i];
    const int at = row.inputs + i + 1;
    params[i] = p.required ? a.number(at) : a.number(at, p.value);
  }
  if (e.op == op::id<op::Celu> && params[0] == 0) fail("celu: alpha is 0; x is divided by it");
  if (e.op == op::id<op::Softshrink> && !(params[0] >= 0))
    fail("softshrink: lambd is {}; it must be at least 0", show(params[0]));
  if (e.op == op::id<op::Huber> && !(params[0] > 0))
    fail("huber: delta is {}; it must be above 0", show(params[0]));
  if (e.op == op::id<op::Hardtanh> && params[0] > params[1])
    fail("hardtanh: min_val is {} and max_val {}; max_val must not be less", params[0], params[1]);
  return finish(a, e.op, input, params);
}

// ---- operations with more arguments than their formula ------------------------------------------

int finish(Args& a, int op, std::initializer_list<Tensor> operands) {
  const Tensor* input[op::kMaxInputs];
  int n = 0;
  for (const Tensor& t : operands) input[n++] = &t;
  return finish(a, op, input, nullptr);
}

}  // namespace

int push_or_write(const Args& a, const Tensor& result) {
  if (!a.entry().in_place) return a.push(result);
  const Tensor& x = a.tensor(1);
  const std::string name = a.called();
  check_writable(name.c_str(), x);
  if (!can_hold(x.dtype(), result.dtype()) || !(result.shape() == x.shape()))
    fail("{}: the result is {} {}, the tensor {} {}; use the form without '_'", name,
         to_string(result.shape()), dtype_name(result.dtype()), to_string(x.shape()),
         dtype_name(x.dtype()));
  keep_saved(result, x);
  write_(name.c_str(), x, result);
  return a.self();
}

namespace {

/// x + alpha * y and x - alpha * y.
int scaled_body(Args& a) {
  if (!a.given(3)) return elementwise_body(a);
  if (tensor_at(a.L, 3))
    fail(
        "{0}: argument 3 'alpha' is a tensor; the factor of y comes after y, x:{0}(y, {{alpha=2}})",
        a.called());
  const double alpha = a.number(3);
  const Tensor y = a.operand(2);
  const Tensor x = a.operand(1);
  const Tensor* const both[] = {&x, &y};
  const Dtype dtype = computing_dtype(op_row(a.entry().op), both, nullptr);
  Tensor scaled = y.impl()->number ? Tensor(y.item() * alpha) : to(y, dtype) * Tensor(alpha);
  if (x.dtype() == Dtype::b8 && y.dtype() == Dtype::b8) scaled = to(scaled, Dtype::b8);
  return finish(a, a.entry().op, {x, scaled});
}

int div_body(Args& a) {
  if (!a.given(3)) return elementwise_body(a);
  return finish(a, a.choice(3) == 0 ? op::id<op::FloorDivide> : op::id<op::TruncDivide>,
                {a.operand(1), a.operand(2)});
}

int gelu_body(Args& a) {
  if (!a.given(2) || a.choice(2) == 0) return elementwise_body(a);
  return finish(a, op::id<op::GeluTanh>, {a.operand(1)});
}

/// Rounds to 10^-decimals. As in PyTorch by a division if that power of ten is an integer.
int round_body(Args& a) {
  const int64_t decimals = a.integer(2);
  if (decimals == 0) return elementwise_body(a);
  if (decimals < -300 || decimals > 300)
    fail("round: decimals is {}; it must be between -300 and 300", decimals);
  const Tensor& x = a.tensor(1);
  if (!is_float(x.dtype())) {
    if (decimals > 0) return elementwise_body(a);
    fail("round: decimals is negative, but x is {}; use :double() first", dtype_name(x.dtype()));
  }
  const Tensor power(std::pow(10.0, double(std::abs(decimals)))),
      y = to(x, compute_dtype(x.dtype()));
  const Tensor rounded = decimals > 0 ? round(y * power) / power : round(y / power) * power;
  return push_or_write(a, to(rounded, x.dtype()));
}

/// One slope for all, or one for each channel (dimension 2 for the user).
int prelu_body(Args& a) {
  const Tensor x = a.operand(1), weight = a.operand(2);
  if (weight.numel() == 1) return finish(a, a.entry().op, {x, reshape(weight, {})});
  const int64_t channels = x.dim() > 1 ? x.size(1) : 1;
  if (weight.dim() != 1 || weight.size(0) != channels)
    fail("prelu: weight {} does not fit x {}; give 1 slope, or a list of {} for the channels",
         to_string(weight.shape()), to_string(x.shape()), channels);
  Shape shape;
  for (int d = 0; d < x.dim(); ++d) shape.push(d == 1 ? channels : 1);
  return finish(a, a.entry().op, {x, reshape(weight, shape)});
}

/// A limit of clamp: argument i or, for 0, none. An absent limit does not clamp any float, not even
/// infinity, nor an integer.
double limit_at(Args& a, int i, double absent) {
  return i > 0 && a.given(i) ? a.number(i) : is_float(a.tensor(1).dtype()) ? math::kNil : absent;
}
int clamp_to_numbers(Args& a, int low, int high) {
  const Tensor* x = &a.tensor(1);
  const double limits[op::kMaxParams] = {limit_at(a, low, -math::kInfinity),
                                         limit_at(a, high, math::kInfinity)};
  return finish(a, op::id<op::Clamp>, &x, limits);
}

/// The limits are numbers or tensors; ties with a tensor share the gradient, as in maximum.
int clamp_body(Args& a) {
  if (!a.given(2) && !a.given(3)) fail("clamp: give min, max or both");
  for (int i = 2; i <= 3; ++i)
    if (a.given(i) && !tensor_at(a.L, i) && lua_type(a.L, i) != LUA_TNUMBER)
      a.wrong(i, "a number or a tensor");
  bool numbers = true;
  for (int i = 2; i <= 3; ++i)  // a NaN limit makes all elements NaN
    numbers &= !tensor_at(a.L, i) && !(a.given(i) && std::isnan(a.number(i)));
  if (numbers) return clamp_to_numbers(a, 2, 3);
  Tensor y = a.tensor(1);
  if (a.entry().in_place && wants_grad(y)) y = clone(y);  // backward needs it
  if (a.given(2)) y = maximum(y, a.operand(2));
  if (a.given(3)) y = minimum(y, a.operand(3));
  return push_or_write(a, y);
}
template <bool Low> int clamp_one_body(Args& a) {
  if (tensor_at(a.L, 2) || std::isnan(a.number(2)))
    return finish(a, Low ? op::id<op::Maximum> : op::id<op::Minimum>, {a.tensor(1), a.operand(2)});
  return clamp_to_numbers(a, Low ? 2 : 0, Low ? 0 : 2);
}

constexpr int64_t kMaxOrder = 30;
/// x:polygamma(n), and mt.polygamma(n, x) as in PyTorch.
int polygamma_body(Args& a) {
  const int at = tensor_at(a.L, 1) || !tensor_at(a.L, 2) ? 1 : 2;
  const Tensor* x = &a.tensor(at);
  const int64_t n = a.integer(3 - at);
  if (n < 0 || n > kMaxOrder)
    fail("polygamma: the order is {}; it must be between 0 and {}", n, kMaxOrder);
  const double order[op::kMaxParams] = {double(n)};
  return finish(a, a.entry().op, &x, order);
}

/// A power in float64, independent of the operands' dtypes.
int float_power_body(Args& a) {
  const Tensor x = a.operand(1), y = a.operand(2);
  if (x.impl()->number && y.impl()->number) fail("float_power: one of the two must be a tensor");
  const auto wider = [](const Tensor& t) { return t.impl()->number ? t : to(t, Dtype::f64); };
  return push_or_write(a, pow(wider(x), wider(y)));
}

/// The multivariate log-gamma function: p (p - 1) / 4 log(pi), and the sum of lgamma(x - k / 2), k < p.
int mvlgamma_body(Args& a) {
  const Tensor& x = a.tensor(1);
  const double p = double(a.integer(2));
  if (p < 1) fail("mvlgamma: p is {}; it must be 1 or more", p);
  const Tensor y = to(x, is_float(x.dtype()) ? compute_dtype(x.dtype()) : default_dtype());
  const Tensor halves = range(0, (p - 1) / 2, 0.5, y.dtype(), y.device());
  const Tensor sums = sum(lgamma(unsqueeze(y, -1) - halves), {-1});
  constexpr double kLogPi = 1.14472988584940017;
  const Tensor all = sums + Tensor(p * (p - 1) / 4 * kLogPi);
  return push_or_write(a, is_reduced_float(x.dtype()) ? to(all, x.dtype()) : all);
}

/// Operations with their own body, and its arguments.
struct Special {
  const char *name, *arguments;
  int (*body)(Args&);
};
const Special kSpecial[] = {
    {"add", "x, y, alpha=1", scaled_body},
    {"sub", "x, y, alpha=1", scaled_body},
    {"div", "x, y, rounding_mode: 'floor'|'trunc' = nil", div_body},
    {"gelu", "x, approximate: 'none'|'tanh' = 'none'", gelu_body},
    {"round", "x, decimals=0", round_body},
    {"prelu", "x, weight", prelu_body},
    {"lerp", "x, y, weight", elementwise_body},
    {"clamp", "x, min=nil, max=nil", clamp_body},
    {"polygamma", "x, n", polygamma_body},
};
const Special* special(const OpRow& row) {
  for (const Special& s : kSpecial)
    if (std::string_view(s.name) == row.info->name) return &s;
  return nullptr;
}

// ---- the entries --------------------------------------------------------------------------------

std::string op_signature(const OpRow& row) {
  if (const Special* s = special(row))
    return fmt::format("{}({}, {{out=}})", s->name, s->arguments);
  static const char* const names[][3] = {
      {"x"}, {"x", "y"}, {"x", "y", "z"}, {"condition", "x", "y"}};
  const auto& inputs = names[row.mask_first ? 3 : row.inputs - 1];
  std::string s = fmt::format("{}(", row.info->name);
  for (int i = 0; i < row.inputs; ++i) s += fmt::format("{}{}", i ? ", " : "", inputs[i]);
  for (int i = 0; i < row.params; ++i) {
    const op::Param& p = row.info->params[i];
    s += p.required            ? fmt::format(", {}", p.name)
         : std::isnan(p.value) ? fmt::format(", {}=nil", p.name)
                               : fmt::format(", {}={}", p.name, p.value);
  }
  return s + ", {out=})";
}

/// elementwise_body with its types: tensors or numbers (a single one is a tensor), then numbers.
Body generic_body(const OpRow& row) {
  static constexpr Type tensor{kind::tensor}, operand{kind::tensor | kind::number},
      number{kind::number, true};
  static constexpr Type one[] = {tensor, number, number, number, number},
                        several[] = {operand, operand, operand, number, number, number, number};
  static_assert(op::kMaxParams <= 4);
  return {&elementwise_body, row.inputs == 1 ? one : several + 3 - row.inputs,
          row.inputs + row.params, "tensor"};
}

/// As in PyTorch: comparisons and logic write 0 and 1 into x; unary predicates have no such form.
bool has_in_place(const OpRow& row) {
  const bool predicate = row.answers_bool && row.inputs == 1 && row.info != &op::LogicalNot::info;
  return !row.mask_first && !predicate;
}

/// The entries of all elementwise operations.
const std::deque<OwnedEntry>& generated() {
  static const std::deque<OwnedEntry>* const list = [] {
    auto* all = new std::deque<OwnedEntry>;
    for (int i = 0; i < kOps; ++i) {
      const OpRow& row = op_row(i);
      const Special* own = special(row);
      Body body = own ? Body(own->body) : generic_body(row);
      if (has_in_place(row)) body = body | kInPlaceToo;
      all->emplace_back(op_signature(row), fmt::format("{}.", row.info->doc), body, i);
    }
    return all;
  }();
  return *list;
}

// ---- comparing whole tensors ---

/// |x - y| <= atol + rtol |y|, and equal infinities; in float64, and exactly for integers.
Tensor is_close(const char* name, const Tensor& x, const Tensor& y, double rtol, double atol,
                bool equal_nan) {
  if (!(rtol >= 0) || !(atol >= 0))
    fail("{}: rtol is {} and atol is {}; they must be 0 or more", name, rtol, atol);
  NoGrad off;
  broadcast(name, x.shape(), y.shape());
  const Tensor p = to(x, Dtype::f64), q = to(y, Dtype::f64);
  const Tensor allowed = Tensor(atol) + Tensor(rtol) * abs(q);
  Tensor near = logical_and(le(abs(p - q), allowed), isfinite(q));
  if (!is_float(x.dtype()) && !is_float(y.dtype()))  // float64 is not exact above 2^53
    near =
        logical_and(near, le(to(abs(to(x, Dtype::i64) - to(y, Dtype::i64)), Dtype::f64), allowed));
  const Tensor ok = logical_or(eq(x, y), near);
  return equal_nan ? logical_or(ok, logical_and(isnan(p), isnan(q))) : ok;
}
bool all_close(const char* name, const Tensor& x, const Tensor& y, double rtol, double atol,
               bool equal_nan) {
  return all(is_close(name, x, y, rtol, atol, equal_nan)).item() != 0;
}

/// "x:at(2, 3)" for element i of a shape, in the user's numbering.
std::string at_text(const Shape& shape, int64_t i) {
  std::string inside;
  for (int d = shape.size() - 1; d >= 0; i /= shape[d], --d)
    inside = fmt::format("{}{}{}", i % shape[d] + 1, inside.empty() ? "" : ", ", inside);
  return inside.empty() ? "x:item()" : fmt::format("x:at({})", inside);
}

void test_close(const Tensor& a, const Tensor& b, double eps) {
  NoGrad off;
  broadcast("test_close", a.shape(), b.shape());
  const Tensor x = to(a, Dtype::f64), y = to(b, Dtype::f64);
  const Tensor bad = logical_not(logical_or(lt(abs(x - y), Tensor(eps)), eq(x, y)));
  const int64_t n = sum(bad).item();
  if (n > 0) {
    const int64_t first = argmax(reshape(bad, {-1})).item();
    fail("test_close: {} of {} elements differ by {} or more; the first is {}: {} and {}", n,
         bad.numel(), eps, at_text(bad.shape(), first), expand(x, bad.shape()).at(first),
         expand(y, bad.shape()).at(first));
  }
}

bool equal(const Tensor& x, const Tensor& y) {
  NoGrad off;
  return x.shape() == y.shape() && all(eq(x, y)).item() != 0;
}

const Entry kElementwiseFunctions[] = {
    {"test_close(a, b, eps=1e-5)", "Throws an error if two tensors differ by eps or more.",
     bind<test_close>},
};

const Entry kElementwiseMethods[] = {
    {"allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=false)",
     "Whether |x - y| <= atol + rtol |y| everywhere.", bind<all_close> | kWantsNumbers},
    {"isclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=false)",
     "Whether |x - y| <= atol + rtol |y|, for each element.", bind<is_close>},
    {"positive(x)", "x itself.", bind<[](const Tensor& x) { return x; }>},
    {"clamp_min(x, min, {out=})", "x, or min where x is below; a number or a tensor.",
     clamp_one_body<true> | kInPlaceToo},
    {"clamp_max(x, max, {out=})", "x, or max where x is above; a number or a tensor.",
     clamp_one_body<false> | kInPlaceToo},
    {"float_power(x, y, {out=})", "x to the power y in float64.", float_power_body | kInPlaceToo},
    {"mvlgamma(x, p)",
     "The logarithm of the gamma function of p variables, for x above (p - 1) / 2.",
     mvlgamma_body | kInPlaceToo},
    {"equal(x, y)", "Whether shapes and all elements are equal: a Lua boolean.",
     bind<equal> | kWantsNumbers},
};

/// PyTorch's other names for the same functions; also in place.
const char* const kAliases[][2] = {
    {"absolute", "abs"},     {"arccos", "acos"},       {"arccosh", "acosh"},
    {"arcsin", "asin"},      {"arcsinh", "asinh"},     {"arctan", "atan"},
    {"arctan2", "atan2"},    {"arctanh", "atanh"},     {"clip", "clamp"},
    {"divide", "div"},       {"fix", "trunc"},         {"greater", "gt"},
    {"greater_equal", "ge"}, {"less", "lt"},           {"less_equal", "le"},
    {"multiply", "mul"},     {"negative", "neg"},      {"not_equal", "ne"},
    {"subtract", "sub"},     {"true_divide", "div"},   {"log_sigmoid", "logsigmoid"},
    {"expit", "sigmoid"},    {"gammaln", "lgamma"},    {"multigammaln", "mvlgamma"},
    {"gammainc", "igamma"},  {"gammaincc", "igammac"}, {"psi", "digamma"},
};

}  // namespace

/// The operators + - * / ^ % and unary minus.
void open_operators(lua_State* L) {
  static const struct {
    const char* event;
    int op;
  } operators[] = {{"__add", op::id<op::Add>}, {"__sub", op::id<op::Sub>},
                   {"__mul", op::id<op::Mul>}, {"__div", op::id<op::Div>},
                   {"__pow", op::id<op::Pow>}, {"__mod", op::id<op::Remainder>}};
  push_registered(L, &kMetatable);
  for (const auto& o : operators) {
    push_function(L, generated()[o.op].entry);
    lua_setfield(L, -2, o.event);
  }
  static const Entry negate{"neg(x, ignored=nil)", "-x.",
                            [](Args& a) { return a.push(-a.tensor(1)); }};
  push_function(L, negate);
  lua_setfield(L, -2, "__unm");
  lua_pop(L, 1);
}

void register_elementwise(Registry& c) {
  for (const OwnedEntry& g : generated()) c.both(g.entry);
  c.functions(kElementwiseFunctions);
  c.both(kElementwiseMethods);
  for (const auto& [alias, name] : kAliases) c.alias(alias, name);
}

}  // namespace mt::lua
