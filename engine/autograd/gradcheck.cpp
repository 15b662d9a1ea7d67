// gradcheck.cpp -- compares gradients with finite differences
#include "engine/autograd/gradcheck.h"

#include <cmath>

#include "engine/autograd/graph.h"
#include "engine/autograd/view_gradients.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"
#include "kernels/view.h"

namespace mt {
namespace {

std::vector<double> values_of(const Tensor& x) {
  std::vector<double> v(x.numel());
  for (int64_t i = 0; i < x.numel(); ++i) v[i] = x.at(i);
  return v;
}

/// Writes element i of a float64 tensor without changing its version.
void set_element(const Tensor& x, int64_t i, double value) {
  double* const at = x.data_as<double>() + offset_of(i, x.dim(), x.impl()->size, x.impl()->stride);
  if (is_cpu(x.device())) *at = value;
  else x.device().upload(at, &value, sizeof value);
}

/// Changes one element of an input, and restores it in any case. Keeps the storage alive.
class Perturbation {
 public:
  Perturbation(const Tensor& x, int64_t i) : held_(x.detach()), i_(i), before_(held_.at(i)) {}
  Perturbation(const Perturbation&) = delete;
  ~Perturbation() { set_element(held_, i_, before_); }
  void by(double step) { set_element(held_, i_, before_ + step); }

 private:
  const Tensor held_;
  const int64_t i_;
  const double before_;
};

void check_inputs(const char* name, const TensorList& inputs) {
  bool any = false;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].requires_grad()) continue;
    any = true;
    if (inputs[k].dtype() != Dtype::f64)
      fail("{}: finite differences need float64, input {} is {}", name, k + 1, inputs[k].dtype());
    if (has_internal_overlap(geometry_of(inputs[k])))
      fail("{}: elements of input {} share memory; clone() it first", name, k + 1);
  }
  if (!any) fail("{}: no input requires a gradient", name);
}

/// Row `o` of the Jacobian: the gradient of output element o by input `x`, from one backward pass. No `.grad` changes.
std::vector<double> jacobian_row(const Tensor& out, int64_t o, const Tensor& x) {
  const Tensor seed = zeros_like(out);
  set_element(seed, o, 1);
  const Tensor g = grad({out}, {x}, {seed}, {.retain_graph = true, .allow_unused = true})[0];
  return g.defined() ? values_of(g) : std::vector<double>(x.numel(), 0.0);
}

/// Whether two values differ by more than a tolerance. Equal infinities do not, nor do two NaNs.
bool differ(double a, double b, double tolerance) {
  return !(std::fabs(a - b) <= tolerance) && a != b && !(std::isnan(a) && std::isnan(b));
}

/// "input 2"; gradgradcheck has one more than the `given` inputs, the gradient of the result.
std::string name_of(size_t k, size_t given) {
  return k < given ? fmt::format("input {}", k + 1) : "the gradient of the result";
}

/// The same, which must agree in two backward passes.
std::vector<double> checked_row(const Tensor& out, int64_t o, const TensorList& inputs, size_t k,
                                size_t given, double tolerance) {
  const std::vector<double> first = jacobian_row(out, o, inputs[k]),
                            second = jacobian_row(out, o, inputs[k]);
  for (size_t j = 0; j < first.size(); ++j)
    if (differ(first[j], second[j], tolerance))
      fail(
          "gradcheck: {}, element {}, output {}: the gradient is {}, and {} when it is computed "
          "again; it must be the same both times",
          name_of(k, given), int64_t(j) + message_base(), o + message_base(), show(first[j]),
          show(second[j]));
  return first;
}

/// A gradient without a graph must be constant: checks that it is the same at inputs with a small
/// offset.
void check_constant(const TensorFunction& gradient, const TensorList& inputs, size_t given,
                    const std::vector<double>& here, const GradcheckOptions& o) {
  NoGrad off;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].requires_grad()) continue;
    for (int64_t j = 0; j < inputs[k].numel(); ++j) {
      Perturbation perturbation(inputs[k], j);
      perturbation.by(1e-3);
      const std::vector<double> nearby = values_of(gradient(inputs));
      if (nearby.size() != here.size()) fail("gradgradcheck: the function changes its shape");
      for (size_t i = 0; i < here.size(); ++i)
        if (differ(nearby[i], here[i], o.atol + 1e-3 * std::fabs(here[i])))
          fail("gradgradcheck: the gradient changes with {}, but was not recorded",
               name_of(k, given));
    }
  }
}

Tensor evaluate(const TensorFunction& f, const TensorList& inputs) {
  Tensor out = f(inputs);
  if (!out.defined() || out.dtype() != Dtype::f64)
    fail("gradcheck: the function must return one float64 tensor, it returned {}",
         out.defined() ? dtype_name(out.dtype()) : "none");
  return out;
}

void check(const TensorFunction& f, const TensorList& inputs, size_t given,
           const GradcheckOptions& o) {
  check_inputs("gradcheck", inputs);
  const Tensor out = evaluate(f, inputs);
  auto values_at = [&] {
    const std::vector<double> values = values_of(evaluate(f, inputs));
    if (int64_t(values.size()) != out.numel()) fail("gradcheck: the function changes its shape");
    return values;
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& x = inputs[k];
    if (!x.requires_grad()) continue;
    if (!out.requires_grad())
      fail("gradcheck: the result does not depend on {}", name_of(k, given));
    std::vector<std::vector<double>> jacobian;
    for (int64_t i = 0; i < out.numel(); ++i)
      jacobian.push_back(checked_row(out, i, inputs, k, given, o.nondet_tol));
    NoGrad off;
    for (int64_t j = 0; j < x.numel(); ++j) {
      Perturbation perturbation(x, j);
      perturbation.by(o.eps);
      const std::vector<double> up = values_at();
      perturbation.by(-o.eps);
      const std::vector<double> down = values_at();
      for (size_t i = 0; i < up.size(); ++i) {
        const double numeric = (up[i] - down[i]) / (2 * o.eps), got = jacobian[i][j];
        if (!(std::fabs(numeric - got) <= o.atol + o.rtol * std::fabs(numeric)))
          fail(
              "gradcheck: {}, element {}, output {}: the gradient is {}, finite differences give {}",
              name_of(k, given), j + message_base(), int64_t(i) + message_base(), show(got),
              show(numeric));
      }
    }
  }
}

}  // namespace

void gradcheck(const TensorFunction& f, const TensorList& inputs, const GradcheckOptions& o) {
  check(f, inputs, inputs.size(), o);
}

void gradgradcheck(const TensorFunction& f, const TensorList& inputs, const GradcheckOptions& o) {
  check_inputs("gradgradcheck", inputs);
  // The gradient of the result, of unequal numbers, is one more input.
  const Tensor probe = evaluate(f, inputs);
  const Tensor line = linspace(0.5, 1.5, probe.numel(), Dtype::f64, probe.device());
  TensorList all = inputs;
  all.push_back(reshape(line, probe.shape()).requires_grad_());
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].requires_grad()) continue;
    const TensorFunction gradient = [&](const TensorList& in) {
      const bool recording = grad_enabled();
      const GradMode on(true);
      const Tensor y = sum(f(TensorList(in.begin(), in.end() - 1)) * in.back());
      const Tensor g =
          grad({y}, {in[k]}, {},
               {.retain_graph = recording, .create_graph = recording, .allow_unused = true})[0];
      return g.defined() ? g : zeros_like(in[k]);
    };
    const Tensor first = gradient(all);
    if (first.requires_grad()) check(gradient, all, inputs.size(), o);
    else check_constant(gradient, all, inputs.size(), values_of(first), o);
  }
}

}  // namespace mt
