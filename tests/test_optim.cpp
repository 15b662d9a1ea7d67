// test_optim.cpp -- optimizer steps against the formulas of torch.optim, written out in double
#include "kernels/cpu/parallel.h"
#include "tests/support.h"

namespace mt::test {
namespace {

using Numbers = std::vector<double>;

/// torch.optim.SGD, one step.
struct PlainSgd {
  SgdOptions o;
  Numbers buffer;
  void step(Numbers& p, const Numbers& grad) {
    const bool first = buffer.empty();
    if (first) buffer.resize(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      double g = grad[i] + o.weight_decay * p[i];
      if (o.momentum != 0) {
        buffer[i] = first ? g : o.momentum * buffer[i] + (1 - o.dampening) * g;
        g = o.nesterov ? g + o.momentum * buffer[i] : buffer[i];
      }
      p[i] -= o.lr * g;
    }
  }
};

/// torch.optim.Adam and AdamW, one step.
struct PlainAdam {
  AdamOptions o;
  Numbers mean, square;
  void step(Numbers& p, const Numbers& grad) {
    mean.resize(p.size()), square.resize(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      double g = grad[i];
      if (o.decoupled) p[i] *= 1 - o.lr * o.weight_decay;
      else g += o.weight_decay * p[i];
      mean[i] = o.beta1 * mean[i] + (1 - o.beta1) * g;
      square[i] = o.beta2 * square[i] + (1 - o.beta2) * g * g;
      const double m = mean[i] / (1 - std::pow(o.beta1, double(o.step))),
                   v = square[i] / (1 - std::pow(o.beta2, double(o.step)));
      p[i] -= o.lr * m / (std::sqrt(v) + o.eps);
    }
  }
};

double tolerance(Dtype d) { return d == Dtype::f32 ? 3e-6 : 1e-14; }

/// Parameters of several shapes and layouts; the third has no gradient.
std::vector<Tensor> parameters(Rng& rng, Dtype dtype) {
  std::vector<Tensor> all = {
      random_tensor(rng, {3, 5}, dtype), t(random_tensor(rng, {4, 3}, dtype)),
      random_tensor(rng, {2}, dtype),    random_tensor(rng, {}, dtype),
      random_tensor(rng, {0}, dtype),    random_tensor(rng, {37}, dtype)};
  for (const Tensor& p : all) p.requires_grad_();
  return all;
}

/// Runs `steps` steps of both and compares after each. `engine(parameters, step)`,
/// `plain[i].step(values, gradient)`.
template <class Plain, class Engine>
void compare(Rng& rng, Dtype dtype, std::vector<Plain> plain, const Engine& engine) {
  const std::vector<Tensor> all = parameters(rng, dtype);
  std::vector<Numbers> expected;
  for (const Tensor& p : all) expected.push_back(values(p));
  const Numbers untouched = expected[2];
  plain.resize(all.size(), plain[0]);
  for (int64_t step = 1; step <= 4; ++step) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (i == 2) continue;
      const Tensor g = random_tensor(rng, all[i].shape(), dtype, -1, 1);
      all[i].set_grad(g);
      if constexpr (std::is_same_v<Plain, PlainAdam>) plain[i].o.step = step;
      plain[i].step(expected[i], values(g));
    }
    const uint32_t version = all[0].impl()->storage->version;
    engine(all, step);
    CHECK(all[0].impl()->storage->version > version);
    for (size_t i = 0; i < all.size(); ++i) {
      INFO("step " << step << ", parameter " << i << ", " << dtype_name(dtype));
      CHECK(difference(all[i], expected[i], tolerance(dtype), tolerance(dtype)) == "");
      CHECK(all[i].requires_grad());
      CHECK(all[i].is_leaf());
    }
    CHECK(values(all[2]) == untouched);
  }
}

}  // namespace

MT_TEST("sgd_step is torch.optim.SGD with every option", "[optim]") {
  Rng rng(81);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64})
    for (const double momentum : {0.0, 0.9})
      for (const double dampening : {0.0, 0.3})
        for (const double weight_decay : {0.0, 0.1})
          for (const bool nesterov : {false, true}) {
            if (nesterov && (momentum == 0 || dampening != 0)) continue;  // refused by torch.optim
            const SgdOptions o{0.07, momentum, dampening, weight_decay, nesterov};
            INFO("momentum " << momentum << " dampening " << dampening << " weight_decay "
                             << weight_decay << " nesterov " << nesterov);
            std::vector<Tensor> velocity;
            compare<PlainSgd>(rng, dtype, {{o, {}}}, [&](const std::vector<Tensor>& p, int64_t) {
              sgd_step(p, velocity, o);
            });
            CHECK(velocity[0].defined() == (momentum != 0));
            CHECK(!velocity[2].defined());
          }
}

MT_TEST("adam_step is torch.optim.Adam and AdamW with every option", "[optim]") {
  Rng rng(82);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64})
    for (const double weight_decay : {0.0, 0.1})
      for (const bool decoupled : {false, true})
        for (const double eps : {1e-8, 1e-2}) {
          AdamOptions o;
          o.lr = 0.03, o.beta1 = 0.8, o.beta2 = 0.95, o.eps = eps, o.weight_decay = weight_decay,
          o.decoupled = decoupled;
          INFO("weight_decay " << weight_decay << " decoupled " << decoupled << " eps " << eps);
          std::vector<Tensor> mean, square;
          compare<PlainAdam>(rng, dtype, {{o, {}, {}}},
                             [&](const std::vector<Tensor>& p, int64_t step) {
                               o.step = step;
                               adam_step(p, mean, square, o);
                             });
        }
}

MT_TEST("optimizer steps have the same bits for every number of threads", "[optim]") {
  Rng rng(83);
  const int before = cpu_threads();
  const Tensor start = random_tensor(rng, {100003}, Dtype::f32),
               g = random_tensor(rng, {100003}, Dtype::f32, -1, 1);
  Tensor first_sgd, first_adam;
  for (const int threads : {1, 2, 3, 8}) {
    set_cpu_threads(threads);
    const Tensor p = leaf(start), q = leaf(start);
    p.set_grad(g), q.set_grad(g);
    std::vector<Tensor> velocity, mean, square;
    for (int64_t step = 1; step < 3; ++step) {
      sgd_step({p}, velocity, {0.1, 0.9, 0, 0.01, true});
      AdamOptions o;
      o.step = step;
      adam_step({q}, mean, square, o);
    }
    if (!first_sgd.defined()) first_sgd = p, first_adam = q;
    CHECK(difference(p, first_sgd) == "");
    CHECK(difference(q, first_adam) == "");
  }
  set_cpu_threads(before);
}

MT_TEST("a gradient of another dtype or layout is converted", "[optim]") {
  const Tensor p = leaf(tensor({2, 2}, {1, 2, 3, 4}, Dtype::f32));
  p.set_grad(t(tensor({2, 2}, {1, 2, 3, 4}, Dtype::f64)));
  std::vector<Tensor> velocity;
  sgd_step({p}, velocity, {1});
  CHECK(values(p) == Numbers{0, -1, 1, 0});
  p.set_grad(zeros({4}));
  CHECK(contains(error_of([&] { sgd_step({p}, velocity, {1}); }),
                 "parameter 1 is (2 x 2), its gradient (4)"));
  CHECK(values(p) == Numbers{0, -1, 1, 0});
}

MT_TEST("both optimizers find the bottom of a bowl", "[optim]") {
  for (const bool adam : {false, true}) {
    const Tensor x = leaf(tensor({2}, {3, -4})), centre = tensor({2}, {1, 2});
    std::vector<Tensor> a, b;
    for (int64_t step = 1; step <= 500; ++step) {
      x.set_grad({});
      sum(square(x - centre)).backward();
      AdamOptions o;
      o.lr = 0.1, o.step = step;
      if (adam) adam_step({x}, a, b, o);
      else sgd_step({x}, a, {0.1, 0.5});
    }
    CHECK(difference(x, values(centre), 1e-3) == "");
  }
}

}  // namespace mt::test
