// apply.cpp -- expression programs on tensors: dtypes, broadcasting, the verb, the recorded gradient
#include "engine/compiler/program/apply.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "engine/autograd/function.h"
#include "engine/compiler/cuda/program_cuda.h"
#include "engine/core/device.h"
#include "engine/core/interceptor.h"
#include "engine/core/step_listener.h"
#include "engine/ops/ops.h"
#include "kernels/tree.h"

namespace mt::ir {
/// Whether an integer dtype can represent x.
static bool can_represent(Dtype dtype, double x) {
  return x < 0x1p63 && with_dtype(dtype, [&](auto zero) {
           return double(math::convert<decltype(zero)>(x)) == x;
         });
}

/// Whether no divisor of a program of integers is 0. Inputs are tested; a computed divisor counts as possibly 0.
static bool has_nonzero_divisors(const Program& p, const std::vector<Tensor>& inputs,
                                 const double* numbers) {
  for (int i = 0; i < p.count; ++i) {
    if (p.code[i].op != op::id<op::Remainder>) continue;
    const Instruction& y = p.code[p.code[i].in[1]];
    if (y.op == kConstant ? y.constant == 0
        : y.op == kNumber ? numbers[y.which] == 0
                          : y.op != kInput || y.which >= int(inputs.size()) ||
                                any(op::eq(inputs[size_t(y.which)].detach(), 0.0)).item() != 0)
      return false;
  }
  return true;
}

Dtype computing_dtype(const Expression& e, const std::vector<Tensor>& inputs,
                      const double* numbers) {
  Dtype tensors = Dtype::none, zero_dim = Dtype::none;
  for (const Tensor& x : inputs) {
    Dtype& kind = x.dim() == 0 ? zero_dim : tensors;
    kind = promote(kind, x.dtype());
  }
  Dtype d = tensors == Dtype::none ? zero_dim : tensors;
  if (tensors != Dtype::none && zero_dim != Dtype::none && !is_float(tensors) &&
      (is_float(zero_dim) || tensors == Dtype::b8))
    d = promote(tensors, zero_dim);
  if (is_float(d)) return d;
  if (d == Dtype::b8) d = Dtype::i64;
  const Program& p = e.program();
  bool integral = e.is_integral() && d != Dtype::none;
  for (int k = 0; k < p.numbers && integral; ++k) integral = can_represent(d, numbers[k]);
  for (int i = 0; i < p.count && integral; ++i)
    if (p.code[i].op == kConstant) integral = can_represent(d, p.code[i].constant);
  return integral && has_nonzero_divisors(p, inputs, numbers) ? d : default_dtype();
}

namespace {

/// The last instruction that reads each value.
std::vector<int> last_reads(const Program& p) {
  std::vector<int> last(p.count, -1);
  for (int i = 0; i < p.count; ++i)
    for (int v : p.code[i].in)
      if (v >= 0) last[v] = i;
  for (int k = 0; k < p.outputs; ++k) last[p.output[k]] = p.count;
  return last;
}

/// Runs the operations one by one: for a program that is too large for a kernel, or has none on this device.
std::vector<Tensor> compose(const Expression& e, const std::vector<Tensor>& in,
                            const double* numbers, Dtype dtype, const Device& device) {
  const Program& p = e.program();
  const std::vector<int> last = last_reads(p);
  std::vector<Tensor> value(p.count), results;
  for (int i = 0; i < p.count; ++i) {
    const Instruction& c = p.code[i];
    const auto single = [&](double x) { return scalar(x, c.is_bool ? Dtype::b8 : dtype, device); };
    Tensor& v = value[i];
    if (c.op == kInput) v = in[c.which];
    else if (c.op == kNumber) v = single(numbers[c.which]);
    else if (c.op == kConstant) v = single(c.constant);
    else {
      const Tensor* inputs[3];
      for (int k = 0; k < 3 && c.in[k] >= 0; ++k) inputs[k] = &value[c.in[k]];
      v = elementwise(c.op, inputs, c.which < 0 ? nullptr : p.params + c.which);
    }
    for (int k : c.in)
      if (k >= 0 && last[k] == i) value[k] = Tensor();
  }
  for (int k = 0; k < p.outputs; ++k) results.push_back(value[p.output[k]]);
  return results;
}

/// Runs the program over operands of its dtype with the shape of `space`.
bool run(const Expression& e, Dtype dtype, const Shape& space, const std::vector<Tensor>& out,
         const std::vector<Tensor>& in, const double* numbers, const Device& device) {
  const Program& p = e.program();
  Run r;
  r.program = &p, r.dtype = dtype, r.numbers = numbers, r.scratch = nullptr;
  const int used = p.outputs + p.inputs;
  const auto operand = [&](int k) -> const Tensor& {
    return k < p.outputs ? out[k] : in[k - p.outputs];
  };
  bool flat = true;
  for (int k = 0; k < used; ++k) {
    const Tensor& x = operand(k);
    r.data[k] = x.data();
    r.is_bool[k] = k < p.outputs && e.is_bool(k);
    flat &= x.is_contiguous();
  }
  r.ndim = flat ? 1 : space.size();
  if (flat) r.size[0] = out[0].numel();
  for (int d = 0; !flat && d < r.ndim; ++d) r.size[d] = space[d];
  for (int k = 0; k < used; ++k) {
    if (flat) r.stride[k][0] = 1;
    else std::memcpy(r.stride[k], operand(k).impl()->stride, sizeof(int64_t) * r.ndim);
  }
  return run_verb(device, Verb::run, &r, call_verb_or_program);
}

/// The results, without a gradient, for inputs of one shape and dtype. Kernels of a GPU read and write
/// 16-bit floats directly, and compute in float32; for all others they are converted to float32.
std::vector<Tensor> compute(const Expression& e, const std::vector<Tensor>& inputs, Dtype dtype,
                            const Shape& space, const Device& device, const double* numbers,
                            const Tensor* target) {
  const Program& p = e.program();
  const Dtype calculated = compute_dtype(dtype);
  const bool fits = p.slots <= kMaxProgramSlots;
  bool alike = true;
  for (const Tensor& x : inputs) alike &= x.dtype() == dtype;
  const auto results_in = [&](Dtype d) {
    std::vector<Tensor> list;
    list.reserve(p.outputs);
    for (int k = 0; k < p.outputs; ++k)
      list.push_back(result_in(target, space, e.is_bool(k) ? Dtype::b8 : d, device));
    return list;
  };
  if (is_half(dtype) && alike && fits && !is_cpu(device)) {
    std::vector<Tensor> results = results_in(dtype);
    if (run(e, dtype, space, results, inputs, numbers, device)) return results;
  }
  std::vector<Tensor> converted;
  // Column-major operands are copied to row-major order, which results have.
  const bool copies = std::any_of(inputs.begin(), inputs.end(), is_column_major);
  for (size_t k = 0; (copies || !alike || calculated != dtype) && k < inputs.size(); ++k) {
    const Tensor x = to(inputs[k].detach(), calculated);
    converted.push_back(is_column_major(x) ? contiguous(x) : x);
  }
  const std::vector<Tensor>& in = converted.empty() ? inputs : converted;
  std::vector<Tensor> results = results_in(calculated);
  if (!fits || !run(e, calculated, space, results, in, numbers, device)) {
    const NoGrad off;
    const std::vector<Tensor> made = compose(e, in, numbers, calculated, device);
    for (int k = 0; k < p.outputs; ++k) copy_(results[k], made[k]);
  }
  if (calculated != dtype)
    for (int k = 0; k < p.outputs; ++k)
      if (!e.is_bool(k)) results[k] = to(results[k], dtype);
  return results;
}

// ---- the recorded gradient --------------------------------------------------------------------------

/// The data in the node of a program; its numbers follow.
struct SavedProgram {
  const Expression::Gradient* gradient;
  int8_t slot[kMaxProgramOperands];  // of a gradient's operands: their slot in the node; -1: g
};
constexpr size_t kKeptDoubles = (sizeof(SavedProgram) + sizeof(double) - 1) / sizeof(double);

void program_backward(Node& node, const Tensor& g, Tensor* dx) {
  const double* const list = node.kept_list<double>();
  SavedProgram kept;
  std::memcpy(&kept, list, sizeof kept);
  const Expression::Gradient& d = *kept.gradient;
  for (const auto& same : d.passed)
    if (node.wants(same.input)) dx[same.input] = g;
  if (!d.expression) return;
  std::vector<Tensor> operands;
  operands.reserve(d.operands.size());
  for (size_t k = 0; k < d.operands.size(); ++k)
    operands.push_back(kept.slot[k] < 0 ? g : node.get(kept.slot[k]));
  const std::vector<Tensor> found = apply_in(*d.expression, "a compiled gradient", operands,
                                             g.dtype(), g.shape(), g.device(), list + kKeptDoubles);
  for (size_t k = 0; k < d.inputs.size(); ++k)
    if (node.wants(d.inputs[k])) dx[d.inputs[k]] = found[k];
}
const NodeType kProgram{"map", program_backward};

/// Records a program of one result whose gradient reads at most kMaxSaved inputs, as one node; false if it reads more.
bool record_small(const Expression& e, const Expression::Gradient& d,
                  const std::vector<Tensor>& inputs, const Tensor& out, const double* numbers) {
  SavedProgram kept{&d, {}};
  int saved = 0;
  for (size_t k = 0; k < d.operands.size(); ++k)
    kept.slot[k] = int8_t(d.operands[k] == 0 ? -1 : saved++);
  if (saved > kMaxSaved) return false;
  Node& node = record(kProgram, out, inputs);
  for (size_t k = 0; k < d.operands.size(); ++k)
    if (kept.slot[k] >= 0) node.save(kept.slot[k], inputs[d.operands[k] - 1], d.operands[k] - 1);
  double* const list = node.keep_list<double>(kKeptDoubles + size_t(e.program().numbers));
  std::memcpy(list, &kept, sizeof kept);
  for (int k = 0; k < e.program().numbers; ++k) list[kKeptDoubles + size_t(k)] = numbers[k];
  return true;
}

/// Records any other program, as a CustomFunction.
std::vector<Tensor> record_large(const Expression& e, const Expression::Gradient& d,
                                 const char* name, const Shape& space,
                                 const std::vector<Tensor>& inputs,
                                 const std::vector<Tensor>& outputs, const double* numbers) {
  const int results = e.program().outputs;
  std::vector<Tensor> save;
  std::vector<int> place;  // of an operand: index in `save`, or -1 - result
  for (int k : d.operands) {
    place.push_back(k < results ? -1 - k : int(save.size()));
    if (k >= results) save.push_back(inputs[k - results]);
  }
  std::vector<double> kept(numbers, numbers + e.program().numbers);
  const Dtype dtype = inputs[0].dtype();
  const Device* const device = &inputs[0].device();
  const auto backward = [&d, place, kept, n = inputs.size(), space, dtype,
                         device](const std::vector<Tensor>& g) {
    const std::vector<Tensor> saved = saved_tensors();
    std::vector<Tensor> operands, dx(n);
    for (const auto& same : d.passed) dx[same.input] = g[same.result];
    if (!d.expression) return dx;
    for (int k : place) operands.push_back(k < 0 ? g[-1 - k] : saved[k]);
    const std::vector<Tensor> found = apply_in(*d.expression, "a compiled gradient", operands,
                                               dtype, space, *device, kept.data());
    for (size_t k = 0; k < d.inputs.size(); ++k) dx[d.inputs[k]] = found[k];
    return dx;
  };
  return record_function(name, inputs, outputs, std::vector<bool>(outputs.size(), false), save,
                         backward);
}

std::vector<Tensor> record_gradient(const Expression& e, const char* name, const Shape& space,
                                    const std::vector<Tensor>& inputs, std::vector<Tensor> outputs,
                                    const double* numbers) {
  unsigned wanted = 0;
  for (size_t k = 0; k < inputs.size(); ++k) wanted |= unsigned(inputs[k].requires_grad()) << k;
  const Expression::Gradient& d = e.gradient(wanted);
  if (d.too_large) return apply_each(e, inputs, inputs[0].dtype(), space, numbers);
  if (!d.expression && d.passed.empty()) return outputs;
  if (outputs.size() == 1 && record_small(e, d, inputs, outputs[0], numbers)) return outputs;
  return record_large(e, d, name, space, inputs, outputs, numbers);
}

/// Whether all have the same float dtype.
bool have_one_float_dtype(const std::vector<Tensor>& given) {
  bool same = is_float(given[0].dtype());
  for (const Tensor& x : given) same &= x.dtype() == given[0].dtype();
  return same;
}
/// The result of a program that is one operation, for tensors that broadcast.
Tensor apply_single_op(const Expression& e, const std::vector<Tensor>& given) {
  const Tensor* all[kMaxProgramInputs];
  for (size_t k = 0; k < given.size(); ++k) all[k] = &given[k];
  return elementwise(e.single_op(), all);
}

}  // namespace

std::vector<Tensor> apply(const Expression& e, const char* name, const std::vector<Tensor>& given,
                          const double* numbers) {
  const Tensor* const out = Into::take();
  if (given.empty()) fail("{}: it needs a tensor", name);
  const Device& device = given[0].device();
  const Dtype dtype = computing_dtype(e, given, numbers);
  Shape shape = given[0].shape();
  bool wants = false, alike = true;
  for (const Tensor& x : given) {
    check_together(name, given[0], x);
    alike &= x.dtype() == dtype && x.shape() == shape;
    if (x.shape() != shape) shape = broadcast(name, shape, x.shape());
    wants |= wants_grad(x);
  }
  if (e.single_op() >= 0 && !out && have_one_float_dtype(given)) return {apply_single_op(e, given)};
  std::vector<Tensor> made;
  for (size_t k = 0; !alike && k < given.size(); ++k) {
    const Tensor& y = wants ? to(given[k], dtype) : given[k];
    made.push_back(y.shape() == shape ? y : expand(y, shape));
  }
  const std::vector<Tensor>& inputs = alike ? given : made;
  std::vector<Tensor> results = compute(e, inputs, dtype, shape, device, numbers, out);
  return wants && is_float(dtype)
             ? record_gradient(e, name, shape, inputs, std::move(results), numbers)
             : results;
}

std::vector<Tensor> apply_each(const Expression& e, const std::vector<Tensor>& inputs, Dtype dtype,
                               const Shape& space, const double* numbers) {
  const Dtype calculated = compute_dtype(dtype);
  std::vector<Tensor> wider;
  for (const Tensor& x : inputs) wider.push_back(to(x, calculated));
  std::vector<Tensor> results = compose(e, wider, numbers, calculated, inputs[0].device());
  for (int k = 0; k < e.program().outputs; ++k) {
    Tensor& y = results[k];
    if (y.shape() != space) y = contiguous(expand(y, space));
    if (!e.is_bool(k)) y = to(y, dtype);
  }
  return results;
}

std::vector<Tensor> apply_in(const Expression& e, const char* name,
                             const std::vector<Tensor>& inputs, Dtype dtype, const Shape& space,
                             const Device& device, const double* numbers) {
  bool wants = false;
  for (const Tensor& x : inputs) wants |= wants_grad(x);
  std::vector<Tensor> results = compute(e, inputs, dtype, space, device, numbers, nullptr);
  return wants ? record_gradient(e, name, space, inputs, std::move(results), numbers) : results;
}

// ---- reductions by a function of two numbers -----------------------------------------------------------

namespace {

constexpr const char* kName = "reduce";

/// Combines pairs of neighbours of x [outer, n, inner], level by level, until at most `results` are left.
Tensor combine_levels(const Pair& pair, Tensor x, int64_t results = 1) {
  while (x.size(1) > results) {
    const int64_t n = x.size(1), half = n / 2;
    const Tensor y = pair(slice(x, 1, 0, half, 2), slice(x, 1, 1, half, 2));
    x = n % 2 ? cat({y, to(slice(x, 1, n - 1, 1), y.dtype())}, 1) : y;
  }
  return x;
}
/// The program as a function of tensors.
Pair as_pair(const Expression& pair, const std::vector<double>& numbers) {
  return [&pair, numbers](const Tensor& a, const Tensor& b) {
    return apply(pair, kName, {a, b}, numbers.data())[0];
  };
}

/// Two levels of pairs at once, f(f(a, b), f(c, d)); null if that is too large.
const Program* pair_of_pairs(const Expression& pair) {
  if (3 * pair.program().count > kMaxProgramSlots) return nullptr;
  static std::mutex lock;
  static auto* const cache = new std::unordered_map<const Expression*, const Program*>;
  const std::lock_guard guard(lock);
  const Program*& program = (*cache)[&pair];
  if (program) return program;
  Builder b;
  const auto combine = [&](int x, int y) { return b.add(pair, {x, y})[0]; };
  const int first = combine(b.input(0), b.input(1)), second = combine(b.input(2), b.input(3));
  return program = &b.finish({combine(first, second)}, 4, pair.program().numbers).program();
}
Tree tree_of(const Expression& pair, const Tensor& x, const double* numbers, const Tensor& out) {
  return {&pair.program(), nullptr,   x.size(2) < kTreeLongRow ? nullptr : pair_of_pairs(pair),
          x.dtype(),       x.size(0), x.size(1),
          x.size(2),       numbers,   {},
          x.data(),        nullptr,   out.data()};
}
/// Reduces each line of x [outer, n, inner], contiguous, to tree_results(n, inner) elements.
Tensor reduce_pass(const Expression& pair, const Tensor& x, const std::vector<double>& numbers) {
  const int64_t results = tree_results(x.size(1), x.size(2));
  const Tensor y = empty({x.size(0), results, x.size(2)}, x.dtype());
  run_tree_on_cpu(tree_of(pair, x, numbers.data(), y));
  if (!wants_grad(x)) return y;
  const auto composed = [pair = as_pair(pair, numbers), results](const TensorList& in) {
    return std::vector{combine_levels(pair, in[0], results)};
  };
  const Expression::Gradient& d = pair.gradient(3);
  if (!d.expression || d.inputs.size() != 2) return composed({x})[0];
  const auto backward = [&pair, &d, numbers, composed](const TensorList& g) {
    const TensorList of = saved_tensors();
    if (grad_enabled()) return recorded_gradients(composed, of, g);
    const Tensor grad = contiguous(g[0]), dx = empty(of[0].shape(), of[0].dtype());
    Tree t = tree_of(pair, of[0], numbers.data(), dx);
    t.gradient = &d.expression->program(), t.grad = grad.data();
    for (size_t k = 0; k < d.operands.size(); ++k) t.operand[k] = int8_t(d.operands[k]);
    run_tree_on_cpu(t);
    return std::vector{dx};
  };
  return record_function(kName, {x}, {y}, {false}, {x}, backward)[0];
}

/// `reduce` of x as [outer, n, inner] in the compute dtype of `dtype`; a copy of a single element.
Tensor along(const Tensor& x, int dim, Dtype dtype, const auto& reduce) {
  Shape shape = x.shape(), lines{1, shape[dim], 1};
  for (int d = 0; d < shape.size(); ++d)
    if (d != dim) lines[d < dim ? 0 : 2] *= shape[d];
  shape[dim] = 1;
  const Tensor given = reshape(to(x, compute_dtype(dtype)), lines);
  const Tensor y = lines[1] > 1 ? reduce(given) : clone(given);
  return reshape(y.dtype() == compute_dtype(dtype) ? to(y, dtype) : y, shape);
}

}  // namespace

Tensor reduce_pairs(const Pair& pair, const Tensor& x, int dim) {
  return along(x, dim, x.dtype(), [&](const Tensor& lines) { return combine_levels(pair, lines); });
}

Tensor reduce_pairs(const Expression& pair, const Tensor& x, int dim, const double* numbers) {
  const Dtype dtype = computing_dtype(pair, {x}, numbers);
  const std::vector<double> kept(numbers, numbers + pair.program().numbers);
  return along(x, dim, dtype, [&](Tensor y) {
    if (!is_cpu(x.device()) || step_recorder || pair.program().slots > kMaxProgramSlots)
      return combine_levels(as_pair(pair, kept), y);
    for (y = contiguous(y); y.size(1) > 1;) y = reduce_pass(pair, y, kept);
    return y;
  });
}

}  // namespace mt::ir
