// tree.cpp -- reductions by a function of two numbers: in blocks, pass by pass, or level by level
#include "engine/compiler/program/apply.h"

#include <mutex>
#include <unordered_map>

#include "engine/autograd/function.h"
#include "engine/core/device.h"
#include "engine/core/step_listener.h"
#include "engine/ops/ops.h"
#include "kernels/tree.h"

namespace mt::ir {
namespace {

constexpr const char* kName = "reduce";

/// Combines pairs of neighbours of x [outer, n, inner] until at most `results` are left.
Tensor levels(const Pair& pair, Tensor x, int64_t results = 1) {
  while (x.size(1) > results) {
    const int64_t n = x.size(1), half = n / 2;
    const Tensor y = pair(slice(x, 1, 0, half, 2), slice(x, 1, 1, half, 2));
    x = n % 2 ? cat({y, to(slice(x, 1, n - 1, 1), y.dtype())}, 1) : y;
  }
  return x;
}
Pair applied(const Expression& pair, const std::vector<double>& numbers) {
  return [&pair, numbers](const Tensor& a, const Tensor& b) {
    return apply(pair, kName, {a, b}, numbers.data())[0];
  };
}

/// Two levels of pairs at once, f(f(a, b), f(c, d)); null if that is too large.
const Program* pair_of_pairs(const Expression& pair) {
  if (3 * pair.program().count > kMaxProgramSlots) return nullptr;
  static std::mutex lock;
  static auto* const known = new std::unordered_map<const Expression*, const Program*>;
  const std::lock_guard guard(lock);
  const Program*& made = (*known)[&pair];
  if (made) return made;
  Builder b;
  const auto joined = [&](int x, int y) { return b.add(pair, {x, y})[0]; };
  const int first = joined(b.input(0), b.input(1)), second = joined(b.input(2), b.input(3));
  return made = &b.finish({joined(first, second)}, 4, pair.program().numbers).program();
}
Tree tree_of(const Expression& pair, const Tensor& x, const double* numbers, const Tensor& out) {
  return {&pair.program(), nullptr,   x.size(2) < kTreeLongRow ? nullptr : pair_of_pairs(pair),
          x.dtype(),       x.size(0), x.size(1),
          x.size(2),       numbers,   {},
          x.data(),        nullptr,   out.data()};
}
/// Reduces each line of x [outer, n, inner], contiguous, to one element.
Tensor pass(const Expression& pair, const Tensor& x, const std::vector<double>& numbers) {
  const int64_t results = tree_results(x.size(1), x.size(2));
  const Tensor y = empty({x.size(0), results, x.size(2)}, x.dtype());
  run_tree_on_cpu(tree_of(pair, x, numbers.data(), y));
  if (!wants_grad(x)) return y;
  const auto composed = [pair = applied(pair, numbers), results](const TensorList& in) {
    return std::vector{levels(pair, in[0], results)};
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
  return along(x, dim, x.dtype(), [&](const Tensor& lines) { return levels(pair, lines); });
}

Tensor reduce_pairs(const Expression& pair, const Tensor& x, int dim, const double* numbers) {
  const Dtype dtype = computing_dtype(pair, {x}, numbers);
  const std::vector<double> kept(numbers, numbers + pair.program().numbers);
  return along(x, dim, dtype, [&](Tensor y) {
    if (!is_cpu(x.device()) || step_recorder || pair.program().slots > kMaxProgramSlots)
      return levels(applied(pair, kept), y);
    for (y = contiguous(y); y.size(1) > 1;) y = pass(pair, y, kept);
    return y;
  });
}

}  // namespace mt::ir
