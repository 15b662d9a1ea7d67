// grid_build.cpp -- builds the statements and calls of a grid kernel, with its helpers inlined
#include <algorithm>

#include "engine/compiler/kernel/grid_expressions.h"
#include "engine/compiler/program/builder.h"
#include "engine/core/dtype.h"
#include "engine/ops/ops.h"

namespace mt::grid {

void fail_at(const Kernel& p, int line, const std::string& text) {
  const size_t function = size_t(line >> 20);
  fail("kernel: {}:{}: {}", function < p.chunks.size() ? p.chunks[function] : "", line & 0xfffff,
       text);
}

std::string Path::text() const {
  std::string s = root;
  for (const std::string& key : keys) s += key;
  return s;
}

namespace {

// ---- calls: words of kernels, functions of math, helpers -------------------------------------------

/// What kernels can call, for messages.
constexpr const char* kCallable =
    "math.*, bit.*, mt's functions of one element such as mt.erf, their own words, and Lua functions of numbers";

Item nothing() { return {Item::several, ""}; }

/// A function of Lua or mt and its operation. `folds`: it takes any number of arguments; `instead`: it is refused with
/// this hint.
struct Builtin {
  std::string_view name;
  int op = -1;
  bool folds = false;
  const char* instead = nullptr;
};
constexpr const char* kRandom =
    "; random numbers are drawn before: give the kernel a tensor, as mt.rand(n)";
/// Those whose operation has another name, or none.
constexpr Builtin kBuiltins[] = {
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
Builtin builtin_named(std::string_view name) {
  for (const Builtin& b : kBuiltins)
    if (b.name == name) return b;
  return {name, op_named(name.substr(name.find('.') + 1))};
}
/// "1 argument", "2 to 3 arguments".
std::string count_of_arguments(size_t least, size_t most) {
  return fmt::format("{}{} argument{}", least, most > least ? fmt::format(" to {}", most) : "",
                     most == 1 ? "" : "s");
}

}  // namespace

/// Builds calls. Builder inlines helpers, because that needs statements.
class CallBuilder : protected ExpressionBuilder {
 protected:
  using ExpressionBuilder::ExpressionBuilder;
  virtual Item call_function(int index, std::vector<Item> arguments, int line, bool of_library) = 0;

  Item call(const Expr& e) override {
    const Item f = item(*e.args[0]);
    if (f.kind == Item::word) {
      const Word& called = *word(f.name);
      if (!called.call) refuse(e.line, "'{}' is not a function; write {}.x", f.name, f.name);
      return (this->*called.call)(called, e);
    }
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

  Item call_helper(const CapturedName& o, const Expr& e) {
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
  Item call_builtin(const CapturedName& o, const Expr& e) {
    const int line = e.line;
    const std::string& name = o.text;
    if (name == "print") return print(e), nothing();
    const Builtin known = builtin_named(name);
    const OpRow* const row = known.op >= 0 ? &op_row(known.op) : nullptr;
    const ast::Function* const f = o.index >= 0 ? &resolver_.function(o.index) : nullptr;
    const bool opaque =  // it has parameters, and no formula of operations
        row && row->params > 0 && !ir::formula_of(known.op, nullptr, (1u << row->params) - 1);
    if ((!row && !f) || opaque || known.instead)
      refuse(line, "kernels do not have {}{}", name, known.instead ? known.instead : "");
    std::vector<Value*> args;
    for (Item& it : items(e.args, e.args.size(), 1)) args.push_back(value_of(it, line));
    if (known.folds && args.size() != 2) {
      if (args.empty()) refuse(line, "{} takes at least 1 argument, got 0", name);
      if (f && args.size() == 1)  // bit.band(x), bit.bor(x) and bit.bxor(x) are bit.tobit(x)
        args.push_back(name == "bit.bxor" ? number(0, line) : args[0] = settled(args[0], line));
      Value* v = args[0];
      for (size_t k = 1; k < args.size(); ++k) {
        if (f)
          v = value_of(
              call_function(o.index, {settled(v, line), settled(args[k], line)}, line, true), line);
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
    refuse(line, "{} takes {}, got {}", name, count_of_arguments(least, most), args.size());
  }

  /// An operation of its operands, then its parameters.
  Item call_operation(int op, const std::vector<Value*>& args, int line) {
    const OpRow& row = op_row(op);
    const bool swaps = op::is<op::Gt, op::Ge>(op);
    if (swaps)
      return apply(op == op::id<op::Gt> ? op::id<op::Lt> : op::id<op::Le>, {args[1], args[0]},
                   line);
    if (op == op::id<op::BitwiseNot>)
      return apply<op::BitwiseXor>({args[0], number(-1, line)}, line);
    const auto literal = [&](size_t k) {
      return args[k]->kind == Value::number && is_whole(args[k]->value);
    };
    if (op == op::id<op::BitwiseAnd> && literal(0) &&
        literal(1))  // machine code shifts by literals
      return number(double(int64_t(args[0]->value) & int64_t(args[1]->value)), line);
    GridValues operands;
    for (int k = 0; k < row.inputs + row.params; ++k)
      operands.push_back(size_t(k) < args.size()
                             ? args[size_t(k)]
                             : number(row.info->params[k - row.inputs].value, line));
    return apply(op, operands, line);
  }

  void print(const Expr& e) {
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

  // ---- the words of kernels --------------------------------------------------------------------

  const Word* word(std::string_view name) const override {
    static constexpr Word words[] = {
        {"grid", &CallBuilder::grid_call},
        {"thread_idx", nullptr, Value::thread},
        {"block_idx", nullptr, Value::block},
        {"block_dim", nullptr, LaunchScalar::block_dim},
        {"grid_dim", nullptr, LaunchScalar::grid_dim},
        {"shared", &CallBuilder::array_call},
        {"private", &CallBuilder::array_call, true},
        {"constant", &CallBuilder::constant_call},
        {"barrier", &CallBuilder::barrier_call},
        {"lane", &CallBuilder::lane_call},
        {"atomic_add", &CallBuilder::atomic_call, int(GridUpdate::add)},
        {"atomic_min", &CallBuilder::atomic_call, int(GridUpdate::min)},
        {"atomic_max", &CallBuilder::atomic_call, int(GridUpdate::max)},
        {"atomic_exchange", &CallBuilder::atomic_call, int(GridUpdate::exchange)},
        {"atomic_cas", &CallBuilder::atomic_call, int(GridUpdate::compare_exchange)},
        {"warp_sum", &CallBuilder::warp_call, int(GridWarp::sum)},
        {"warp_max", &CallBuilder::warp_call, int(GridWarp::max)},
        {"warp_min", &CallBuilder::warp_call, int(GridWarp::min)},
        {"shuffle_down", &CallBuilder::warp_call, int(GridWarp::shuffle_down)},
        {"shuffle_xor", &CallBuilder::warp_call, int(GridWarp::shuffle_xor)}};
    const auto found = std::ranges::find(words, name, &Word::name);
    return found == std::end(words) ? nullptr : found;
  }

  Item barrier_call(const Word&, const Expr& e) {
    if (e.args.size() > 1) refuse(e.line, "barrier() takes no arguments");
    emit(Statement::barrier, e.line);
    return nothing();
  }

  Item constant_call(const Word&, const Expr& e) {
    if (e.args.size() != 2) refuse(e.line, "constant(t) takes one tensor");
    Item it = item(*e.args[1]);
    if (it.kind != Item::tensor || it.prefix.count > 0)
      refuse(e.line, "constant(t) takes a tensor that was captured or passed");
    p_.tensors[size_t(it.index)].constant = true;
    return it;
  }

  Item grid_call(const Word&, const Expr& e) {
    const int64_t n =
        e.args.size() == 2 ? constant(*e.args[1], "the number of dimensions of grid(n)") : 0;
    if (n < 1 || n > 3) refuse(e.line, "grid takes the number of dimensions, grid(1) to grid(3)");
    Item all = nothing();
    for (int d = 0; d < n; ++d) all.list.push_back(make(Value::place, d, e.line));
    return all;
  }

  Item array_call(const Word& word, const Expr& e) {
    Tensor t;
    t.name = word.name, t.shared = t.real = true, t.is_private = word.what;
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
            "{0}: '{1}' is not a dtype for {0} memory; use float32, float64, int32, int64, uint8 or bool",
            word.name, e.args.back()->text);
    }
    if (count < 2 || count > 4)
      refuse(e.line, "{0} takes one to three sizes and perhaps a dtype: {0}(16, 16, 'float32')",
             word.name);
    double cells = 1;
    for (size_t k = 1; k < count; ++k) {
      t.size[k - 1] =
          constant(*e.args[k], word.what ? "a size of private memory" : "a size of shared memory");
      if (t.size[k - 1] < 1)
        refuse(e.line, "a size of {} memory must be 1 or more, got {}", word.name, t.size[k - 1]);
      cells *= double(t.size[k - 1]);
    }
    if (cells > double(kGridShared))
      refuse(e.line, "{0}: {1:.0f} elements do not fit into {2} KiB of {0} memory", word.name,
             cells, (t.is_private ? kGridPrivate : kGridShared) >> 10);
    t.ndim = int(count) - 1, t.line = at(e.line);
    if (!t.is_private && out_ != &p_.body && !(frame_->scope && out_ == &frame_->scope->body))
      refuse(e.line,
             "shared(..) must be called at the top level of a kernel, outside of if and loops");
    p_.tensors.push_back(t);
    return {Item::tensor, int(p_.tensors.size()) - 1};
  }

  Item atomic_call(const Word& word, const Expr& e) {
    const std::string_view name = word.name;
    const auto update = GridUpdate(word.what);
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
    if (x.is_private)
      refuse(e.line, "{}: '{}' is private, and no other thread writes to it; assign to its element",
             name, x.name);
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
    s->variable = fresh(fmt::format("the result of {}", name), e.line);
    Item all = nothing();
    all.list.push_back(make(Value::variable, s->variable, e.line));
    return all;
  }

  Item warp_call(const Word& word, const Expr& e) {
    const std::string_view name = word.name;
    const auto what = GridWarp(word.what);
    const bool shuffles = what >= GridWarp::shuffle_down;
    if (e.args.size() != (shuffles ? 3 : 2))
      refuse(e.line, "{}",
             shuffles ? fmt::format("{}(v, n) takes a number and {}", name,
                                    what == GridWarp::shuffle_xor ? "a mask" : "a distance")
                      : fmt::format("{}(v) takes one number", name));
    Value* const v = spilled(value(*e.args[1]), e.line);
    Value* const by = shuffles ? spilled(value(*e.args[2]), e.line) : number(0, e.line);
    Statement* const s = emit(Statement::warp, e.line);
    s->what = what, s->value = v, s->step = by;
    s->variable = fresh(std::string(name), e.line);
    return make(Value::variable, s->variable, e.line);
  }

  /// (x - 1 + block_dim.x * (y - 1 + block_dim.y * (z - 1))) % 32 + 1 for the position of the thread.
  Item lane_call(const Word&, const Expr& e) {
    const int line = e.line;
    if (e.args.size() > 1) refuse(line, "lane() takes no arguments");
    const auto dim = [&](int d) {
      return launch_scalar({LaunchScalar::block_dim, 0, d, GridType::integer}, line);
    };
    const auto before = [&](int d) {
      return apply<op::Sub>({make(Value::thread, d, line), number(1, line)}, line);
    };
    Value* v = before(2);
    for (int d = 1; d >= 0; --d)
      v = apply<op::Add>({before(d), apply<op::Mul>({dim(d), v}, line)}, line);
    return apply<op::Add>({apply<op::Remainder>({v, number(32, line)}, line), number(1, line)},
                          line);
  }
};

namespace {

// ---- statements ------------------------------------------------------------------------------------

/// Whether a function returns before its last statement.
bool returns_early(const ast::Block& block, bool outermost) {
  for (size_t k = 0; k < block.size(); ++k) {
    const ast::Statement& s = *block[k];
    if (s.kind == ast::Statement::return_values && !(outermost && k + 1 == block.size()))
      return true;
    for (const ast::Block& b : s.blocks)
      if (returns_early(b, outermost && s.kind == ast::Statement::block && k + 1 == block.size()))
        return true;
  }
  return false;
}
/// What an assignment sets: variables, and whether it sets elements of tensors.
struct Targets {
  std::vector<int> variables;
  bool elements = false;
  /// Whether an assignment to them can change a value.
  bool change(const Value& v) const {
    if (v.kind == Value::load && elements) return true;
    if (v.kind == Value::variable && std::ranges::count(variables, v.index)) return true;
    return std::any_of(v.args.begin(), v.args.end(),
                       [&](const Value* arg) { return change(*arg); });
  }
};

class Builder : CallBuilder {
 public:
  Builder(Kernel& p, CaptureResolver& o) : CallBuilder(p, o) {}
  void run(const std::vector<CapturedName>& arguments) {
    const ast::Function& f = resolver_.function(0);
    p_.name = f.name;
    p_.chunks = {f.chunk};
    Frame frame{&f, 0, std::vector<Item>(f.variables.size())};
    frame_ = &frame;
    out_ = &p_.body;
    for (size_t k = 0; k < arguments.size(); ++k) {
      const CapturedName& a = arguments[k];
      Item& it = frame.locals[k];
      if (a.kind == CapturedName::tensor) {
        it = {Item::tensor, int(p_.tensors.size())};
        p_.tensors.push_back({f.variables[k], a.dtype, a.ndim});
        continue;
      }
      it = launch_scalar({LaunchScalar::argument, a.index, 0, a.type()}, f.line);
      if (f.assigned[k]) it = spilled(it.number, f.line);
    }
    body(frame, f.line);
  }

 private:
  /// Builds the statements of a function; a return before the last statement leaves a scope.
  void body(Frame& frame, int line) {
    if (returns_early(frame.function->body, true)) {
      frame.scope = emit(Statement::scope, line);
      out_ = &frame.scope->body;
    }
    frame_ = &frame;
    statements(frame.function->body);
  }

  /// Inlines a call; returns its results.
  Item call_function(int index, std::vector<Item> arguments, int line, bool of_library) override {
    const ast::Function& f = resolver_.function(index);
    if (++depth_ > 30)
      refuse(line, "'{}' calls itself; kernels have no recursion, use a loop", f.name);
    if (int(arguments.size()) != f.parameters)
      refuse(line, "'{}' takes {} argument{}, got {}", f.name, f.parameters,
             f.parameters == 1 ? "" : "s", arguments.size());
    if (p_.chunks.size() <= size_t(index)) p_.chunks.resize(size_t(index) + 1);
    p_.chunks[size_t(index)] = f.chunk;
    Frame frame{&f, index, std::vector<Item>(f.variables.size()), frame_, out_};
    if (of_library || frame_->site) frame.site = at(line);
    for (size_t k = 0; k < arguments.size(); ++k) {
      Item& it = arguments[k];
      if (it.kind == Item::value && f.assigned[k]) it.number = spilled(it.number, line);
      frame.locals[k] = it;
    }
    Frame* const caller = frame_;
    Body* const before = out_;
    const std::vector<Statement*> loops = std::move(loops_);
    loops_.clear();
    body(frame, line);
    frame_ = caller, out_ = before, loops_ = loops;
    Item results{Item::several, ""};
    for (const int v : frame.results) results.list.push_back(make(Value::variable, v, line));
    --depth_;
    return results;
  }

  void return_values(const ast::Statement& s, bool last) {
    Frame& f = *frame_;
    if (!f.caller && !s.right.empty())
      refuse(s.line, "a kernel returns nothing; it writes into a tensor that it was given");
    std::vector<Item> values = items(s.right, s.right.size());
    if (f.returned && values.size() != f.results.size())
      refuse(s.line, "'{}' returns {} value{} here and {} elsewhere", f.function->name,
             values.size(), values.size() == 1 ? "" : "s", f.results.size());
    for (size_t k = 0; k < values.size(); ++k) {
      Value* const v = value_of(values[k], s.line);
      const bool only = last && !f.scope && v->kind == Value::variable && is_fixed(*v);
      if (!f.returned) {
        f.results.push_back(only ? v->index : fresh("result of " + f.function->name, s.line));
        if (!only) p_.variables.back().home = f.home, p_.variables.back().is_result = true;
      }
      if (!only) store(f.results[k], v, s.line);
    }
    f.returned = true;
    if (f.scope && !last) emit(Statement::leave, s.line)->target = f.scope;
  }

  // ---- statements ------------------------------------------------------------------------------

  /// Whether a value can be read again at no cost and never changes, so that it can replace a local.
  bool is_fixed(const Value& v) const {
    return v.kind < Value::operation &&
           (v.kind != Value::variable || p_.variables[size_t(v.index)].is_result);
  }

  void statements(const ast::Block& block) {
    for (size_t k = 0; k < block.size(); ++k)
      statement(*block[k], k + 1 == block.size() && &block == &frame_->function->body);
  }

  void statement(const ast::Statement& s, bool last) {
    using S = ast::Statement;
    switch (s.kind) {
      case S::local: return local(s);
      case S::assign: return assign(s);
      case S::call: return void(item(*s.left[0]));
      case S::block: return statements(s.blocks[0]);
      case S::while_loop:
      case S::repeat: return loop(s);
      case S::branch: return branch(s, 0);
      case S::count: return count(s);
      case S::return_values: return return_values(s, last);
      case S::break_loop:
        if (loops_.empty()) refuse(s.line, "break outside of a loop");
        emit(Statement::leave, s.line)->target = loops_.back();
    }
  }

  void bind(int local, Item it, int line) {
    Item& to = frame_->locals[size_t(local)];
    const bool again = frame_->function->assigned[size_t(local)];
    const std::string& name = frame_->function->variables[size_t(local)];
    if (it.kind == Item::captured) {
      Item found = resolve(it.path, line);
      if (found.kind != Item::captured || again) it = found;
    }
    if (it.kind == Item::tensor && again && it.prefix.count < p_.tensors[size_t(it.index)].ndim)
      refuse(line, "'{}' is a tensor here and is set to something else below; use another local",
             name);
    if (it.kind == Item::nil || it.kind == Item::value || again) {
      if (it.kind == Item::value && !again && is_fixed(*it.number)) return void(to = it);
      const int v = fresh(name, line);
      if (it.kind != Item::nil) store(v, value_of(it, line), line);
      else if (!again) p_.variables.back().type = GridType::none;
      to = make(Value::variable, v, line);
      return;
    }
    if (it.kind == Item::text)
      refuse(line, "kernels cannot calculate with strings, which are for print and for dtypes");
    if (it.kind == Item::tensor)
      if (Tensor& t = p_.tensors[size_t(it.index)]; t.name == "shared" || t.name == "private")
        t.name = name;
    for (Value*& v : it.prefix) v = is_fixed(*v) ? v : spilled(v, line);
    to = it;
  }

  void local(const ast::Statement& s) {
    std::vector<Item> values = items(s.right, s.variables.size());
    if (values.size() < s.variables.size() && !s.right.empty() &&
        s.right.back()->kind == Expr::call && s.right.size() == 1) {
      p_.misfit.values = int(values.size());
      refuse(s.line, "{} names, but the call gives {} value{}", s.variables.size(), values.size(),
             values.size() == 1 ? "" : "s");
    }
    values.resize(s.variables.size());
    for (size_t k = 0; k < s.variables.size(); ++k) {
      const int local = s.variables[k];
      if (values[k].kind == Item::nil && !s.right.empty() && k < s.right.size())
        refuse(s.line, "a kernel cannot use nil as a value; local {} alone declares it",
               frame_->function->variables[size_t(local)]);
      bind(local, values[k], s.line);
    }
  }

  /// As in LuaJIT, the indices of the targets are computed first, then the values; then these are stored.
  void assign(const ast::Statement& s) {
    const bool several = s.left.size() > 1;
    Targets targets;
    for (const ast::Expr& target : s.left)
      if (target->kind != Expr::local) targets.elements = true;
      else if (const Item& it = frame_->locals[size_t(target->variable)]; it.number)
        targets.variables.push_back(it.number->index);
    std::vector<Item> places;
    for (const ast::Expr& target : s.left) {
      places.push_back(target->kind == Expr::local ? Item() : item(*target));
      for (Value*& v : places.back().prefix)
        if (several && targets.change(*v)) v = spilled(v, s.line);
    }
    Statement* const mark = out_->last;
    std::vector<Item> values = items(s.right, s.left.size());
    for (Item& place : places)
      for (Value*& v : place.prefix) keep_before(v, mark, s.line);
    if (values.size() < s.left.size())
      refuse(s.line, "{} targets, but {} value{}", s.left.size(), values.size(),
             values.size() == 1 ? "" : "s");
    for (size_t k = 0; k + 1 < s.left.size(); ++k)  // the last one is stored first
      if (Value* const v = value_of(values[k], s.line); targets.change(*v))
        values[k] = spilled(v, s.line);
    for (size_t k = s.left.size(); k-- > 0;)  // in LuaJIT's order
      assign_one(*s.left[k], places[k], values[k]);
  }

  void assign_one(const Expr& target, Item to, Item it) {
    const int line = target.line;
    if (target.kind == Expr::local) {
      const Item& local = frame_->locals[size_t(target.variable)];
      if (local.kind != Item::value || local.number->kind != Value::variable)
        refuse(line, "'{}' is a tensor or function and cannot be set; use another local",
               target.text);
      return store(local.number->index, value_of(it, line), line);
    }
    Value* const v = value_of(it, line);
    if (to.kind == Item::captured)
      refuse(
          line,
          "'{}' is defined outside of the kernel and cannot be assigned; only elements of tensors can",
          to.path.text());
    if (to.kind != Item::tensor) refuse(line, "only locals and elements of tensors can be set");
    Value* const place = access(to, line, "write to");
    p_.tensors[size_t(to.index)].stored = true;
    Statement* const s = emit(Statement::store, line);
    s->place = place, s->value = v;
  }

  void branch(const ast::Statement& s, size_t arm) {
    const bool only = arm + 1 == s.blocks.size();
    Body* const before = out_;
    Statement* const b = enter(*s.right[arm], only);
    statements(s.blocks[arm]);
    out_ = &b->other;
    if (arm + 1 < s.right.size()) branch(s, arm + 1);
    else if (!only) statements(s.blocks[arm + 1]);
    out_ = before;
  }
  /// Begins a branch. `splits`: `a and b` may be a branch in another one, where b must not be computed if a is false.
  Statement* enter(const Expr& condition, bool splits) {
    if (splits && condition.kind == Expr::logical_and && is_heavy(*condition.args[1])) {
      enter(*condition.args[0], true);
      return enter(*condition.args[1], true);
    }
    Value* const v = value(condition);
    Statement* const b = emit(Statement::branch, condition.line);
    b->value = v;
    into(b->body);
    return b;
  }

  /// while and repeat: a loop with a statement that leaves it, depending on the condition.
  void loop(const ast::Statement& s) {
    Statement* const l = emit(Statement::loop, s.line);
    Body* const before = into(l->body);
    const bool first = s.kind == ast::Statement::while_loop;
    loops_.push_back(l);
    if (!first) statements(s.blocks[0]);
    leave_if(*s.right[0], !first, l, s.line);
    if (first) statements(s.blocks[0]);
    loops_.pop_back();
    out_ = before;
  }
  /// Leaves a loop if the condition is `when`, in two steps for `a or b`, or `not (a and b)`, as in `enter`.
  void leave_if(const Expr& condition, bool when, Statement* loop, int line) {
    const bool chooses =
        when && condition.kind == Expr::logical_or && condition.args[0]->kind == Expr::logical_and;
    if (condition.kind == (when ? Expr::logical_or : Expr::logical_and) && !chooses &&
        is_heavy(*condition.args[1])) {
      leave_if(*condition.args[0], when, loop, line);
      return leave_if(*condition.args[1], when, loop, line);
    }
    Value* v = value(condition);
    if (!when) v = apply<op::LogicalNot>({v}, condition.line);
    Statement* const b = emit(Statement::branch, condition.line);
    b->value = v;
    Body* const body = into(b->body);
    emit(Statement::leave, line)->target = loop;
    out_ = body;
  }

  void count(const ast::Statement& s) {
    Value* bound[3] = {nullptr, nullptr, nullptr};
    for (size_t k = 0; k < s.right.size(); ++k) {
      bound[k] = value(*s.right[k]);
      if (!is_fixed(*bound[k])) bound[k] = spilled(bound[k], s.right[k]->line);
    }
    if (!bound[2]) bound[2] = number(1, s.line);
    if (bound[2]->kind == Value::number && bound[2]->value == 0)
      refuse(s.line, "a for with a step of 0 never ends");
    Statement* const c = emit(Statement::count, s.line);
    const std::string& name = frame_->function->variables[size_t(s.variables[0])];
    c->variable = fresh(name, s.line);
    c->value = bound[0], c->last = bound[1], c->step = bound[2];
    p_.variables[size_t(c->variable)].home = &c->body;
    Body* const before = into(c->body);
    loops_.push_back(c);
    Value* const counter = make(Value::variable, c->variable, s.line);
    frame_->locals[size_t(s.variables[0])] =
        frame_->function->assigned[size_t(s.variables[0])] ? spilled(counter, s.line) : counter;
    statements(s.blocks[0]);
    loops_.pop_back();
    out_ = before;
  }

  std::vector<Statement*> loops_;
  int depth_ = 0;
};

}  // namespace

void build(Kernel& p, CaptureResolver& resolver, const std::vector<CapturedName>& arguments) {
  Builder(p, resolver).run(arguments);
}

}  // namespace mt::grid
