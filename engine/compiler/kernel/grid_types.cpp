// grid_types.cpp -- type inference of grid kernels: a fixpoint, then checks, then conversions
//
// A variable that is assigned both integers and reals, or a literal with a point (1.0), is real. Properties of all
// values are checked at the end, when all types are known. With `lua_numbers` numbers are Lua's, so that only what
// counts is an integer: whole literals, positions, counters of for, and these plus or minus a constant.
#include <cmath>

#include "engine/compiler/kernel/grid_ir.h"
#include "engine/core/dtype.h"
#include "engine/ops/ops.h"

namespace mt::grid {
namespace {

using T = GridType;

T type_of_dtype(Dtype d) {
  return d == Dtype::b8 ? T::boolean : is_float(d) ? T::real : T::integer;
}
bool is_number(T t) { return t == T::integer || t == T::real; }
T join(T a, T b) {
  if (a == T::none || a == b) return b;
  if (b == T::none) return a;
  return is_number(a) && is_number(b) ? T::real : a;
}
T joined(const GridValues& args) {
  T t = T::none;
  for (const Value* a : args) t = join(t, a->type);
  return t;
}
bool is_comparison(int op) { return op::is<op::Lt, op::Le, op::Eq, op::Ne>(op); }
bool is_logical(int op) {
  return op::is<op::LogicalAnd, op::LogicalOr, op::LogicalXor, op::LogicalNot>(op);
}
bool is_rounding(int op) { return op::is<op::Floor, op::Ceil, op::Round, op::Trunc>(op); }
op::Accepts accepted(int op) { return op_row(op).info->accepts; }
bool needs_whole(int op) { return accepted(op) == op::Accepts::integer; }
/// Whether the result of integers is one.
bool keeps_whole(int op) {
  return op == op::id<op::LuaMod> || (accepted(op) != op::Accepts::real && op != op::id<op::Pow>);
}

// ---- finding ---------------------------------------------------------------------------------------

class Finder {
 public:
  explicit Finder(Kernel& p) : p_(p) {}
  void run() {
    do {
      changed_ = false;
      each_statement(p_.body, 0, [this](const Statement& s, int) { statement(s); });
    } while (changed_);
  }

 private:
  T find(Value& v) {
    T t = T::none;
    for (Value* a : v.args) find(*a);
    switch (v.kind) {
      case Value::number: t = v.type == T::real || !is_whole(v.value) ? T::real : T::integer; break;
      case Value::boolean: t = T::boolean; break;
      case Value::scalar: t = p_.scalars[size_t(v.index)].type; break;
      case Value::variable: t = p_.variables[size_t(v.index)].type; break;
      case Value::load: t = element(v.index); break;
      case Value::operation: t = of_operation(v); break;
      default: t = T::integer;
    }
    return v.type = t;
  }
  T element(int tensor) const { return type_of_dtype(p_.tensors[size_t(tensor)].dtype); }
  static bool is_constant(const Value& v) {
    return v.kind == Value::number || v.kind == Value::scalar;
  }
  T of_operation(const Value& v) const {
    if (op_row(v.op).answers_bool) return T::boolean;
    if (needs_whole(v.op)) return T::integer;
    if (is_rounding(v.op)) return p_.lua_numbers ? T::real : T::integer;
    if (v.op == op::id<op::Where>) return join(v.args[1]->type, v.args[2]->type);
    if (!keeps_whole(v.op)) return T::real;
    if (p_.lua_numbers && !op::is<op::LuaMin, op::LuaMax>(v.op)) {
      const bool counts =
          op::is<op::Add, op::Sub>(v.op) && (is_constant(*v.args[0]) || is_constant(*v.args[1]));
      if (!counts) return T::real;
    }
    return joined(v.args);
  }
  /// Whether a number is 1.0, or is that or another one by a condition: a local that gets it is real, although 1.0 is
  /// an integer elsewhere, as 1 is.
  static bool is_float_literal(const Value& v) {
    if (v.has<op::Where>()) return is_float_literal(*v.args[1]) || is_float_literal(*v.args[2]);
    return v.kind == Value::number && v.index == 1;
  }
  void give(int variable, T t) {
    T& now = p_.variables[size_t(variable)].type;
    const T joined = join(now, t);
    if (joined != now) now = joined, changed_ = true;
  }
  void statement(const Statement& s) {
    for (Value* v : {s.place, s.value, s.last, s.step})
      if (v) find(*v);
    if (s.kind == Statement::assign || s.kind == Statement::warp)
      give(s.variable, is_float_literal(*s.value) ? T::real : s.value->type);
    if (s.kind == Statement::atomic_add) give(s.variable, s.place->type);
    if (s.kind == Statement::count) give(s.variable, join(s.value->type, s.step->type));
  }
  Kernel& p_;
  bool changed_ = false;
};

// ---- checking and converting -------------------------------------------------------------------------

class Checker {
 public:
  explicit Checker(Kernel& p) : p_(p) {}
  void run() {
    each_statement(p_.body, 0, [this](Statement& s, int) {
      for (Value** v : {&s.value, &s.last, &s.step, &s.place})
        if (*v) *v = checked(*v);
      statement(s);
    });
  }

 private:
  template <class... A>
  [[noreturn]] void refuse(int line, fmt::format_string<A...> text, A&&... values) const {
    fail_line(p_, line, text, std::forward<A>(values)...);
  }
  template <class Op> Value* make(const GridValues& args, T type, int line) {
    return p_.add(op::id<Op>, args, type, line);
  }
  /// Converts a number to another type.
  Value* converted(Value* v, T wanted) {
    if (v->type == wanted || wanted != T::real || v->type != T::integer) return v;
    if (v->kind != Value::number) return p_.add(kConvert, {v}, T::real, v->line);
    return literal(v, T::real);
  }
  Value* literal(const Value* v, T type) {
    Value* const c = p_.add(*v);
    c->type = type;
    return c;
  }
  void need_number(const Value* v, const char* doing) const {
    if (is_number(v->type)) return;
    refuse(v->line, "{} a boolean; kernels calculate with numbers: write x and 1 or 0", doing);
  }
  void need_boolean(const Value* v, const char* what) const {
    if (v->type == T::boolean) return;
    refuse(v->line, "{} is a number, which is always true in Lua; compare it, as in x ~= 0", what);
  }
  Value* checked(Value* v) {
    if (v->kind == Value::variable && v->type == T::none) {
      const std::string& name = p_.variables[size_t(v->index)].name;
      refuse(v->line, "'{}' is read, but no value was ever given to it", name);
    }
    for (Value*& a : v->args) a = checked(a);
    if (v->kind == Value::load) indices(*v);
    return v->kind == Value::operation ? operation(v) : v;
  }
  void indices(const Value& access) const {
    for (const Value* a : access.args) {
      if (a->type == T::integer) continue;
      const std::string& name = p_.tensors[size_t(access.index)].name;
      if (a->type == T::boolean) refuse(a->line, "an index into '{}' is a boolean", name);
      refuse(
          a->line,
          "an index into '{}' is a float; positions are whole numbers from 1: use math.floor(..)",
          name);
    }
  }
  Value* operation(Value* v) {
    GridValues& a = v->args;
    if (v->op == op::id<op::LogicalNot> && a.count == 2) {  // of `c and x or y`: whether it is y
      need_boolean(a[0], "an operand of 'and' or 'or'");
      if (a[1]->type == T::boolean) a[0] = make<op::LogicalAnd>({a[0], a[1]}, T::boolean, v->line);
      a.count = 1;
      return v;
    }
    if (is_logical(v->op)) {
      for (const Value* x : a)
        need_boolean(x, v->op == op::id<op::LogicalNot> ? "the operand of 'not'"
                                                        : "an operand of 'and' or 'or'");
      return v;
    }
    if (is_comparison(v->op)) return comparison(v);
    if (v->op == op::id<op::Where>) return select(v);
    for (const Value* x : a) need_number(x, "arithmetic with");
    if (is_rounding(v->op)) return rounded(v);
    if (needs_whole(v->op))
      for (Value*& x : a) x = whole(x, v->op);
    const T t = !keeps_whole(v->op) ? T::real : v->type == T::boolean ? joined(a) : v->type;
    for (Value*& x : a) x = converted(x, t);
    if (v->op == op::id<op::LuaMod> && t == T::integer) v->op = int16_t(op::id<op::Remainder>);
    if (v->op == op::id<op::Signbit> && t == T::integer) {
      v->op = int16_t(op::id<op::Lt>);
      a.push_back(p_.add({.kind = Value::number, .type = T::integer, .line = v->line}));
    }
    return v->op == op::id<op::Pow> && a[1]->kind == Value::number ? power(v) : v;
  }
  /// An operand of an operation on integers, which of Lua's numbers rounds to the nearest one.
  Value* whole(Value* v, int op) {
    if (v->type == T::integer) return v;
    if (!p_.lua_numbers)
      refuse(v->line,
             "{} of a float; bits and divisors are those of whole numbers: use math.floor(..)",
             op_row(op).info->name);
    return p_.add(kConvert, {make<op::Round>({v}, T::real, v->line)}, T::integer, v->line);
  }
  /// The square or cube of a variable as products, as in the loops of pow (kernels/cpu/simd/powers.h).
  Value* power(Value* v) {
    const double exponent = v->args[1]->value;
    const auto base = [&] {
      Value* const x = p_.add(*v->args[0]);
      for (Value*& a : x->args) a = p_.add(*a);
      return x;
    };
    const auto times = [&](Value* x) { return make<op::Mul>({x, base()}, T::real, v->line); };
    if (exponent != 2 && exponent != 3) return v;
    return exponent == 2 ? times(base()) : times(times(base()));
  }
  Value* comparison(Value* v) {
    Value *&x = v->args[0], *&y = v->args[1];
    if (x->type == T::boolean && y->type == T::boolean && op::is<op::Eq, op::Ne>(v->op)) return v;
    if (x->type == T::boolean || y->type == T::boolean)
      refuse(v->line, "a comparison of a boolean {}; it would be an error or always false in Lua",
             x->type == y->type ? "by order" : "with a number");
    const T t = join(x->type, y->type);
    x = converted(x, t), y = converted(y, t);
    return v;
  }
  /// c and y or z.
  Value* select(Value* v) {
    Value *&c = v->args[0], *&y = v->args[1], *&z = v->args[2];
    need_boolean(c, "the condition of 'and'");
    if ((y->type == T::boolean) != (z->type == T::boolean))
      refuse(v->line, "x and y or z gives a boolean or a number; a value has one type, use if");
    if (y->type == T::boolean)
      return make<op::LogicalOr>({make<op::LogicalAnd>({c, y}, T::boolean, v->line), z}, T::boolean,
                                 v->line);
    y = converted(y, v->type), z = converted(z, v->type);
    return v;
  }
  /// A real rounded to an integer; floor(a / b) of integers is exact.
  Value* rounded(Value* v) {
    Value* const x = v->args[0];
    if (p_.lua_numbers) return v->args[0] = converted(x, T::real), v;
    if (x->type == T::integer) return x;
    v->type = T::real;
    Value* const plain = p_.add(kConvert, {v}, T::integer, v->line);
    if (!x->has<op::Div>() || v->op == op::id<op::Round>) return plain;
    const auto whole = [](Value* o) {
      if (o->kind == Value::operation && o->op == kConvert) return o->args[0];
      return o->kind == Value::number && is_whole(o->value) ? o : nullptr;
    };
    Value *a = whole(x->args[0]), *b = whole(x->args[1]);
    if (!a || !b) return plain;
    for (Value** o : {&a, &b})
      if ((*o)->kind == Value::number) *o = literal(*o, T::integer);
    const auto quotient = [&] { return make<op::FloorDivide>({a, b}, T::integer, v->line); };
    const auto minus = [&](Value* y) { return make<op::Neg>({y}, T::integer, v->line); };
    if (v->op == op::id<op::Trunc>) return make<op::TruncDivide>({a, b}, T::integer, v->line);
    if (v->op == op::id<op::Floor>) return quotient();
    a = minus(a);  // ceil(a / b) = -floor(-a / b)
    return minus(quotient());
  }

  // ---- statements --------------------------------------------------------------------------------

  void statement(Statement& s) {
    switch (s.kind) {
      case Statement::assign: return assign(s);
      case Statement::store:
      case Statement::atomic_add: return store(s);
      case Statement::branch: return need_boolean(s.value, "the condition");
      case Statement::count: return count(s);
      case Statement::warp:
        need_number(s.value, "a warp function of");
        if (s.step->type != T::integer)
          refuse(s.line, "the distance of a shuffle must be a whole number; use math.floor(..)");
        return;
      default: return;
    }
  }
  void assign(Statement& s) {
    const Variable& v = p_.variables[size_t(s.variable)];
    if ((v.type == T::boolean) != (s.value->type == T::boolean))
      refuse(s.line,
             "'{}' is a {} here and a {} elsewhere; a local has one type in a kernel, use two",
             v.name, s.value->type == T::boolean ? "boolean" : "number",
             v.type == T::boolean ? "boolean" : "number");
    s.value = converted(s.value, v.type);
  }
  void store(Statement& s) {
    const Tensor& t = p_.tensors[size_t(s.place->index)];
    const T wanted = type_of_dtype(t.dtype), given = s.value->type;
    if (s.kind == Statement::atomic_add && wanted == T::boolean)
      refuse(s.line, "an atomic update: '{}' is a bool tensor; use uint8", t.name);
    if (s.last) need_number(s.last, "atomic_cas compares with");
    if (s.last && wanted == T::integer && s.last->type != T::integer)
      refuse(s.line, "atomic_cas: '{}' is a tensor of {} and is compared with whole numbers",
             t.name, dtype_name(t.dtype));
    if (wanted == T::boolean && given != T::boolean)
      refuse(s.line, "'{}' is a bool tensor and takes a boolean, as x > 0, not a number", t.name);
    if (wanted != T::boolean && given == T::boolean) {
      p_.misfit.boolean = s.place->index;
      refuse(s.line, "'{}' is a tensor of {} and takes a number, not a boolean: write x and 1 or 0",
             t.name, dtype_name(t.dtype));
    }
    if (wanted == T::integer && given == T::real) {
      p_.misfit.real = s.place->index;
      refuse(s.line,
             "'{}' is a tensor of {} and takes whole numbers, not a float: use math.floor(..)",
             t.name, dtype_name(t.dtype));
    }
    s.value = converted(s.value, wanted);
    if (s.last) s.last = converted(s.last, wanted);
  }
  void count(Statement& s) {
    const T t = p_.variables[size_t(s.variable)].type;
    for (Value* v : {s.value, s.last, s.step})
      if (!is_number(v->type)) refuse(v->line, "'for' limit must be a number");
    if (t == T::integer && s.last->type == T::real) {
      const Value& step = *s.step;
      if (step.kind != Value::number)
        refuse(
            s.line,
            "the end of this for is a float and its step no literal; use math.floor(..) for the end");
      const int rounding = step.value > 0 ? op::id<op::Floor> : op::id<op::Ceil>;
      Value* const end = p_.add(rounding, {s.last}, T::real, s.line);
      s.last = p_.add(kConvert, {end}, T::integer, s.line);
    }
    s.value = converted(s.value, t), s.last = converted(s.last, t), s.step = converted(s.step, t);
    if (t != T::integer || s.step->kind == Value::number) return;
    Value* const zero =
        p_.add({.kind = Value::number, .type = t, .line = s.line});  // 0 % step: a fault if it is 0
    s.step = make<op::Add>({s.step, make<op::Remainder>({zero, s.step}, t, s.line)}, t, s.line);
  }
  Kernel& p_;
};

}  // namespace

bool is_whole(double x) { return x == std::floor(x) && std::fabs(x) <= 9007199254740992.0; }

void infer_types(Kernel& p) {
  bool floats = false;
  for (const Tensor& t : p.tensors) {
    if (t.dtype == Dtype::f64 && !t.real) p.real = Dtype::f64;
    floats |= is_float(t.dtype) && !t.real;
  }
  if (!floats) p.real = compute_dtype(default_dtype());
  for (Tensor& t : p.tensors)
    if (t.real) t.dtype = p.real;
  Finder(p).run();
  Checker(p).run();
}

}  // namespace mt::grid
