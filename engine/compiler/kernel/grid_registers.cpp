// grid_registers.cpp -- prepares the tree of a typed grid kernel for the CPU: unrolls loops, finds what differs between
// lanes, gives values registers, chooses tiles
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>

#include "engine/compiler/kernel/grid_ir.h"
#include "engine/ops/ops.h"

namespace mt::grid {
namespace {

// ---- short loops -----------------------------------------------------------------------------------

class LoopUnroller {
 public:
  explicit LoopUnroller(Kernel& k) : k_(k) {}

  /// Unrolls loops of a cost up to `limit`. It is lower inside of a loop, whose machine code includes them.
  void body(Body& to, double limit = 64) {
    Body flat;
    for (Statement *s = to.first, *next; s; s = next) next = s->next, expand(s, flat, &to, limit);
    to = flat;
    for (Statement* s : to)
      for (Body* b : {&s->body, &s->other})
        if (s->kind != Statement::print) body(*b, s->is_loop() ? 40 : limit);
  }

 private:
  static bool is_plain(const Statement& s) {
    return s.kind == Statement::assign || s.kind == Statement::store;
  }
  /// The accesses of a loop without other control flow, of which machine code can have about 48; otherwise infinite.
  static double cost(const Statement& s) {
    double sum = 0;
    if (is_plain(s)) {
      values_of(s, [&](const Value& v) { sum += v.kind == Value::load; });
      return sum + 0.5;
    }
    if (s.kind != Statement::count || iterations_of(s) == 0) return INFINITY;
    for (const Statement* x : s.body) sum += cost(*x);
    return sum * double(iterations_of(s));
  }
  /// 0: none, or not known before the launch.
  static int64_t iterations_of(const Statement& s) {
    for (const Value* v : {s.value, s.last, s.step})
      if (v->kind != Value::number || v->type != GridType::integer) return 0;
    return int64_t(std::max(0.0, std::floor((s.last->value - s.value->value) / s.step->value) + 1));
  }
  /// Appends a statement, or a short loop between literals as the statements of its iterations.
  void expand(Statement* s, Body& out, const Body* home, double limit) {
    if (s->kind != Statement::count || cost(*s) > limit) return out.append(s);
    move_home(s->body, home);
    for (int64_t k = 0; k < iterations_of(*s); ++k) {
      const double now = s->value->value + double(k) * s->step->value;
      for (const Statement* x : s->body) expand(copy(*x, s->variable, now), out, home, limit);
    }
  }
  void move_home(const Body& from, const Body* home) {
    for (Variable& v : k_.variables) v.home = v.home == &from ? home : v.home;
    for (const Statement* s : from) move_home(s->body, home);
  }
  /// A copy in which a variable is replaced by a number.
  Statement* copy(const Statement& s, int variable, double number) {
    Statement* const c = k_.add(s);
    c->body = {};
    for (Value** v : {&c->value, &c->last, &c->step, &c->place})
      if (*v) *v = copy(**v, variable, number);
    for (const Statement* x : s.body) c->body.append(copy(*x, variable, number));
    return c;
  }
  Value* copy(const Value& v, int variable, double number) {
    if (v.kind == Value::variable && v.index == variable)
      return k_.add({.kind = Value::number, .type = v.type, .line = v.line, .value = number});
    Value* const c = k_.add(v);
    for (Value*& a : c->args) a = copy(*a, variable, number);
    return c;
  }

  Kernel& k_;
};

// ---- divergence analysis: which values are uniform in all lanes, or affine in the lane index ---------------

class DivergenceAnalysis {
 public:
  DivergenceAnalysis(Kernel& p, const bool varying[3])
      : variable(p.variables.size(), GridClass::scalar),
        p_(p),
        varying_(varying) {
    for (Statement& s : p.statements) s.divergent = s.leaves = false;
    while (walk(p.body)) {}
  }
  std::vector<GridClass> variable;

 private:
  GridClass of(Value* v) {
    if (!v) return GridClass::scalar;
    GridClass result = GridClass::scalar;
    int affine = 0;
    for (Value* a : v->args) result = std::max(result, of(a)), affine += a->is == GridClass::affine;
    const bool linear = v->has<op::Add, op::Sub, op::Neg>() || (v->has<op::Mul>() && affine == 1);
    if (v->kind == Value::variable) result = variable[size_t(v->index)];
    else if (v->kind == Value::place || v->kind == Value::thread)
      result = varying_[v->index] ? GridClass::affine : GridClass::scalar;
    else if (result == GridClass::affine && !(linear && v->type == GridType::integer))
      result = GridClass::vector;
    return v->is = result;
  }
  /// Whether some lanes keep the old value of a variable if it is set here.
  bool is_masked(int v) const {
    const auto home = depth_.find(p_.variables[size_t(v)].home);
    for (size_t k = home == depth_.end() ? 0 : home->second; k < regions_.size(); ++k)
      if (regions_[k]->divergent) return true;
    return false;
  }
  /// Raises the class of the variable that s sets; returns whether it has changed, as do the functions below.
  bool raise_class(Statement& s, GridClass c) {
    GridClass& now = variable[size_t(s.variable)];
    const bool linear = p_.variables[size_t(s.variable)].type == GridType::integer;
    if (c == GridClass::affine && !linear) c = GridClass::vector;
    const bool changed = c > now;
    s.is = now = std::max(c, now);
    return changed;
  }
  static bool mark_divergent(Statement& s, bool divergent) {
    if (!divergent || s.divergent) return false;
    return s.divergent = true;
  }
  /// If only some lanes leave, every enclosing region up to the target is divergent.
  bool leave(const Statement& s) {
    size_t at = regions_.size();
    bool differs = false, changed = false;
    for (size_t k = regions_.size(); k-- > 0;) {
      at = k;
      if (regions_[k] == s.target) break;
      differs |= regions_[k]->divergent;
    }
    for (size_t k = at; k < regions_.size(); ++k) {
      if (!regions_[k]->leaves) regions_[k]->leaves = true, changed = true;
      changed |= mark_divergent(*regions_[k], differs);
    }
    return changed;
  }
  bool statement(Statement& s) {
    of(s.place);
    const GridClass first = of(s.value), last = of(s.last), step = of(s.step);
    switch (s.kind) {
      case Statement::assign:
        s.masked = is_masked(s.variable);
        return raise_class(s, s.masked ? GridClass::vector : first);
      case Statement::atomic_add:
      case Statement::warp: return raise_class(s, GridClass::vector);
      case Statement::branch: return mark_divergent(s, first != GridClass::scalar);
      case Statement::leave: return leave(s);
      case Statement::count: {
        const bool differs = std::max({first, last, step}) != GridClass::scalar;
        const bool linear = step == GridClass::scalar && first != GridClass::vector;
        const bool raised = raise_class(s, !differs ? GridClass::scalar
                                           : linear ? GridClass::affine
                                                    : GridClass::vector);
        return mark_divergent(s, differs) || raised;
      }
      default: return false;
    }
  }
  bool walk(const Body& body) {
    bool changed = false;
    depth_[&body] = regions_.size();
    for (Statement* s : body) {
      changed |= statement(*s);
      regions_.push_back(s);
      changed |= walk(s->body), changed |= walk(s->other);
      regions_.pop_back();
    }
    return changed;
  }

  Kernel& p_;
  const bool* varying_;
  std::map<const Body*, size_t> depth_;  // of each body: the number of regions around it
  std::vector<Statement*> regions_;      // the statements around the current one, outermost first
};

// ---- registers -------------------------------------------------------------------------------------

class Registers {
 public:
  Registers(Kernel& k, TileProgram& u) : k_(k), u_(u) {}

  void run(const std::vector<GridClass>& classes) {
    numbers_ = kGridNumbers + int(k_.scalars.size());
    for (const Statement& s : k_.statements)
      values_of(s, [&](const Value& v) { reads_[v.index] += v.kind == Value::variable; });
    for (size_t v = 0; v < k_.variables.size(); ++v) {
      const GridType type = k_.variables[v].type;
      variable_.push_back(classes[v] != GridClass::vector
                              ? numbers_++
                              : new_vector(type == GridType::none ? GridType::integer : type));
    }
    u_.program.variables = int(u_.vector_type.size());
    body(k_.body);
    finish();
  }

 private:
  int new_vector(GridType t) {
    u_.vector_type.push_back(t);
    return int(u_.vector_type.size()) - 1;
  }
  /// Temporary registers, which live until the end of a statement; those of kept_ until the end of the outermost
  /// statement, so that they can be set before its machine code runs.
  struct Pool {
    std::vector<int> of[4];  // by type
    size_t used[4] = {};
  };
  int temporary(GridType t, bool kept) {
    Pool& pool = kept ? kept_ : pool_;
    std::vector<int>& of = pool.of[int(t)];
    size_t& used = pool.used[int(t)];
    if (used == of.size()) of.push_back(new_vector(t));
    return of[used++];
  }
  template <class F> void release_after(const F& f) {
    size_t before[4];
    std::copy_n(pool_.used, 4, before);
    f();
    std::copy_n(before, 4, pool_.used);
  }
  int constant(double value, GridType t) {
    const auto [at, fresh] =
        constants_.try_emplace({int(t), std::bit_cast<uint64_t>(value)}, numbers_);
    if (fresh) known_.push_back({numbers_++, scalar_of(value, t, k_.real)});
    return at->second;
  }

  // ---- values ------------------------------------------------------------------------------------

  /// Adds a value to those that its statement computes.
  void step(Value& v, GridCode code, int into, bool masked = false) {
    const bool kept = code == GridCode::spread || code == GridCode::compare;
    v.code = code, v.masked = masked;
    if (v.kind == Value::operation) v.of = v.args[v.op == op::id<op::Where>]->type;
    v.at = into >= 0 ? into : code >= GridCode::vector ? temporary(v.type, kept) : numbers_++;
    v.divides = v.type == GridType::integer && is_quotient(v) &&
                (v.args[1]->kind != Value::number || v.args[1]->value == 0);
    v.next = nullptr;
    *last_ = &v, last_ = &v.next;
    ++length_;
  }
  static bool is_quotient(const Value& v) {
    return v.kind == Value::operation && v.op >= 0 &&
           op_row(v.op).info->facts.divisor == op::Divisor::nonzero;
  }
  /// Gives a value that is not a vector a register: `into`, if that is given and it has none.
  void number(Value& v, int into = -1) {
    const bool affine = v.is == GridClass::affine;
    v.code = GridCode::ready;
    switch (v.kind) {
      case Value::number:
      case Value::boolean: v.at = constant(v.value, v.type); return;
      case Value::scalar: v.at = kGridNumbers + v.index; return;
      case Value::variable: v.at = variable_[size_t(v.index)]; return;
      case Value::place: v.at = (affine ? kGridPlace : kGridFirst) + v.index; return;
      case Value::thread:
        v.at = affine ? kGridThread + v.index : constant(1, GridType::integer);
        return;
      case Value::block: v.at = kGridBlock + v.index; return;
      case Value::operation:
      case Value::load: break;
    }
    for (Value* a : v.args) number(*a);
    step(v,
         v.kind == Value::load ? GridCode::load_scalar
         : affine              ? GridCode::affine
                               : GridCode::scalar,
         into);
  }
  /// An operand of a vector operation: a vector, or a scalar.
  void operand(Value*& v) {
    if (v->is == GridClass::scalar) return number(*v);
    if (v->is == GridClass::affine) v = copy(v);
    else if (v->kind == Value::variable)
      return void((v->at = variable_[size_t(v->index)], v->code = GridCode::ready));
    vector(*v, -1, false);
  }
  Value* copy(Value* v) {
    const bool copies = v->converts() && v->args[0]->type == v->type;  // for other tiles
    return copies ? v : k_.add(kConvert, {v}, v->type, v->line);
  }
  /// An index, or a value to print: also an affine number.
  void index(Value*& v) {
    if (v->is == GridClass::vector) operand(v);
    else number(*v);
  }
  void vector(Value& v, int into, bool masked) {
    v.is = GridClass::vector;
    const GridCode code = code_of(v);
    release_after([&] {
      for (Value*& a : v.args)
        if (code == GridCode::load) index(a);
        else if (code == GridCode::vector) operand(a);
        else number(*a);
    });
    step(v, code, into, masked);
  }
  static GridCode code_of(const Value& v) {
    if (v.kind == Value::load) return GridCode::load;
    if (v.op == kConvert && v.args[0]->is == GridClass::affine) return GridCode::spread;
    const bool compares = v.has<op::Lt, op::Le>();
    if (!compares || v.args[0]->type != GridType::integer) return GridCode::vector;
    return std::max(v.args[0]->is, v.args[1]->is) == GridClass::vector ? GridCode::vector
                                                                       : GridCode::compare;
  }

  // ---- statements --------------------------------------------------------------------------------

  void body(const Body& list) {
    levels_ = std::max(levels_, ++level_);
    for (Statement* s : list) {
      release_after([&] { statement(*s); });
      if (level_ == 1) std::fill_n(kept_.used, 4, 0);
    }
    --level_;
  }
  void statement(Statement& s) {
    length_ += s.kind != Statement::assign;
    s.first = nullptr, last_ = &s.first;
    operands(s);
    const int before = length_;
    s.id = statements_++;
    loops_ |= s.is_loop();
    if (s.kind != Statement::print) body(s.body), body(s.other);
    s.length = length_ - before;
  }
  void operands(Statement& s) {
    if (s.place)
      for (Value*& a : s.place->args) index(a);
    if (s.variable >= 0) s.at = variable_[size_t(s.variable)];
    if (s.kind == Statement::assign || s.kind == Statement::count) first_value(s);
    else if (s.kind == Statement::warp && s.value->is != GridClass::vector)
      vector(*(s.value = copy(s.value)), -1, false);
    else if (s.value) operand(s.value);
    for (Statement* x : s.kind == Statement::print ? s.body : Body{})
      if (x->value) index(x->value);
    if (s.kind == Statement::atomic_add && !reads_[s.variable]) s.at = -1;
    if (s.last) operand(s.last);
    if (s.step) operand(s.step);
  }
  /// The value that a variable is set to: a number, or a vector in the variable's register.
  void first_value(Statement& s) {
    Value*& v = s.value;
    if (s.is != GridClass::vector) return number(*v, v->is == s.is ? s.at : -1);
    const GridCode code = v->kind >= Value::operation ? code_of(*v) : GridCode::ready;
    const bool direct = v->kind >= Value::operation && v->is == GridClass::vector &&
                        (!s.masked || code == GridCode::vector || code == GridCode::spread);
    if (!direct) v = copy(v);
    vector(*v, s.at, s.masked);
  }

  void finish() {
    u_.scalars.assign(size_t(numbers_), GridScalar{});
    for (const auto& [at, s] : known_) u_.scalars[size_t(at)] = s;
    GridProgram& g = u_.program;
    g.body = k_.body, g.real = k_.real;
    g.numbers = numbers_, g.vectors = int(u_.vector_type.size());
    g.vector_type = u_.vector_type.data();
    g.statements = statements_, g.levels = levels_ + 1, g.work = length_ * (loops_ ? 64.0 : 1.0);
    g.in_order = k_.in_order, g.in_blocks = k_.in_blocks;
    g.tensors = int(k_.tensors.size());
    for (const Tensor& t : k_.tensors) {
      put(t.shared), put(t.is_private);
      g.shares |= t.shared && !t.is_private;
      if (!t.shared) continue;
      for (const int64_t n : t.size) put(n);
    }
    put(int64_t(k_.real)), put(g.variables), put(numbers_), put(k_.body);
    static std::mutex lock;
    static auto* const known = new std::map<std::string, int64_t>;
    const std::lock_guard guard(lock);
    g.number = known->try_emplace(text_, int64_t(known->size()) + 1).first->second;
  }
  /// Appends to `text_`, the key of the program: all that machine code depends on.
  void put(int64_t x) { text_.append(reinterpret_cast<const char*>(&x), sizeof x); }
  void put(const Value* v) {
    put(v ? int64_t(v->kind) : -1);
    if (!v) return;
    for (const int x : {int(v->type), int(v->code), int(v->op), v->index, v->at, int(v->masked)})
      put(x);
    put(int(v->is));
    put(std::bit_cast<int64_t>(v->value)), put(v->args.count);
    for (const Value* a : v->args) put(a);
  }
  void put(const Body& list) {
    for (const Statement* s : list) {
      for (const int x : {int(s->kind), int(s->update), int(s->is), int(s->leaves), s->at, s->id})
        put(x);
      for (const Value* v : {s->place, s->value, s->last, s->step}) put(v);
      put(s->target ? s->target->id : -1), put(s->body), put(s->other);
    }
    put(-1);
  }

  Kernel& k_;
  TileProgram& u_;
  std::vector<int> variable_;  // their registers
  Pool pool_, kept_;
  int numbers_ = 0, level_ = 0, levels_ = 0, statements_ = 0, length_ = 0;
  std::map<std::pair<int, uint64_t>, int> constants_;  // by type and bits
  std::vector<std::pair<int, GridScalar>> known_;
  std::map<int, int> reads_;
  Value** last_ = nullptr;  // where the next value of the statement is linked
  std::string text_;
  bool loops_ = false;
};

}  // namespace

GridScalar scalar_of(double value, GridType type, Dtype real) {
  GridScalar s{};
  if (type == GridType::integer) s.whole = int64_t(value);
  else if (type == GridType::boolean) s.truth = value != 0;
  else if (real == Dtype::f64) s.number = value;
  else s.single = float(value);
  return s;
}

void unroll(Kernel& k) { LoopUnroller(k).body(k.body); }

void assign_registers(Kernel& k, TileProgram& u, const bool varying[3]) {
  u = {};
  Registers(k, u).run(DivergenceAnalysis(k, varying).variable);
}

// ---- the choice of tiles ---------------------------------------------------------------------------

namespace {

/// By how much an index grows from one thread to the next along an axis, or 2 if that is not known. Values other than
/// positions, such as loop counters, count as constant.
int64_t stride_along(const Value& v, int axis) {
  if (v.kind == Value::place || v.kind == Value::thread) return v.index == axis;
  if (v.kind != Value::operation) return 0;
  const auto part = [&](size_t k) { return stride_along(*v.args[k], axis); };
  if (v.op == op::id<op::Add>) return part(0) + part(1);
  if (v.op == op::id<op::Sub>) return part(0) - part(1);
  if (v.op == op::id<op::Neg>) return -part(0);
  if (v.op == op::id<op::Mul>)
    for (size_t k = 0; k < 2; ++k)
      if (part(k) != 0)
        return part(k) * (v.args[1 - k]->kind == Value::number ? int64_t(v.args[1 - k]->value) : 2);
  int64_t any = 0;
  for (int k = 0; k < v.args.count; ++k) any |= part(size_t(k)) != 0;
  return any * 2;
}

}  // namespace

void find_constraints(Kernel& p) {
  for (const Tensor& t : p.tensors) p.in_blocks |= t.shared;
  each_statement(p.body, 0, [&](const Statement& s, int) {
    const bool atomic = s.kind == Statement::atomic_add, prints = s.kind == Statement::print;
    const bool everywhere = atomic && !p.tensors[size_t(s.place->index)].shared;
    p.loops |= s.is_loop();
    p.in_blocks |= atomic || prints || s.kind == Statement::barrier || s.kind == Statement::warp;
    p.in_order |= everywhere || prints;
    p.by_thread |= atomic || prints || s.kind == Statement::warp;
    values_of(s, [&](const Value& v) {
      p.in_blocks |= v.kind == Value::thread || v.kind == Value::block;
    });
  });
}

double axis_score(const Kernel& p, int axis, const std::vector<GridTensor>& tensors) {
  double score = 0;
  each_statement(p.body, 0, [&](const Statement& s, int depth) {
    values_of(s, [&](const Value& v) {
      if (v.kind != Value::load) return;
      int64_t step = 0;
      for (size_t d = 0; d < size_t(v.args.count); ++d)
        step += stride_along(*v.args[d], axis) * tensors[size_t(v.index)].stride[d];
      score += (step == 1 ? 1 : step == 0 ? 0.5 : -1) * std::pow(8, std::min(depth, 6));
    });
  });
  return score;
}

}  // namespace mt::grid
