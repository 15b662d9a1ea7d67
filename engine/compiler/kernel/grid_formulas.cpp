// grid_formulas.cpp -- replaces operations of a grid kernel by their formulas in other operations (kernels/ops.h)
//
// Machine code has instructions for arithmetic, comparisons and selections, and clamp, isnan or relu consist of these.
// An operation with parameters, such as clamp, is always replaced, so that they may be any numbers.
#include <algorithm>

#include "engine/compiler/kernel/grid_ir.h"
#include "engine/compiler/program/builder.h"
#include "engine/ops/ops.h"

namespace mt::grid {
namespace {

using T = GridType;

template <class... Op> bool is_any(int op) { return ((op == op::id<Op>) || ...); }
bool is_arithmetic(int op) {
  return is_any<op::Neg, op::Abs, op::Add, op::Sub, op::Mul, op::Div, op::Lt, op::Le, op::Gt,
                op::Ge, op::Eq, op::Ne, op::Where, op::LogicalNot, op::LogicalAnd, op::LogicalOr>(
      op);
}
/// The formula, if the operation is to be replaced by it.
const ir::Expression* formula_of(const Value& v) {
  const OpRow& row = op_row(v.op);
  if (v.op >= kOps) return nullptr;
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

Value* add_formula(Kernel& k, const Program& p, const GridValues& inputs, const GridValues& numbers,
                   GridType type, int line, const std::function<Value*(Value*)>& keep) {
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
    const bool swaps = is_any<op::Gt, op::Ge>(c.op);  // machine code has < and <= alone
    if (swaps) std::swap(args[0], args[1]);
    if (type == T::integer && is_any<op::Floor, op::Ceil, op::Round, op::Trunc>(c.op))
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

void expand_formulas(Kernel& k) { Expander(k).body(k.body); }

}  // namespace mt::grid
