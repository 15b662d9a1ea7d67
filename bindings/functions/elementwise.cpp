// elementwise.cpp -- the operations of kernels/ops.h as Lua functions, operators, and comparisons
#include <deque>

#include "bindings/functions/functions.h"
#include "engine/autograd.h"
#include "engine/ops.h"

namespace mt::lua {
namespace {

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
  for (int i = 0; i < row.params; ++i)
    params[i] = a.number(row.inputs + i + 1, row.info->params[i].value);
  if (!e.in_place) return a.push(elementwise(e.op, input, params));
  a.tensor(1);
  elementwise_(e.op, input, params);
  return a.self();
}

std::string op_signature(const OpRow& row, bool in_place) {
  static const char* const names[][3] = {
      {"x"}, {"x", "y"}, {"x", "y", "z"}, {"condition", "x", "y"}};
  const auto& inputs = names[row.mask_first ? 3 : row.inputs - 1];
  std::string s = fmt::format("{}{}(", row.info->name, in_place ? "_" : "");
  for (int i = 0; i < row.inputs; ++i) s += fmt::format("{}{}", i ? ", " : "", inputs[i]);
  for (int i = 0; i < row.params; ++i) {
    const op::Param& p = row.info->params[i];
    s += p.required ? fmt::format(", {}", p.name) : fmt::format(", {}={}", p.name, p.value);
  }
  return s + ")";
}

struct Generated {
  std::string signature, doc;
  Entry entry;
};

/// The entries of all elementwise operations, and of their forms in place.
const std::deque<Generated>& generated() {
  static const std::deque<Generated>* const list = [] {
    auto* all = new std::deque<Generated>;
    for (int i = 0; i < kOps; ++i) {
      const OpRow& row = op_row(i);
      for (const bool in_place : {false, true}) {
        if (in_place && (row.mask_first || row.answers_bool)) continue;
        Generated& g = all->emplace_back();
        g.signature = op_signature(row, in_place);
        g.doc = fmt::format("{}{}.", row.info->doc, in_place ? ", written into x" : "");
        g.entry.signature = g.signature.c_str(), g.entry.doc = g.doc.c_str();
        g.entry.body = &elementwise_body, g.entry.op = i, g.entry.in_place = in_place;
      }
    }
    return all;
  }();
  return *list;
}

// ---- comparing whole tensors ---

bool close(const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
  NoGrad off;
  broadcast("allclose", x.shape(), y.shape());
  const Tensor a = to(x, Dtype::f64), b = to(y, Dtype::f64);
  const Tensor same = eq(a, b);
  const Tensor near = le(abs(a - b), Tensor(atol) + Tensor(rtol) * abs(b));
  Tensor ok = logical_or(same, logical_and(near, isfinite(b)));
  if (equal_nan) ok = logical_or(ok, logical_and(isnan(a), isnan(b)));
  return all(ok).item() != 0;
}

int allclose_body(Args& a) {
  return a.push(
      close(a.tensor(1), a.tensor(2), a.number(3, 1e-5), a.number(4, 1e-8), a.boolean(5, false)));
}

int test_close_body(Args& a) {
  const double eps = a.number(3, 1e-5);
  NoGrad off;
  broadcast("test_close", a.tensor(1).shape(), a.tensor(2).shape());
  const Tensor x = to(a.tensor(1), Dtype::f64), y = to(a.tensor(2), Dtype::f64);
  const Tensor bad = logical_not(lt(abs(x - y), Tensor(eps)));
  const int64_t n = int64_t(sum(bad).item());
  if (n > 0) {
    const Tensor flat = reshape(bad, {-1});
    const int64_t first = int64_t(argmax(flat).item());
    const Tensor xs = reshape(expand(x, bad.shape()), {-1}),
                 ys = reshape(expand(y, bad.shape()), {-1});
    fail("test_close: {} of {} elements differ by {} or more; the first is number {}: {} and {}", n,
         bad.numel(), eps, first + 1, xs.at(first), ys.at(first));
  }
  return 0;
}

int equal_body(Args& a) {
  const Tensor &x = a.tensor(1), &y = a.tensor(2);
  NoGrad off;
  return a.push(x.shape() == y.shape() && all(eq(x, y)).item() != 0);
}

/// Functions of the module that are not methods.
const Entry kFunctions[] = {
    {"test_close(a, b, eps=1e-5)", "An error where two tensors differ by eps or more.",
     test_close_body},
};

/// Functions of the module that are methods of their first argument too.
const Entry kMethods[] = {
    {"allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=false)",
     "Whether |x - y| <= atol + rtol |y| everywhere.", allclose_body},
    {"equal(x, y)", "Whether shapes and all elements are equal: a Lua boolean.", equal_body},
};

/// The operators + - * / ^ % and unary minus.
void add_operators(lua_State* L) {
  static const struct {
    const char* event;
    int op;
  } operators[] = {{"__add", op::id<op::Add>}, {"__sub", op::id<op::Sub>},
                   {"__mul", op::id<op::Mul>}, {"__div", op::id<op::Div>},
                   {"__pow", op::id<op::Pow>}, {"__mod", op::id<op::Remainder>}};
  lua_pushlightuserdata(L, const_cast<char*>(&kMetatable));
  lua_rawget(L, LUA_REGISTRYINDEX);
  for (const auto& o : operators)
    for (const Generated& g : generated())
      if (g.entry.op == o.op && !g.entry.in_place) {
        push_function(L, g.entry);
        lua_setfield(L, -2, o.event);
      }
  static const Entry negate{"neg(x, ignored=nil)", "-x.",
                            [](Args& a) { return a.push(-a.tensor(1)); }};
  push_function(L, negate);
  lua_setfield(L, -2, "__unm");
  lua_pop(L, 1);
}

}  // namespace

void open_elementwise(lua_State* L) {
  add(L, kFunctions);
  add_methods(L, kMethods);
  for (const Generated& g : generated()) add_method(L, g.entry);
  add_operators(L);
}

}  // namespace mt::lua
