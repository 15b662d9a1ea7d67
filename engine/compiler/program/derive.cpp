// derive.cpp -- derivatives of expression programs, and programs of operations: the formulas of kernels/ops.h on
// symbolic values
//
// Derivatives are computed in forward mode, for one input after the other. A `select` selects one of two tangents: that
// of the other branch may be NaN (log of a negative number), which a product with 0 would keep. Values that several
// derivatives need are computed once.
#include <algorithm>

#include "engine/compiler/program/value.h"
#include "engine/ops/ops.h"

namespace mt::ir {
namespace {

using Formula = Value (*)(const Value* operands, const Value* params);
template <class Op, int Part> constexpr Formula derivative_of() {
  if constexpr (op::has_derivative<Op, Part>) return &op::call_formula<Op, Part, Value, Value>;
  else return nullptr;
}
template <class Op> constexpr Formula value_of() {
  if constexpr (op::traceable<Op>) return &op::call_formula<Op, 0, Value, Value>;
  else return nullptr;
}
struct OperationFormulas {
  Formula value, derivative[3];  // derivative[k]: by input k; null: none
};
constinit const auto formulas = table_of(op::Operations{}, [](auto of) {
  using Op = decltype(of);
  return OperationFormulas{
      value_of<Op>(), {derivative_of<Op, 1>(), derivative_of<Op, 2>(), derivative_of<Op, 3>()}};
});

std::vector<Value> values_of(const int* ids, int n) {
  std::vector<Value> list;
  for (int k = 0; k < n; ++k) list.emplace_back(Value::Id{ids[k]});
  return list;
}

/// x + y, where x may be -1, which means 0.
int sum_of(Builder& b, int x, int y) {
  const int in[] = {x, y};
  return x < 0 ? y : b.add(op::id<op::Add>, in);
}

}  // namespace

int add_derivative(Builder& b, int op, int part, const int* operands, int n, const int* params) {
  const Formula f = formulas[op].derivative[part - 1];
  if (!f) return -1;
  const BuilderScope here(b);
  return f(values_of(operands, n).data(), values_of(params, op_row(op).params).data()).id;
}
int add_derivative(Builder& b, int op, int part, const int* operands, int n, const double* params) {
  int constants[op::kMaxParams] = {};
  for (int k = 0; k < op_row(op).params; ++k) constants[k] = b.constant(params[k]);
  return add_derivative(b, op, part, operands, n, constants);
}

namespace {

using ReductionFormula = Value (*)(const Value* operands, const double* numbers);
template <class Op> Value reduction_formula(const Value* v, const double* numbers) {
  using G = op::GradientOf<Op>;
  const auto at = [v](int k) { return v[k < G::inputs ? k : 0]; };
  op::ReduceContext<Value> c{numbers[0], {}, at(G::second)};
  std::copy_n(numbers + 1, op::count_params(Op::info), c.param);
  return Op::template df<Value>(v[0], at(G::x), at(G::y), c);
}
struct ReductionGradient {
  int op;  // of the map verb
  ReductionFormula formula;
};
constinit const auto reduction_gradients = table_of(op::Reductions{}, [](auto of) {
  using Op = decltype(of);
  if constexpr (op::has_gradient_kernel<Op> && !Op::needs_index)
    return ReductionGradient{op::gradient_id<Op>, &reduction_formula<Op>};
  else return ReductionGradient{-1, nullptr};
});

}  // namespace

int add_reduction_gradient(Builder& b, int op, const int* operands, int n, const double* numbers) {
  const auto at = std::ranges::find(reduction_gradients, op, &ReductionGradient::op);
  if (at == std::end(reduction_gradients)) return -1;
  const BuilderScope here(b);
  return at->formula(values_of(operands, n).data(), numbers).id;
}

const Expression* formula_of(int op, const double* params, unsigned unknown) {
  const OpRow& row = op_row(op);
  const Formula f = formulas[op].value;
  if (!f) return nullptr;
  Builder b;
  const BuilderScope here(b);
  std::vector<Value> operands, parameters;
  for (int k = 0; k < row.inputs; ++k) operands.emplace_back(Value::Id{b.input(k)});
  for (int k = 0; k < row.params; ++k)
    parameters.push_back(unknown >> k & 1 ? Value(Value::Id{b.number(k)}) : Value(params[k]));
  const int result = f(operands.data(), parameters.data()).id;
  const Expression& e = b.finish({result}, row.inputs, row.params);
  return e.single_op() == op ? nullptr : &e;
}

namespace {

/// The derivative of `value`, instruction c, by its operand k, times g; -1 if it has none.
int derivative(Builder& b, const Instruction& c, int value, int k, int g) {
  std::vector<int> operand{g};
  for (int slot = 0; slot < 4; ++slot)
    if (op_row(c.op).info->saves[k] >> slot & 1) operand.push_back(slot == 3 ? value : c.in[slot]);
  double params[op::kMaxParams] = {};
  if (const double* given = b.params_of(value)) std::copy_n(given, op::kMaxParams, params);
  return add_derivative(b, c.op, k + 1, operand.data(), int(operand.size()), params);
}

/// The tangent (the derivative by an input) of `value`, instruction c, from the tangents of earlier values; -1 means 0.
int tangent_of(Builder& b, const Instruction& c, int value, const std::vector<int>& tangent) {
  const OpRow& row = op_row(c.op);
  if (row.answers_bool || c.is_bool) return -1;
  const auto at = [&](int k) { return c.in[k] < 0 ? -1 : tangent[c.in[k]]; };
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

/// The gradient of input `by`: the sum over the outputs of the incoming gradient g times the tangent; -1 means 0.
/// `forward`: the number of values of the program itself.
int gradient_by(Builder& b, int by, const std::vector<int>& outputs, const std::vector<int>& g,
                const std::vector<int>& inputs, int forward) {
  std::vector<int> tangent(forward, -1);
  tangent[inputs[by]] = b.constant(1);
  for (int i = 0; i < forward; ++i) {
    const Instruction c = b.instruction(i);
    if (c.op < 0) continue;
    b.set_line(c.line);
    tangent[i] = tangent_of(b, c, i, tangent);
  }
  int sum = -1;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const int t = outputs[k] < 0 ? -1 : tangent[outputs[k]];
    if (t < 0) continue;
    const int factors[] = {g[k], t};
    sum = sum_of(b, sum, b.add(op::id<op::Mul>, factors));
  }
  return sum;
}

}  // namespace

// ---- sums along rows ------------------------------------------------------------------------------

namespace {

/// Builds the sum of a value along a row from sums of its parts, if these depend on fewer other sums. Only values from
/// `first` on are split.
struct RowSums {
  Builder& b;
  const int64_t row;
  const int first;
  std::vector<int> levels = {};  // of the values so far

  int make(int op, int x, int y = -1) {
    const int in[] = {x, y, -1};
    return b.add(op, in);
  }
  /// The largest number of sums along the row in a chain of dependencies of a value.
  int level(int value) {
    for (int i = int(levels.size()); i <= value; ++i) {
      const Instruction c = b.instruction(i);
      int highest = 0;
      for (int v : c.in)
        if (v >= 0) highest = std::max(highest, levels[v]);
      levels.push_back(highest + (c.op == kReduce));
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
      return v >= first && (op == op::id<op::Add> || op == op::id<op::Sub>);
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
};

}  // namespace

int sum_of_row(Builder& b, int value, int64_t row, int first) {
  RowSums sums{b, row, first};
  const int level = sums.level(value), split = sums.sum_below(level, value);
  return split >= 0 ? split : sums.sum_below(level + 1, value);
}

static Expression::Gradient derive(const Expression& e, unsigned wanted) {
  const Program& p = e.program();
  Builder b;
  const BuilderScope scope(b);
  std::vector<int> inputs, g;
  for (int k = 0; k < p.inputs; ++k) inputs.push_back(b.input(k));
  std::vector<int> outputs = b.add(e, inputs);
  const int forward = b.count();
  for (int k = 0; k < p.outputs; ++k) g.push_back(b.input(p.inputs + k));
  for (int k = 0; k < p.outputs; ++k)
    if (e.is_bool(k)) outputs[k] = -1;
  Expression::Gradient result;
  std::vector<int> gradients;
  const size_t first_number =  // the first result that is not bool
      size_t(std::ranges::find_if(outputs, [](int id) { return id >= 0; }) - outputs.begin());
  for (int k = 0; k < p.inputs; ++k) {
    if (!(wanted >> k & 1)) continue;
    int id = gradient_by(b, k, outputs, g, inputs, forward);
    if (id < 0 && first_number >= outputs.size()) continue;
    if (id < 0) {  // the results are step functions of the input: zeros of its shape
      const int factors[] = {g[first_number], b.constant(0)};
      id = b.add(op::id<op::Mul>, factors);
    }
    const auto same = std::ranges::find(g, id);
    if (same != g.end()) {
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

const Expression::Gradient& Expression::gradient(unsigned wanted) const {
  const std::lock_guard guard(lock_);
  std::unique_ptr<Gradient>& g = gradients_[wanted];
  if (g) return *g;
  try {
    g = std::make_unique<Gradient>(derive(*this, wanted));
  } catch (const TooLarge&) {
    g = std::make_unique<Gradient>();
    g->too_large = true;
  }
  return *g;
}

}  // namespace mt::ir
