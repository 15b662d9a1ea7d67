// derive.cpp -- derivatives of expression programs, and programs of operations: the formulas of kernels/ops.h on
// symbolic values
//
// In forward mode, for one input after the other: a `select` selects one of two slopes, so the slope of
// the branch that was not selected (log of a negative number) does no harm, unlike 0 times it. Values
// that several derivatives need are computed once. Programs by rows use reverse mode, as a graph does.
#include <algorithm>

#include "engine/compiler/program/value.h"
#include "engine/ops/ops.h"

namespace mt::ir {
namespace {

using Formula = Value (*)(const Value* operands, const double* params);
using OwnFormula = Value (*)(const Value* operands, const Value* params);
template <class Op, int Part> constexpr Formula derivative_of() {
  if constexpr (op::has_derivative<Op, Part>) return &op::call_formula<Op, Part, Value>;
  else return nullptr;
}
template <class Op> constexpr OwnFormula own_formula() {
  if constexpr (op::traceable<Op>) return &op::call_formula<Op, 0, Value, Value>;
  else return nullptr;
}
struct Row {
  OwnFormula own;
  Formula by[3];
};
constinit const auto formulas = table_of(op::Operations{}, [](auto of) {
  using Op = decltype(of);
  return Row{own_formula<Op>(),
             {derivative_of<Op, 1>(), derivative_of<Op, 2>(), derivative_of<Op, 3>()}};
});

/// a + b, where -1 means 0.
int sum_of(Builder& b, int x, int y) {
  const int in[] = {x, y};
  return x < 0 ? y : b.add(op::id<op::Add>, in);
}

}  // namespace

int add_derivative(Builder& b, int op, int part, const int* operands, int n, const double* params) {
  const Formula f = formulas[op].by[part - 1];
  if (!f) return -1;
  const Building here(b);
  std::vector<Value> list;
  for (int k = 0; k < n; ++k) list.emplace_back(Value::Id{operands[k]});
  return f(list.data(), params).id;
}

const Expression* formula_of(int op, const double* params, unsigned unknown) {
  const OpRow& row = op_row(op);
  const OwnFormula f = formulas[op].own;
  if (!f) return nullptr;
  Builder b;
  const Building here(b);
  std::vector<Value> operands, parameters;
  for (int k = 0; k < row.inputs; ++k) operands.emplace_back(Value::Id{b.input(k)});
  for (int k = 0; k < row.params; ++k)
    parameters.push_back(unknown >> k & 1 ? Value(Value::Id{b.number(k)}) : Value(params[k]));
  const int result = f(operands.data(), parameters.data()).id;
  const Expression& e = b.finish({result}, row.inputs, row.params);
  return e.alone() == op ? nullptr : &e;
}

namespace {

/// The derivative of `value`, instruction c, by its operand k, times g; -1 if it has none.
int derivative(Builder& b, const Instruction& c, int value, int k, int g) {
  const Formula f = formulas[c.op].by[k];
  if (!f) return -1;
  std::vector<Value> operand{Value(Value::Id{g})};
  for (int slot = 0; slot < 4; ++slot)
    if (op_row(c.op).info->saves[k] >> slot & 1)
      operand.emplace_back(Value::Id{slot == 3 ? value : c.in[slot]});
  double params[op::kMaxParams] = {};
  if (const double* given = b.params_of(value)) std::copy_n(given, op::kMaxParams, params);
  return f(operand.data(), params).id;
}

/// The derivative of value i by an input, given those of its operands (-1: 0); -1 if it is 0.
int slope_of(Builder& b, const Instruction& c, int value, const std::vector<int>& slope) {
  const OpRow& row = op_row(c.op);
  if (row.answers_bool || c.is_bool) return -1;
  const auto at = [&](int k) { return c.in[k] < 0 ? -1 : slope[c.in[k]]; };
  if (c.op == op::id<op::Where>) {
    if (at(1) < 0 && at(2) < 0) return -1;
    const int in[] = {c.in[0], at(1) < 0 ? b.constant(0) : at(1),
                      at(2) < 0 ? b.constant(0) : at(2)};
    return b.add(c.op, in);
  }
  int sum = -1;
  for (int k = 0; k < row.inputs; ++k) {
    if (at(k) < 0) continue;
    const int part = derivative(b, c, value, k, at(k));
    if (part < 0) {
      if (!row.differentiable) fail("{} in a compiled function has no gradient", row.info->name);
      continue;
    }
    const auto zero = b.constant_of(part);
    if (zero && *zero == 0) continue;
    sum = sum_of(b, sum, part);
  }
  return sum;
}

/// The gradient of input `by`: the sum over results of incoming gradient times slope, or -1.
int gradient_by(Builder& b, int by, const std::vector<int>& outputs, const std::vector<int>& g,
                const std::vector<int>& inputs, int forward) {
  std::vector<int> slope(forward, -1);
  slope[inputs[by]] = b.constant(1);
  for (int i = 0; i < forward; ++i) {
    const Instruction c = b.instruction(i);
    if (c.op < 0) continue;
    b.set_line(c.line);
    slope[i] = slope_of(b, c, i, slope);
  }
  int sum = -1;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const int s = outputs[k] < 0 ? -1 : slope[outputs[k]];
    if (s < 0) continue;
    const int factors[] = {g[k], s};
    sum = sum_of(b, sum, b.add(op::id<op::Mul>, factors));
  }
  return sum;
}

// ---- programs by rows: adjoints, from the results to the inputs -------------------------------------

using ReduceFormula = Value (*)(const Value& g, const Value& x, const Value& y, double count,
                                double param);
template <class Op>
Value reduce_slope(const Value& g, const Value& x, const Value& y, double count, double param) {
  Builder& b = Building::current();
  op::ReduceContext<Value> c{count, {}, Value()};
  c.param[0] = param;
  const auto reduced = [&](auto other, const Value& of) {
    return Value(Value::Id{b.reduce(op::reduction_id<decltype(other)>, of.id)});
  };
  if constexpr (Op::ties_share) c.second = reduced(op::Sum{}, Value(Op::ties(x, y)));
  else if constexpr ((Op::info.reads & op::reads_second) != 0)
    c.second = Op::second_of([&](auto other) { return reduced(other, x); }, count);
  return Op::template df<Value>(g, x, y, c);
}
template <class Op> constexpr ReduceFormula reduce_formula() {
  if constexpr (op::has_df<Op> && !Op::needs_index) return &reduce_slope<Op>;
  else return nullptr;
}
constinit const auto reduce_formulas =
    table_of(op::Reductions{}, [](auto op) { return reduce_formula<decltype(op)>(); });

/// Processes a program by rows in reverse.
struct Adjoints {
  Builder& b;
  const int64_t row;
  const int forward;        // the first values are those of the program itself
  std::vector<int> of;      // a value's adjoint; -1: 0
  std::vector<int> levels;  // of the values so far

  int make(int op, int x, int y = -1) {
    const int in[] = {x, y, -1};
    return b.add(op, in);
  }
  /// The number of sums along the row that must be computed one after the other for a value.
  int level(int value) {
    for (int i = int(levels.size()); i <= value; ++i) {
      const Instruction c = b.instruction(i);
      int most = 0;
      for (int v : c.in)
        if (v >= 0) most = std::max(most, levels[v]);
      levels.push_back(most + (c.op == kReduce));
    }
    return levels[value];
  }
  /// The sum along the row, built from sums of parts of a level below `limit`: a factor that is the
  /// same in the row is taken out, a sum of terms is summed term by term. -1 if that is not possible.
  int sum_below(int limit, int part, int depth = 0) {
    const Instruction c = b.instruction(part);
    if (b.is_row(part)) return make(op::id<op::Mul>, part, b.constant(double(row)));
    const auto splits = [&](int v) {  // x - mean is summed as a whole: its terms may be much larger
      const int16_t op = b.instruction(v).op;
      return v >= forward && (op == op::id<op::Add> || op == op::id<op::Sub>);
    };
    const bool by_row = splits(part) && (b.is_row(c.in[0]) || b.is_row(c.in[1]));
    if (level(part) < limit && !by_row) return b.reduce(op::reduction_id<op::Sum>, part);
    if (depth > 12) return -1;
    const auto inner = [&](int x) { return sum_below(limit, x, depth + 1); };
    const auto then = [&](int sum, int op, int other) {
      return sum < 0 ? -1 : make(op, sum, other);
    };
    const auto both = [&](int op, int x, int y) {
      const int first = inner(x), second = first < 0 ? -1 : inner(y);
      return second < 0 ? -1 : make(op, first, second);
    };
    if (c.op == op::id<op::Neg>) return then(inner(c.in[0]), c.op, -1);
    if (splits(part)) return both(c.op, c.in[0], c.in[1]);
    if (c.op == op::id<op::Div>)
      return b.is_row(c.in[1]) ? then(inner(c.in[0]), c.op, c.in[1]) : -1;
    if (c.op != op::id<op::Mul>) return -1;
    for (int k = 0; k < 2; ++k) {
      const int other = c.in[1 - k];
      const Instruction f = b.instruction(c.in[k]);
      const auto times = [&](int x) {
        return make(op::id<op::Mul>, std::min(x, other), std::max(x, other));
      };
      if (b.is_row(c.in[k])) return then(inner(other), c.op, c.in[k]);
      if (f.op == op::id<op::Neg>) return then(inner(times(f.in[0])), f.op, -1);
      const bool product = f.op == op::id<op::Mul>, quotient = f.op == op::id<op::Div>;
      if ((product || quotient) && b.is_row(f.in[1]))
        return then(inner(times(f.in[0])), f.op, f.in[1]);
      if (product && b.is_row(f.in[0])) return then(inner(times(f.in[1])), f.op, f.in[0]);
      if (splits(c.in[k])) return both(f.op, times(f.in[0]), times(f.in[1]));
    }
    return -1;
  }
  /// The sum along the row: if possible, of parts of a low level, so that one pass over the row
  /// computes several sums; otherwise of parts that are not the same in the whole row.
  int row_sum(int part) {
    const int early = sum_below(level(part), part);
    return early >= 0 ? early : sum_below(level(part) + 1, part);
  }

  void add(int value, int part, bool from_elements) {
    if (from_elements && b.is_row(value) && !is_single(value)) part = row_sum(part);
    of[value] = sum_of(b, of[value], part);
  }
  bool is_single(int value) const {
    const int op = b.instruction(value).op;
    return op == kConstant || op == kNumber;
  }
  void visit(int i) {
    const Instruction c = b.instruction(i);
    const int g = of[i];
    if (g < 0 || c.is_bool || (c.op < 0 && c.op != kReduce)) return;
    b.set_line(c.line);
    if (c.op == kReduce) {
      const ReduceFormula f = reduce_formulas[c.which];
      if (!f) fail("{} in a fused function has no gradient", reduce_row(c.which).info->name);
      const Value x(Value::Id{c.in[0]}), y(Value::Id{i});
      return add(c.in[0], f(Value(Value::Id{g}), x, y, double(row), c.constant).id, false);
    }
    for (int k = 0; k < op_row(c.op).inputs; ++k) {
      if (b.is_bool(c.in[k]) || is_single(c.in[k])) continue;
      const int part = derivative(b, c, i, k, g);
      if (part >= 0) add(c.in[k], part, !c.is_row);
    }
  }
};

Expression::Gradient derive(const Expression& e, unsigned wanted, int64_t row) {
  const Program& p = e.program();
  Builder b;
  const Building scope(b);
  std::vector<int> inputs, g;
  std::vector<char> row_input(p.inputs, 0);
  for (int i = 0; i < p.count; ++i)
    if (p.code[i].op == kInput) row_input[p.code[i].which] = p.code[i].is_row;
  for (int k = 0; k < p.inputs; ++k) inputs.push_back(b.input(k, row_input[k]));
  std::vector<int> outputs = b.add(e, inputs);
  const int forward = b.count();
  for (int k = 0; k < p.outputs; ++k) g.push_back(b.input(p.inputs + k, p.by_rows && e.is_row(k)));
  for (int k = 0; k < p.outputs; ++k)
    if (e.is_bool(k)) outputs[k] = -1;
  Expression::Gradient result;
  std::vector<int> gradients;
  Adjoints adjoint{b, row, forward, std::vector<int>(forward, -1), {}};
  for (size_t k = 0; p.by_rows && k < outputs.size(); ++k)
    if (outputs[k] >= 0) adjoint.add(outputs[k], g[k], false);
  for (int i = forward - 1; p.by_rows && i >= 0; --i) adjoint.visit(i);
  const size_t number =  // the first result that is not bool
      size_t(std::ranges::find_if(outputs, [](int id) { return id >= 0; }) - outputs.begin());
  for (int k = 0; k < p.inputs; ++k) {
    if (!(wanted >> k & 1)) continue;
    int id = p.by_rows ? adjoint.of[inputs[k]] : gradient_by(b, k, outputs, g, inputs, forward);
    if (id < 0 && number >= outputs.size()) continue;
    if (id < 0) {  // the results are step functions of it: 0, in its shape
      const int factors[] = {g[number], b.constant(0)};
      id = b.add(op::id<op::Mul>, factors);
      if (p.by_rows) adjoint.add(inputs[k], id, !b.is_row(id));
      if (p.by_rows) id = adjoint.of[inputs[k]];
    }
    const auto same = std::ranges::find(g, id);
    if (!p.by_rows && same != g.end()) {
      result.passed.push_back({k, int(same - g.begin())});
      continue;
    }
    gradients.push_back(id);
    result.inputs.push_back(k);
  }
  if (gradients.empty()) return result;
  result.expression = &b.finish(gradients, result.operands);
  for (int& k : result.operands) k = k < p.inputs ? p.outputs + k : k - p.inputs;
  return result;
}

}  // namespace

const Expression::Gradient& Expression::gradient(unsigned wanted, int64_t row) const {
  const std::lock_guard guard(lock_);
  std::unique_ptr<Gradient>& g = gradients_[{wanted, row}];
  if (g) return *g;
  try {
    g = std::make_unique<Gradient>(derive(*this, wanted, row));
  } catch (const TooLarge&) {
    g = std::make_unique<Gradient>();
    g->too_large = true;
  }
  return *g;
}

}  // namespace mt::ir
