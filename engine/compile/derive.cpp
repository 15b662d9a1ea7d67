// derive.cpp -- derivatives of expression programs: the formulas of kernels/ops.h on symbolic values
//
// In forward mode, by one input after the other: a `select` takes one of two slopes, so the slope of
// the branch that was not taken (log of a negative number) does no harm, as 0 times it would. Values
// that several derivatives need are computed once.
#include <map>
#include <mutex>

#include "engine/compile/value.h"
#include "engine/ops/ops.h"

namespace mt::ir {
namespace {

using Formula = Value (*)(const Value* operands, const double* params);
template <class Op, int Part, int... I, int... S>
Value call(const Value* operand, const double* params, std::integer_sequence<int, I...>,
           std::integer_sequence<int, S...>) {
  (void)params;
  return op::Formula<Op, Part>::call(operand[I]..., Value(params[S])...);
}
template <class Op, int Part> Value call(const Value* operand, const double* params) {
  return call<Op, Part>(operand, params, std::make_integer_sequence<int, op::operands<Op, Part>>{},
                        std::make_integer_sequence<int, op::count_params(Op::info)>{});
}
template <class Op, int Part> constexpr Formula formula_of() {
  if constexpr (op::has_derivative<Op, Part>) return &call<Op, Part>;
  else return nullptr;
}
struct Row {
  Formula by[3];
};
template <class... Op> std::array<Row, kOps> collect(op::List<Op...>) {
  return {{{{formula_of<Op, 1>(), formula_of<Op, 2>(), formula_of<Op, 3>()}}...}};
}
const std::array<Row, kOps> formulas = collect(op::Elementwise{});

/// The derivative of value i by an input, given those of its operands (-1: 0), or -1.
int slope_of(Builder& b, const Instruction& c, int value, const std::vector<int>& slope) {
  const OpRow& row = op_row(c.op);
  if (row.answers_bool || c.is_bool) return -1;
  const auto at = [&](int k) { return c.in[k] < 0 ? -1 : slope[size_t(c.in[k])]; };
  if (c.op == op::id<op::Where>) {
    if (at(1) < 0 && at(2) < 0) return -1;
    const int in[] = {c.in[0], at(1) < 0 ? b.constant(0) : at(1),
                      at(2) < 0 ? b.constant(0) : at(2)};
    return b.add(c.op, in);
  }
  int sum = -1;
  for (int k = 0; k < row.inputs; ++k) {
    if (at(k) < 0) continue;
    const Formula f = formulas[size_t(c.op)].by[k];
    if (!f) {
      if (!row.differentiable) fail("{} in a compiled function has no gradient", row.info->name);
      continue;
    }
    std::vector<Value> operand{Value(Value::Id{at(k)})};
    for (int slot = 0; slot < 4; ++slot)
      if (row.info->saves[k] >> slot & 1)
        operand.emplace_back(Value::Id{slot == 3 ? value : c.in[slot]});
    const double* const params = b.params_of(value);
    const double copied[4] = {params ? params[0] : 0, params ? params[1] : 0,
                              params ? params[2] : 0, params ? params[3] : 0};
    const int part = f(operand.data(), copied).id;
    const auto zero = b.constant_of(part);
    if (zero && *zero == 0) continue;
    const int in[] = {sum, part};
    sum = sum < 0 ? part : b.add(op::id<op::Add>, in);
  }
  return sum;
}

/// The gradient of input `by`: the sum over results of incoming gradient times slope, or -1.
int gradient_by(Builder& b, int by, const std::vector<int>& outputs, const std::vector<int>& g,
                const std::vector<int>& inputs, int forward) {
  std::vector<int> slope(size_t(forward), -1);
  slope[size_t(inputs[size_t(by)])] = b.constant(1);
  for (int i = 0; i < forward; ++i) {
    const Instruction c = b.instruction(i);
    if (c.op < 0) continue;
    b.set_line(c.line);
    slope[size_t(i)] = slope_of(b, c, i, slope);
  }
  int sum = -1;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const int s = outputs[k] < 0 ? -1 : slope[size_t(outputs[k])];
    if (s < 0) continue;
    const int factors[] = {g[k], s};
    const int part = b.add(op::id<op::Mul>, factors);
    const int in[] = {sum, part};
    sum = sum < 0 ? part : b.add(op::id<op::Add>, in);
  }
  return sum;
}

Expression::Gradient derive(const Expression& e, unsigned wanted) {
  const Program& p = e.program();
  Builder b;
  const Building scope(b);
  std::vector<int> inputs, g;
  for (int k = 0; k < p.inputs; ++k) inputs.push_back(b.input(k));
  std::vector<int> outputs = b.add(e, inputs);
  const int forward = b.count();
  for (int k = 0; k < p.outputs; ++k) g.push_back(b.input(p.inputs + k));
  for (int k = 0; k < p.outputs; ++k)
    if (e.is_bool(k)) outputs[size_t(k)] = -1;
  Expression::Gradient result;
  std::vector<int> gradients;
  for (int k = 0; k < p.inputs; ++k) {
    if (!(wanted >> k & 1)) continue;
    const int id = gradient_by(b, k, outputs, g, inputs, forward);
    if (id < 0) continue;
    gradients.push_back(id);
    result.inputs.push_back(k);
  }
  if (gradients.empty()) return result;
  // The same once more, with inputs for those operands alone that it reads.
  const Expression& all = b.finish(gradients, p.inputs + p.outputs, p.numbers);
  std::vector<int> place(size_t(p.inputs + p.outputs), -1);
  Builder compact;
  for (int i = 0; i < all.program().count; ++i) {
    const Instruction& c = all.program().code[i];
    if (c.op != kInput) continue;
    const int k = c.which;
    place[size_t(k)] = compact.input(int(result.operands.size()));
    result.operands.push_back(k < p.inputs ? p.outputs + k : k - p.inputs);
  }
  const std::vector<int> ids = compact.add(all, place);
  result.expression = &compact.finish(ids, int(result.operands.size()), p.numbers);
  return result;
}

}  // namespace

struct Expression::Derived {
  std::mutex lock;
  std::map<unsigned, std::unique_ptr<Gradient>> known;
};

const Expression::Gradient& Expression::gradient(unsigned wanted) const {
  const std::lock_guard guard(derived_->lock);
  std::unique_ptr<Gradient>& g = derived_->known[wanted];
  if (!g) g = std::make_unique<Gradient>(derive(*this, wanted));
  return *g;
}
std::shared_ptr<Expression::Derived> Expression::make_derived() {
  return std::make_shared<Derived>();
}

}  // namespace mt::ir
