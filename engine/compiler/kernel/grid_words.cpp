// grid_words.cpp -- builds the calls in a grid kernel: builtins, functions of math, helpers
#include <algorithm>
#include <cmath>

#include "engine/compiler/kernel/grid_build.h"
#include "engine/compiler/program/builder.h"
#include "engine/core/dtype.h"
#include "engine/ops/ops.h"

namespace mt::grid {
namespace {

Item nothing() { return {Item::several, ""}; }

/// A function of Lua or mt whose operation has another name, or none; `folds`: it takes any number of arguments;
/// `instead`: it is refused.
struct Known {
  std::string_view name;
  int op = -1;
  bool folds = false;
  const char* instead = nullptr;
};
constexpr const char* kRandom =
    "; random numbers are drawn before: give the kernel a tensor, as mt.rand(n)";
constexpr Known kKnown[] = {
    {"math.min", op::id<op::LuaMin>, true},
    {"math.max", op::id<op::LuaMax>, true},
    {"bit.band", op::id<op::BitwiseAnd>, true},
    {"bit.bor", op::id<op::BitwiseOr>, true},
    {"bit.bxor", op::id<op::BitwiseXor>, true},
    {"bit.tohex", -1, false, "; a kernel has no strings"},
    {"math.frexp", -1, false, "; math.floor(math.log(x, 2)) is the exponent"},
    {"math.random", -1, false, kRandom},
    {"math.randomseed", -1, false, kRandom},
    {"mt.softplus", -1, false, "; mt.logaddexp(x, 0) is the same"},
};
Known known_function(std::string_view name) {
  for (const Known& k : kKnown)
    if (k.name == name) return k;
  return {name, op_named(name.substr(name.find('.') + 1))};
}
/// "1 argument", "2 to 3 arguments".
std::string counted(size_t least, size_t most) {
  return fmt::format("{}{} argument{}", least, most > least ? fmt::format(" to {}", most) : "",
                     most == 1 ? "" : "s");
}

}  // namespace

Item Builder::call(const Expr& e) {
  const Item f = item(*e.args[0]);
  if (f.kind == Item::word) return call_word(f.name, e);
  if (f.kind == Item::captured) {
    const CapturedName o = captured(f.path);
    if (o.kind == CapturedName::builtin) return call_builtin(o, e);
    if (o.kind == CapturedName::function) return call_helper(o, e);
    refuse(e.line, "'{}' is {} and cannot be called; kernels call {}", f.path.text(),
           o.text.empty() ? "a table" : o.text, kCallable);
  }
  refuse(e.line, "{} is called, but is not a function; kernels call {}", described(p_, f),
         kCallable);
}

Item Builder::call_helper(const CapturedName& o, const Expr& e) {
  std::vector<Item> arguments;
  for (size_t k = 1; k < e.args.size(); ++k) {
    Item it = item(*e.args[k]);
    const bool last = k + 1 == e.args.size() && !e.args[k]->single;
    if (it.kind == Item::several) {
      if (it.list.empty()) refuse(e.line, "an argument is a call that gives no value");
      for (size_t i = 0; i < (last ? it.list.size() : 1); ++i) arguments.push_back(it.list[i]);
      continue;
    }
    if (it.kind == Item::nil)
      refuse(e.line, "a kernel cannot use nil as a value; use a number or a boolean");
    if (it.kind == Item::tensor && it.prefix.count == p_.tensors[size_t(it.index)].ndim)
      it = value_of(it, e.line);
    if (it.kind == Item::value) it.number = settled(it.number, e.line);
    for (Value*& v : it.prefix) v = settled(v, e.line);
    arguments.push_back(it);
  }
  return call_function(o.index, std::move(arguments), e.line, false);
}

/// A function of Lua or mt: an operation, or a Lua function of the library (bindings/lua/compile/lua_functions.lua).
Item Builder::call_builtin(const CapturedName& o, const Expr& e) {
  const int line = e.line;
  const std::string& name = o.text;
  if (name == "print") return print(e), nothing();
  const Known known = known_function(name);
  const OpRow* const row = known.op >= 0 ? &op_row(known.op) : nullptr;
  const ast::Function* const f = o.index >= 0 ? &resolver_.function(o.index) : nullptr;
  const bool lacks =  // it has parameters, and no formula of operations
      row && row->params > 0 && !ir::formula_of(known.op, nullptr, (1u << row->params) - 1);
  if ((!row && !f) || lacks || known.instead)
    refuse(line, "kernels do not have {}{}", name, known.instead ? known.instead : "");
  std::vector<Value*> args;
  for (Item& it : items(e.args, e.args.size(), 1)) args.push_back(value_of(it, line));
  if (known.folds && args.size() != 2) {
    if (args.empty()) refuse(line, "{} takes at least 1 argument, got 0", name);
    if (f && args.size() == 1)  // of one number it is bit.tobit
      args.push_back(name == "bit.bxor" ? number(0, line) : args[0] = settled(args[0], line));
    Value* v = args[0];
    for (size_t k = 1; k < args.size(); ++k) {
      if (f)
        v = value_of(call_function(o.index, {settled(v, line), settled(args[k], line)}, line, true),
                     line);
      else v = apply(known.op, {v, args[k]}, line);
    }
    return v;
  }
  size_t least = row ? size_t(row->inputs) : size_t(f->parameters), most = least;
  for (int k = 0; row && k < row->params; ++k) ++most, least += row->info->params[k].required;
  if (f && (!row || known.folds || args.size() == size_t(f->parameters))) {
    if (args.size() == size_t(f->parameters)) {
      std::vector<Item> settled_args;
      for (Value* v : args) settled_args.emplace_back(settled(v, line));
      return call_function(o.index, std::move(settled_args), line, true);
    }
  } else if (args.size() >= least && args.size() <= most) {
    return call_operation(known.op, args, line);
  }
  if (f && row) most = std::max(most, size_t(f->parameters));
  refuse(line, "{} takes {}, got {}", name, counted(least, most), args.size());
}

/// An operation of its operands, then its parameters.
Item Builder::call_operation(int op, const std::vector<Value*>& args, int line) {
  const OpRow& row = op_row(op);
  const bool swaps = op == op::id<op::Gt> || op == op::id<op::Ge>;
  if (swaps)
    return apply(op == op::id<op::Gt> ? op::id<op::Lt> : op::id<op::Le>, {args[1], args[0]}, line);
  if (op == op::id<op::BitwiseNot>) return apply<op::BitwiseXor>({args[0], number(-1, line)}, line);
  const auto literal = [&](size_t k) {
    return args[k]->kind == Value::number && is_whole(args[k]->value);
  };
  if (op == op::id<op::BitwiseAnd> && literal(0) && literal(1))  // machine code shifts by literals
    return number(double(int64_t(args[0]->value) & int64_t(args[1]->value)), line);
  GridValues operands;
  for (int k = 0; k < row.inputs + row.params; ++k)
    operands.push_back(size_t(k) < args.size()
                           ? args[size_t(k)]
                           : number(row.info->params[k - row.inputs].value, line));
  return apply(op, operands, line);
}

void Builder::print(const Expr& e) {
  Body items;
  for (size_t k = 1; k < e.args.size(); ++k) {
    const Item it = item(*e.args[k]);
    Statement* const s = p_.add({.kind = Statement::item, .line = at(e.line)});
    if (it.kind == Item::text) s->text = p_.texts.emplace_back(it.name).c_str();
    else s->value = value_of(it, e.line);
    items.append(s);
  }
  emit(Statement::print, e.line)->body = items;
}

// ---- the builtins of kernels ------------------------------------------------------------------------

int64_t Builder::constant(const Expr& e, const char* what) {
  const Value* const v = value(e);
  if (v->kind == Value::number && v->value == std::floor(v->value) && std::fabs(v->value) < 1e15)
    return int64_t(v->value);
  if (v->kind == Value::scalar && p_.scalars[size_t(v->index)].kind == LaunchScalar::captured) {
    const int index = p_.scalars[size_t(v->index)].index;
    const double x = p_.numbers.emplace_back(index, resolver_.number(index)).second;
    if (x == std::floor(x)) return int64_t(x);
  }
  refuse(e.line, "{} must be a whole literal or a captured whole number", what);
}

Item Builder::call_word(const std::string& name, const Expr& e) {
  if (name == "grid") return grid_call(e);
  if (name == "shared") return shared_call(e);
  if (name.starts_with("atomic")) return atomic_call(name, e);
  if (name == "barrier" || name == "lane") {
    if (e.args.size() > 1) refuse(e.line, "{}() takes no arguments", name);
    if (name == "lane") return lane(e.line);
    emit(Statement::barrier, e.line);
    return nothing();
  }
  if (name == "constant") {
    if (e.args.size() != 2) refuse(e.line, "constant(t) takes one tensor");
    Item it = item(*e.args[1]);
    if (it.kind != Item::tensor || it.prefix.count > 0)
      refuse(e.line, "constant(t) takes a tensor that was captured or passed");
    p_.tensors[size_t(it.index)].constant = true;
    return it;
  }
  if (name.find("idx") != name.npos || name.find("dim") != name.npos)
    refuse(e.line, "'{}' is not a function; write {}.x", name, name);
  return warp_call(name, e);
}

Item Builder::grid_call(const Expr& e) {
  const int64_t n =
      e.args.size() == 2 ? constant(*e.args[1], "the number of dimensions of grid(n)") : 0;
  if (n < 1 || n > 3) refuse(e.line, "grid takes the number of dimensions, grid(1) to grid(3)");
  Item all = nothing();
  for (int d = 0; d < n; ++d) all.list.push_back(make(Value::place, d, e.line));
  return all;
}

Item Builder::shared_call(const Expr& e) {
  Tensor t;
  t.name = "shared", t.shared = true, t.real = true;
  size_t count = e.args.size();
  if (count > 1 && e.args.back()->kind == Expr::string) {
    --count;
    t.real = false;
    bool known = false;
    for (const Dtype d : {Dtype::f32, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::b8})
      if (dtype_name(d) == e.args.back()->text) t.dtype = d, known = true;
    if (!known)
      refuse(
          e.line,
          "shared: '{}' is not a dtype for shared memory; use float32, float64, int32, int64, uint8 or bool",
          e.args.back()->text);
  }
  if (count < 2 || count > 4)
    refuse(e.line,
           "shared takes one to three sizes and perhaps a dtype: shared(16, 16, 'float32')");
  double cells = 1;
  for (size_t k = 1; k < count; ++k) {
    t.size[k - 1] = constant(*e.args[k], "a size of shared memory");
    if (t.size[k - 1] < 1)
      refuse(e.line, "a size of shared memory must be 1 or more, got {}", t.size[k - 1]);
    cells *= double(t.size[k - 1]);
  }
  if (cells > double(kGridShared))
    refuse(e.line, "shared: {:.0f} elements do not fit into 48 KiB of shared memory", cells);
  t.ndim = int(count) - 1, t.line = at(e.line);
  if (out_ != &p_.body && !(frame_->scope && out_ == &frame_->scope->body))
    refuse(e.line,
           "shared(..) must be called at the top level of a kernel, outside of if and loops");
  p_.tensors.push_back(t);
  return {Item::tensor, int(p_.tensors.size()) - 1};
}

constexpr std::pair<const char*, GridUpdate> kAtomics[] = {
    {"atomic_add", GridUpdate::add},
    {"atomic_min", GridUpdate::min},
    {"atomic_max", GridUpdate::max},
    {"atomic_exchange", GridUpdate::exchange},
    {"atomic_cas", GridUpdate::compare_exchange}};

Item Builder::atomic_call(const std::string& name, const Expr& e) {
  const GridUpdate update = std::ranges::find(kAtomics, name, [](const auto& a) {
                              return std::string_view(a.first);
                            })->second;
  const bool compares = update == GridUpdate::compare_exchange;
  if (e.args.size() < 3)
    refuse(e.line, "{0} takes a tensor, its indices and {1}: {0}(t, i, j, {2})", name,
           compares ? "two numbers" : "a number", compares ? "expected, v" : "v");
  Item t = item(*e.args[1]);
  if (t.kind != Item::tensor)
    refuse(e.line, "the first argument of {0} is a tensor: {0}(t, i, {1})", name,
           compares ? "expected, v" : "v");
  std::vector<Value*> rest;
  for (size_t k = 2; k < e.args.size(); ++k) rest.push_back(settled(value(*e.args[k]), e.line));
  const Tensor& x = p_.tensors[size_t(t.index)];
  const int indices = t.prefix.count + int(rest.size()) - 1 - compares;
  if (indices != x.ndim)
    refuse(e.line, "{}: '{}' has {} dimension{}, got {} ind{}", name, x.name, x.ndim,
           x.ndim == 1 ? "" : "s", indices, indices == 1 ? "ex" : "ices");
  for (int k = t.prefix.count, n = 0; k < x.ndim; ++k) t.prefix.push_back(rest[size_t(n++)]);
  p_.tensors[size_t(t.index)].stored = true;
  Value* const place = access(t, e.line, "update");
  Statement* const s = emit(Statement::atomic_add, e.line);
  s->update = update, s->place = place, s->value = rest.back();
  if (compares) s->last = rest[rest.size() - 2];
  s->variable = fresh("what " + name + " gives", e.line);
  Item all = nothing();
  all.list.push_back(make(Value::variable, s->variable, e.line));
  return all;
}

Item Builder::warp_call(const std::string& name, const Expr& e) {
  const bool shuffles = name[0] == 's';
  if (e.args.size() != (shuffles ? 3 : 2))
    refuse(e.line, "{}",
           shuffles ? fmt::format("{}(v, n) takes a number and {}", name,
                                  name == "shuffle_xor" ? "a mask" : "a distance")
                    : fmt::format("{}(v) takes one number", name));
  Value* const v = spilled(value(*e.args[1]), e.line);
  Value* const by = shuffles ? spilled(value(*e.args[2]), e.line) : number(0, e.line);
  Statement* const s = emit(Statement::warp, e.line);
  s->what = name == "warp_sum"       ? GridWarp::sum
            : name == "warp_max"     ? GridWarp::max
            : name == "warp_min"     ? GridWarp::min
            : name == "shuffle_down" ? GridWarp::shuffle_down
                                     : GridWarp::shuffle_xor;
  s->value = v, s->step = by;
  s->variable = fresh(name, e.line);
  return make(Value::variable, s->variable, e.line);
}

/// (x - 1 + block_dim.x * (y - 1 + block_dim.y * (z - 1))) % 32 + 1 for the position of the thread.
Value* Builder::lane(int line) {
  const auto dim = [&](int d) {
    return launch_scalar({LaunchScalar::block_dim, 0, d, GridType::integer}, line);
  };
  const auto before = [&](int d) {
    return apply<op::Sub>({make(Value::thread, d, line), number(1, line)}, line);
  };
  Value* v = before(2);
  for (int d = 1; d >= 0; --d)
    v = apply<op::Add>({before(d), apply<op::Mul>({dim(d), v}, line)}, line);
  return apply<op::Add>({apply<op::Remainder>({v, number(32, line)}, line), number(1, line)}, line);
}

}  // namespace mt::grid
