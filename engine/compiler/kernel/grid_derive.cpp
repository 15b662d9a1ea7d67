// grid_derive.cpp -- the formulas of kernels/ops.h in grid kernels: forward-mode derivatives, and operations that are
// defined by others
//
// A derivative kernel computes the original values, and for each real variable that depends on an input
// its tangents by the inputs, in the same loops and branches. The formulas are those of kernels/ops.h;
// operations that select (min, max, and-or) propagate the selected operand's tangent.
#include <algorithm>

#include "engine/compiler/kernel/grid_ir.h"
#include "engine/compiler/program/value.h"
#include "engine/ops/ops.h"

namespace mt::grid {
namespace {

using T = GridType;

/// The value of a program of operations on numbers of this type; `keep` stores a value in a variable.
Value* add_formula(Kernel& k, const Program& p, const GridValues& inputs, const GridValues& numbers,
                   GridType type, int line, const auto& keep) {
  std::vector<Value*> value;
  std::vector<int> uses(size_t(p.count));
  for (int i = 0; i < p.count; ++i)
    for (const int in : p.code[i].in)
      if (in >= 0) ++uses[size_t(in)];
  const auto number = [&](double x, T t) {
    return k.add({.kind = t == T::boolean ? Value::boolean : Value::number,
                  .type = t,
                  .line = line,
                  .value = x});
  };
  const auto operation = [&](const Instruction& c) {
    const OpRow& row = op_row(c.op);
    GridValues args;
    for (int j = 0; j < row.inputs; ++j) args.push_back(value[size_t(c.in[j])]);
    for (int j = 0; j < row.params; ++j) args.push_back(number(p.params[c.which + j], type));
    const bool swaps = op::is<op::Gt, op::Ge>(c.op);  // machine code has only < and <=
    if (swaps) std::swap(args[0], args[1]);
    if (type == T::integer && op::is<op::Floor, op::Ceil, op::Round, op::Trunc>(c.op))
      return args[0];
    const int op = !swaps ? c.op : c.op == op::id<op::Gt> ? op::id<op::Lt> : op::id<op::Le>;
    return k.add(op, args, c.is_bool ? T::boolean : type, line);
  };
  for (int i = 0; i < p.count; ++i) {
    const Instruction& c = p.code[i];
    Value* const v = c.op == kInput      ? inputs[size_t(c.which)]
                     : c.op == kNumber   ? numbers[size_t(c.which)]
                     : c.op == kConstant ? number(c.constant, c.is_bool ? T::boolean : type)
                                         : operation(c);
    value.push_back(uses[size_t(i)] > 1 ? keep(v) : v);
  }
  return value[size_t(p.output[0])];
}

// ---- derivatives -----------------------------------------------------------------------------------

class Differentiator {
 public:
  Differentiator(Kernel& k, const std::vector<Tangent>& tangents) : k_(k), tangents_(tangents) {
    for (const Tangent& s : tangents)
      if (std::find(by_.begin(), by_.end(), s.input) == by_.end()) by_.push_back(s.input);
  }
  void run() {
    active_.assign(k_.variables.size(), 0);
    while (propagate()) {}
    tangent_.assign(k_.variables.size(), {});
    for (size_t v = 0; v < active_.size(); ++v)
      for (size_t w = 0; active_[v] && w < by_.size(); ++w)
        tangent_[v].push_back(fresh(k_.variables[v].home, k_.variables[v].line));
    walk(k_.body);
  }

 private:
  using Tangents = std::vector<Value*>;  // one per input; null: 0

  // ---- the variables that depend on an input

  bool is_active(int variable) const {
    return size_t(variable) < active_.size() && active_[size_t(variable)];
  }
  bool depends_on_input(const Value& v) const {
    if (v.type != T::real) return false;
    if (v.kind == Value::variable) return is_active(v.index);
    if (v.kind == Value::load) return std::find(by_.begin(), by_.end(), v.index) != by_.end();
    return v.kind == Value::operation &&
           std::any_of(v.args.begin(), v.args.end(),
                       [&](const Value* a) { return depends_on_input(*a); });
  }
  /// Marks the variables that are set to active values; returns whether there are new ones.
  bool propagate() {
    bool changed = false;
    each_statement(k_.body, 0, [&](const Statement& s, int) {
      const bool sets = s.kind == Statement::assign || s.kind == Statement::count;
      if (sets && !is_active(s.variable) && k_.variables[size_t(s.variable)].type == T::real &&
          (depends_on_input(*s.value) || (s.step && depends_on_input(*s.step))))
        active_[size_t(s.variable)] = changed = true;
    });
    return changed;
  }

  // ---- creating values

  int fresh(const Body* home, int line) {
    k_.variables.push_back({"a derivative", line, T::real, home});
    return int(k_.variables.size()) - 1;
  }
  Value* number(double x) {
    return k_.add({.kind = Value::number, .type = T::real, .line = line_, .value = x});
  }
  Value* variable(int index) {
    const T type = k_.variables[size_t(index)].type;
    return k_.add({.kind = Value::variable, .type = type, .line = line_, .index = index});
  }
  Value* apply(int op, const GridValues& args, T type = T::real) {
    return k_.add(op, args, type, line_);
  }
  void assign(int to, Value* x) {
    out_.append(k_.add({.kind = Statement::assign, .line = line_, .variable = to, .value = x}));
  }
  /// A value that is computed only once, here.
  Value* spilled(Value* v) {
    if (v->kind < Value::operation) return v;
    k_.variables.push_back({"a value", line_, v->type, home_});
    const int to = int(k_.variables.size()) - 1;
    assign(to, v);
    return variable(to);
  }

  // ---- derivatives of a value

  /// The tangents of v. What they share with v is computed before the current statement, and v then reads it.
  Tangents tangents(Value*& v) {
    if (!depends_on_input(*v)) return Tangents(by_.size(), nullptr);
    if (v->kind == Value::variable) {
      Tangents t;
      for (const int d : tangent_[size_t(v->index)]) t.push_back(variable(d));
      return t;
    }
    if (v->kind == Value::load) {
      Tangents t;
      for (const int input : by_) t.push_back(input == v->index ? number(1) : nullptr);
      v = spilled(v);
      return t;
    }
    std::vector<Tangents> of;
    for (Value*& a : v->args) of.push_back(tangents(a)), a = spilled(a);
    Value* const whole = v;
    v = spilled(v);
    Tangents t(by_.size(), nullptr);
    for (size_t w = 0; w < by_.size(); ++w) {
      Tangents parts;
      bool any = false;
      for (const Tangents& o : of) parts.push_back(o[w]), any |= o[w] != nullptr;
      if (any) t[w] = spilled(tangent_of(*whole, v, parts));
    }
    return t;
  }
  Value* or_zero(Value* t) { return t ? t : number(0); }
  /// The tangent of operation v, whose result is `result`, from the tangents of its operands.
  Value* tangent_of(const Value& v, Value* result, const Tangents& by) {
    if (v.op == op::id<op::Where>) return apply(v.op, {v.args[0], or_zero(by[1]), or_zero(by[2])});
    if (op::is<op::LuaMin, op::LuaMax>(v.op)) {
      const int order = v.op == op::id<op::LuaMin> ? op::id<op::Lt> : op::id<op::Gt>;
      return apply(op::id<op::Where>,
                   {apply(order, v.args, T::boolean), or_zero(by[0]), or_zero(by[1])});
    }
    Value* sum = nullptr;
    for (size_t k = 0; k < by.size(); ++k) {
      Value* const part = by[k] ? part_of(v, result, int(k), by[k]) : nullptr;
      if (!part) continue;
      sum = sum ? apply(op::id<op::Add>, {sum, part}) : part;
    }
    return sum;
  }
  /// g times the derivative with respect to operand k, by the formula of the operation; null: it is 0.
  Value* part_of(const Value& v, Value* result, int k, Value* g) {
    const OpRow& row = op_row(v.op);
    ir::Builder b;
    GridValues inputs{g}, numbers;
    std::vector<int> operands{b.input(0)}, params;
    for (int slot = 0; k < row.inputs && slot < 4; ++slot) {
      if (!(row.info->saves[k] >> slot & 1)) continue;
      operands.push_back(b.input(inputs.count));
      inputs.push_back(slot == 3 ? result : v.args[size_t(slot)]);
    }
    for (int j = row.inputs; j < v.args.count; ++j) {
      params.push_back(b.number(numbers.count));
      numbers.push_back(v.args[size_t(j)]);
    }
    const int made = k < row.inputs ? ir::add_derivative(b, v.op, k + 1, operands.data(),
                                                         int(operands.size()), params.data())
                                    : -1;
    if (made < 0 && row.differentiable && k < row.inputs) return nullptr;
    if (made < 0)
      fail_line(k_, v.line, "mt.{} has no gradient by its argument {}", row.info->name, k + 1);
    const ir::Expression& e = b.finish({made}, inputs.count, numbers.count);
    return add_formula(k_, e.program(), inputs, numbers, T::real, line_,
                       [this](Value* x) { return spilled(x); });
  }

  // ---- statements

  void walk(Body& body) {
    Statement* next = body.first;
    Body* const home = &body;
    for (body = {}; next;) {
      Statement* const s = next;
      next = s->next;
      out_ = {}, home_ = home, line_ = s->line;
      const bool stays = statement(*s);
      body.append(out_);
      if (!stays) continue;
      body.append(s);
      if (s->kind == Statement::count && is_active(s->variable)) {
        walk(s->body);
        advance_tangents(*s);
        continue;
      }
      walk(s->body), walk(s->other);
    }
  }
  /// Emits what a statement needs before it; returns whether the statement itself is kept.
  bool statement(Statement& s) {
    if (s.kind == Statement::print) return false;  // the kernel itself has printed it
    if (s.kind == Statement::assign && is_active(s.variable)) {
      const Tangents t = tangents(s.value);
      for (size_t w = 0; w < by_.size(); ++w)
        assign(tangent_[size_t(s.variable)][w], or_zero(t[w]));
    }
    if (s.kind == Statement::count && is_active(s.variable)) {  // one step before the first value
      const Tangents first = tangents(s.value), step = tangents(s.step);
      for (size_t w = 0; w < by_.size(); ++w)
        assign(tangent_[size_t(s.variable)][w],
               apply(op::id<op::Sub>, {or_zero(first[w]), or_zero(step[w])}));
    }
    if (s.kind == Statement::store) store(s);
    if ((s.kind == Statement::warp || s.kind == Statement::atomic_add) &&
        (depends_on_input(*s.value) || (s.last && depends_on_input(*s.last))))
      fail_line(k_, s.line,
                "a warp function or atomic update by what depends on an input has no gradient");
    return true;
  }
  void store(Statement& s) {
    const int tensor = s.place->index;
    const auto tangent = std::find_if(tangents_.begin(), tangents_.end(),
                                      [&](const Tangent& x) { return x.result == tensor; });
    if (tangent != tangents_.end()) {
      const size_t w = size_t(std::find(by_.begin(), by_.end(), tangent->input) - by_.begin());
      s.value = or_zero(tangents(s.value)[w]);
    } else if (depends_on_input(*s.value)) {
      fail_line(k_, s.line, "what is written into '{}' depends on an input and has no gradient",
                k_.tensors[size_t(tensor)].name);
    }
  }
  /// At the start of an iteration the tangents of a counter grow by those of the step.
  void advance_tangents(Statement& s) {
    out_ = {}, home_ = &s.body, line_ = s.line;
    const Tangents step = tangents(s.step);
    for (size_t w = 0; w < by_.size(); ++w) {
      const int d = tangent_[size_t(s.variable)][w];
      if (step[w]) assign(d, apply(op::id<op::Add>, {variable(d), step[w]}));
    }
    out_.append(s.body);
    s.body = out_;
  }

  Kernel& k_;
  const std::vector<Tangent>& tangents_;
  std::vector<int> by_;                    // the tensors of the inputs
  std::vector<char> active_;               // for each variable: whether it depends on an input
  std::vector<std::vector<int>> tangent_;  // for each variable and input: the tangent variable
  Body out_;                               // the statements before the current one
  const Body* home_ = nullptr;
  int line_ = 0;
};

// ---- formulas --------------------------------------------------------------------------------------

// Machine code has instructions for arithmetic, comparisons and selections, and clamp, isnan or relu consist of these.
// An operation with parameters, such as clamp, is always replaced, so that they may be any numbers.

bool is_arithmetic(int op) {
  return op::is<op::Neg, op::Abs, op::Add, op::Sub, op::Mul, op::Div, op::Lt, op::Le, op::Gt,
                op::Ge, op::Eq, op::Ne, op::Where, op::LogicalNot, op::LogicalAnd, op::LogicalOr>(
      op);
}
/// The formula, if the operation is to be replaced by it.
const ir::Expression* formula_of(const Value& v) {
  const OpRow& row = op_row(v.op);
  if (v.op >= kOps || v.op == op::id<op::LogicalNot>) return nullptr;
  const ir::Expression* const e = ir::formula_of(v.op, nullptr, (1u << row.params) - 1);
  if (!e || row.params > 0 || row.answers_bool || row.inputs > 2 || v.type == T::integer) return e;
  const Program& p = e->program();
  const bool plain = std::all_of(p.code, p.code + p.count, [](const Instruction& c) {
    return c.op < 0 || is_arithmetic(c.op);
  });
  return plain ? e : nullptr;
}

class Expander {
 public:
  explicit Expander(Kernel& k) : k_(k) {}
  void body(Body& list) {
    Statement* next = list.first;
    Body all;
    while (next) {
      Statement* const s = next;
      next = s->next;
      before_ = {}, home_ = &list;
      for (Value** v : {&s->place, &s->value, &s->last, &s->step})
        if (*v) *v = expanded(*v);
      const bool prints = s->kind == Statement::print;
      for (Statement* item : prints ? s->body : Body{})
        if (item->value) item->value = expanded(item->value);
      all.append(before_);
      all.append(s);
      if (!prints) body(s->body), body(s->other);
    }
    list = all;
  }

 private:
  Value* kept(Value* v) {
    if (v->kind < Value::operation) return v;
    k_.variables.push_back({"a value", v->line, v->type, home_});
    const int to = int(k_.variables.size()) - 1;
    before_.append(
        k_.add({.kind = Statement::assign, .line = v->line, .variable = to, .value = v}));
    return k_.add({.kind = Value::variable, .type = v->type, .line = v->line, .index = to});
  }
  Value* expanded(Value* v) {
    for (Value*& a : v->args) a = expanded(a);
    if (v->kind != Value::operation || v->op == kConvert) return v;
    const OpRow& row = op_row(v->op);
    if (v->has<op::LogicalOr>() && v->args[1]->kind == Value::boolean && v->args[1]->value == 0)
      return v->args[0];
    const ir::Expression* const e = formula_of(*v);
    if (!e && v->args.count > row.inputs)
      fail_line(k_, v->line, "this needs mt.{}, which kernels do not have", row.info->name);
    if (!e) return v;
    GridValues inputs, numbers;
    for (int k = 0; k < v->args.count; ++k)
      (k < row.inputs ? inputs : numbers).push_back(v->args[size_t(k)]);
    const T type = v->args[size_t(row.mask_first)]->type;
    return expanded(add_formula(k_, e->program(), inputs, numbers, type, v->line,
                                [this](Value* x) { return kept(expanded(x)); }));
  }

  Kernel& k_;
  Body before_;                 // the statements before the current one
  const Body* home_ = nullptr;  // where they are
};

}  // namespace

void differentiate(Kernel& k, const std::vector<Tangent>& tangents) {
  Differentiator(k, tangents).run();
}

void expand_formulas(Kernel& k) { Expander(k).body(k.body); }

}  // namespace mt::grid
