// grid_words.cpp -- builds the calls in a grid kernel: builtins, functions of math, helpers
#include <cmath>

#include "engine/compiler/kernel/grid_build.h"
#include "engine/core/dtype.h"
#include "engine/ops/ops.h"

namespace mt::grid {
namespace {

Item nothing() { return {Item::several, ""}; }
/// The functions of math that are operations of the same name, or have one of Lua's own.
int operation_of(std::string_view name) {
  if (name == "min") return op::id<op::LuaMin>;
  if (name == "max") return op::id<op::LuaMax>;
  return op_named(name);
}

}  // namespace

Item Builder::call(const Expr& e) {
  const Item f = item(*e.args[0]);
  if (f.kind == Item::word) return call_word(f.name, e);
  if (f.kind == Item::captured) {
    const CapturedName o = captured(f.path);
    if (o.kind == CapturedName::builtin) return call_builtin(o.text, e);
    if (o.kind == CapturedName::function) return call_helper(o, e);
    refuse(
        e.line,
        "'{}' is {} and cannot be called in a kernel; it may call math.*, mt.cdiv, its words and Lua functions",
        f.path.text(), o.text.empty() ? "a table" : o.text);
  }
  refuse(e.line,
         "only functions can be called: math.*, the words of kernels and Lua functions of numbers");
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
  Item results = nothing();
  call_function(resolver_.function(o.index), o.index, std::move(arguments), results.list, e.line);
  return results;
}

Item Builder::call_builtin(const std::string& name, const Expr& e) {
  const int line = e.line;
  if (name == "print") return print(e), nothing();
  std::vector<Value*> args;
  for (Item& it : items(e.args, e.args.size(), 1)) args.push_back(value_of(it, line));
  if (name == "deg" || name == "rad") {
    if (args.size() != 1) refuse(line, "math.{} takes 1 argument, got {}", name, args.size());
    const double factor = name == "deg" ? 180 / M_PI : M_PI / 180;
    return apply<op::Mul>({args[0], number(factor, line)}, line);
  }
  if (name == "cdiv") {
    if (args.size() != 2) refuse(line, "mt.cdiv takes 2 arguments, got {}", args.size());
    return apply<op::Ceil>({apply<op::Div>({args[0], args[1]}, line)}, line);
  }
  if (const int o = operation_of(name); o >= 0) {
    const size_t arity = size_t(op_row(o).inputs);
    const bool folds = name == "min" || name == "max";
    if (folds ? args.empty() : args.size() != arity)
      refuse(line, "math.{} takes {} argument{}, got {}", name, arity, arity == 1 ? "" : "s",
             args.size());
    GridValues operands;
    for (size_t k = 0; !folds && k < arity; ++k) operands.push_back(args[k]);
    if (!folds) return apply(o, operands, line);
    Value* v = args[0];
    for (size_t k = 1; k < args.size(); ++k) v = apply(o, {v, args[k]}, line);
    return v;
  }
  refuse(
      line,
      "'{}' is not supported in kernels; of Lua's functions they know math.* that give one number, and print",
      name);
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
  if (name == "atomic_add") return atomic_call(e);
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

Item Builder::atomic_call(const Expr& e) {
  if (e.args.size() < 3)
    refuse(e.line, "atomic_add takes a tensor, its indices and a number: atomic_add(t, i, j, v)");
  Item t = item(*e.args[1]);
  if (t.kind != Item::tensor)
    refuse(e.line, "the first argument of atomic_add is a tensor: atomic_add(t, i, v)");
  std::vector<Value*> rest;
  for (size_t k = 2; k < e.args.size(); ++k) rest.push_back(settled(value(*e.args[k]), e.line));
  const Tensor& x = p_.tensors[size_t(t.index)];
  const int indices = t.prefix.count + int(rest.size()) - 1;
  if (indices != x.ndim)
    refuse(e.line, "atomic_add: '{}' has {} dimension{}, got {} ind{}", x.name, x.ndim,
           x.ndim == 1 ? "" : "s", indices, indices == 1 ? "ex" : "ices");
  for (size_t k = 0; k + 1 < rest.size(); ++k) t.prefix.push_back(rest[k]);
  p_.tensors[size_t(t.index)].stored = true;
  Value* const place = access(t, e.line, "add to");
  Statement* const s = emit(Statement::atomic_add, e.line);
  s->place = place, s->value = rest.back();
  s->variable = fresh("what atomic_add gives", e.line);
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
