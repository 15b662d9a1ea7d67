// grid_build.cpp -- builds the statements of a grid kernel, with its helpers inlined
#include "engine/compiler/kernel/grid_build.h"

#include <algorithm>

namespace mt::grid {

void fail_at(const Kernel& p, int line, const std::string& text) {
  const size_t function = size_t(line >> 20);
  fail("kernel: {}:{}: {}", function < p.chunks.size() ? p.chunks[function] : "", line & 0xfffff,
       text);
}

void build(Kernel& p, CaptureResolver& resolver, const std::vector<CapturedName>& arguments) {
  Builder(p, resolver).run(arguments);
}

std::string Path::text() const {
  std::string s = root;
  for (const std::string& k : keys) s += k[0] == '[' ? k : "." + k;
  return s;
}

// ---- the parts -----------------------------------------------------------------------------------

Value* Builder::make(Value::Kind kind, int index, int line) {
  return p_.add({.kind = kind, .line = at(line), .index = index});
}
Value* Builder::number(double x, int line, bool is_float) {
  return p_.add({.kind = Value::number, .line = at(line), .index = is_float, .value = x});
}
Value* Builder::apply(int op, const GridValues& args, int line) {
  return p_.add(op, args, GridType::none, at(line));
}
Value* Builder::launch_scalar(LaunchScalar s, int line) {
  size_t k = 0;
  while (k < p_.scalars.size() && !(p_.scalars[k] == s)) ++k;
  if (k == p_.scalars.size()) p_.scalars.push_back(s);
  return make(Value::scalar, int(k), line);
}
Statement* Builder::emit(Statement::Kind kind, int line) {
  constexpr size_t kMaxStatements = 10000;
  if (p_.statements.size() >= kMaxStatements)
    refuse(line, "the kernel has more than {} statements, its helpers inlined; use loops",
           kMaxStatements);
  Statement* const s = p_.add({.kind = kind, .line = at(line)});
  out_->append(s);
  return s;
}
int Builder::fresh(const std::string& name, int line) {
  p_.variables.push_back({name, at(line), GridType::none, out_});
  return int(p_.variables.size()) - 1;
}
void Builder::store(int variable, Value* v, int line) {
  Statement* const s = emit(Statement::assign, line);
  s->variable = variable, s->value = v;
}

// ---- the kernel and its helpers --------------------------------------------------------------------

namespace {
/// Whether a function returns before its last statement.
bool returns_early(const ast::Block& block, bool outermost) {
  for (size_t k = 0; k < block.size(); ++k) {
    const ast::Statement& s = *block[k];
    if (s.kind == ast::Statement::give_back && !(outermost && k + 1 == block.size())) return true;
    for (const ast::Block& b : s.blocks)
      if (returns_early(b, outermost && s.kind == ast::Statement::block && k + 1 == block.size()))
        return true;
  }
  return false;
}
}  // namespace

void Builder::run(const std::vector<CapturedName>& arguments) {
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

/// Builds the statements of a function; a return before the last statement leaves a scope.
void Builder::body(Frame& frame, int line) {
  if (returns_early(frame.function->body, true)) {
    frame.scope = emit(Statement::scope, line);
    out_ = &frame.scope->body;
  }
  frame_ = &frame;
  statements(frame.function->body);
}

/// Inlines a call; gives its results.
Item Builder::call_function(int index, std::vector<Item> arguments, int line, bool of_library) {
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

void Builder::give_back(const ast::Statement& s, bool last) {
  Frame& f = *frame_;
  if (!f.caller && !s.right.empty())
    refuse(s.line, "a kernel returns nothing; it writes into a tensor that it was given");
  std::vector<Item> values = items(s.right, s.right.size());
  if (f.returned && values.size() != f.results.size())
    refuse(s.line, "'{}' returns {} value{} here and {} elsewhere", f.function->name, values.size(),
           values.size() == 1 ? "" : "s", f.results.size());
  if (!f.returned)
    for (size_t k = 0; k < values.size(); ++k) {
      f.results.push_back(fresh("result of " + f.function->name, s.line));
      p_.variables.back().home = f.home;
    }
  f.returned = true;
  for (size_t k = 0; k < values.size(); ++k)
    store(f.results[k], value_of(values[k], s.line), s.line);
  if (f.scope && !last) emit(Statement::leave, s.line)->target = f.scope;
}

// ---- statements ------------------------------------------------------------------------------------

void Builder::statements(const ast::Block& block) {
  for (size_t k = 0; k < block.size(); ++k)
    statement(*block[k], k + 1 == block.size() && &block == &frame_->function->body);
}

void Builder::statement(const ast::Statement& s, bool last) {
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
    case S::give_back: return give_back(s, last);
    case S::leave:
      if (loops_.empty()) refuse(s.line, "break outside of a loop");
      emit(Statement::leave, s.line)->target = loops_.back();
  }
}

/// Whether a local that is never reassigned can be replaced by its value: reading it again is free.
static bool is_fixed(const Value& v) {
  return v.kind != Value::variable && v.kind != Value::operation && v.kind != Value::load;
}

void Builder::bind(int local, Item it, int line) {
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
  if (it.kind == Item::tensor && p_.tensors[size_t(it.index)].name == "shared")
    p_.tensors[size_t(it.index)].name = name;
  for (Value*& v : it.prefix) v = is_fixed(*v) ? v : spilled(v, line);
  to = it;
}

void Builder::local(const ast::Statement& s) {
  std::vector<Item> values = items(s.right, s.variables.size());
  if (values.size() < s.variables.size() && !s.right.empty() &&
      s.right.back()->kind == Expr::call && s.right.size() == 1) {
    p_.misfit.values = int(values.size());
    refuse(s.line, "{} names, but the call gives {} value{}", s.variables.size(), values.size(),
           values.size() == 1 ? "" : "s");
  }
  values.resize(s.variables.size());
  if (values.size() > 1)
    for (Item& it : values)
      if (it.kind == Item::value && !is_fixed(*it.number)) it.number = spilled(it.number, s.line);
  for (size_t k = 0; k < s.variables.size(); ++k) {
    const int local = s.variables[k];
    if (values[k].kind == Item::nil && !s.right.empty() && k < s.right.size())
      refuse(s.line, "a kernel cannot use nil as a value; local {} alone declares it",
             frame_->function->variables[size_t(local)]);
    bind(local, values[k], s.line);
  }
}

/// Whether a store of the same statement can change it: it reads an element or, with `locals`, a local.
static bool may_change(const Value& v, bool locals) {
  if (v.kind == Value::load || (locals && v.kind == Value::variable)) return true;
  return std::any_of(v.args.begin(), v.args.end(),
                     [&](const Value* arg) { return may_change(*arg, locals); });
}

/// As in LuaJIT, the indices of the targets are computed first, then the values; then they are stored.
void Builder::assign(const ast::Statement& s) {
  const bool several = s.left.size() > 1;
  const bool locals = std::any_of(s.left.begin(), s.left.end(),
                                  [](const ast::Expr& e) { return e->kind == Expr::local; });
  std::vector<Item> places;
  for (const ast::Expr& target : s.left) {
    places.push_back(target->kind == Expr::local ? Item() : item(*target));
    for (Value*& v : places.back().prefix)
      if (several && may_change(*v, locals)) v = spilled(v, s.line);
  }
  Statement* const mark = out_->last;
  std::vector<Item> values = items(s.right, s.left.size());
  for (Item& place : places)
    for (Value*& v : place.prefix) keep_before(v, mark, s.line);
  if (values.size() < s.left.size())
    refuse(s.line, "{} targets, but {} value{}", s.left.size(), values.size(),
           values.size() == 1 ? "" : "s");
  if (several)
    for (Item& it : values)
      if (Value* const v = value_of(it, s.line); !is_fixed(*v)) it = spilled(v, s.line);
  for (size_t k = s.left.size(); k-- > 0;)  // in LuaJIT's order
    assign_one(*s.left[k], places[k], values[k]);
}

void Builder::assign_one(const Expr& target, Item to, Item it) {
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

void Builder::branch(const ast::Statement& s, size_t arm) {
  Value* const condition = value(*s.right[arm]);
  Statement* const b = emit(Statement::branch, s.right[arm]->line);
  b->value = condition;
  Body* const before = into(b->body);
  statements(s.blocks[arm]);
  out_ = &b->other;
  if (arm + 1 < s.right.size()) branch(s, arm + 1);
  else if (arm + 1 < s.blocks.size()) statements(s.blocks[arm + 1]);
  out_ = before;
}

/// while and repeat: a loop that is left depending on the condition.
void Builder::loop(const ast::Statement& s) {
  Statement* const l = emit(Statement::loop, s.line);
  Body* const before = into(l->body);
  const bool first = s.kind == ast::Statement::while_loop;
  loops_.push_back(l);
  if (!first) statements(s.blocks[0]);
  Value* condition = value(*s.right[0]);
  if (first) condition = apply<op::LogicalNot>({condition}, s.right[0]->line);
  Statement* const b = emit(Statement::branch, s.right[0]->line);
  b->value = condition;
  Body* const body = into(b->body);
  emit(Statement::leave, s.line)->target = l;
  out_ = body;
  if (first) statements(s.blocks[0]);
  loops_.pop_back();
  out_ = before;
}

void Builder::count(const ast::Statement& s) {
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

}  // namespace mt::grid
