// test_optim.cpp -- optimizer steps against the formulas of torch.optim, written out in double
#include <type_traits>

#include "engine/ops/optim.h"
#include "kernels/cpu/pool/parallel.h"
#include "tests/unit/support.h"

namespace mt::test {
namespace {

using Numbers = std::vector<double>;

/// torch.optim.SGD, one step.
struct PlainSgd {
  SGD::Options o;
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
  Adam::Options o;
  bool decoupled;
  Numbers mean, square;
  int taken = 0;
  void step(Numbers& p, const Numbers& grad) {
    ++taken;
    mean.resize(p.size()), square.resize(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      double g = grad[i];
      if (decoupled) p[i] *= 1 - o.lr * o.weight_decay;
      else g += o.weight_decay * p[i];
      mean[i] = o.beta1 * mean[i] + (1 - o.beta1) * g;
      square[i] = o.beta2 * square[i] + (1 - o.beta2) * g * g;
      const double m = mean[i] / (1 - std::pow(o.beta1, taken)),
                   v = square[i] / (1 - std::pow(o.beta2, taken));
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

/// Takes four steps of both and compares after each. `plain[i].step(values, gradient)`.
template <class Plain, class Make>
Optimizer compare(Rng& rng, Dtype dtype, const Plain& formula, const Make& make) {
  const std::vector<Tensor> all = parameters(rng, dtype);
  std::vector<Numbers> expected;
  for (const Tensor& p : all) expected.push_back(values(p));
  const Numbers untouched = expected[2];
  std::vector<Plain> plain(all.size(), formula);
  const Optimizer optimizer = make(all);
  for (int64_t step = 1; step <= 4; ++step) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (i == 2) continue;
      const Tensor g = random_tensor(rng, all[i].shape(), dtype, -1, 1);
      all[i].set_grad(g);
      plain[i].step(expected[i], values(g));
    }
    const uint32_t version = all[0].impl()->storage->version;
    optimizer.step();
    CHECK(all[0].impl()->storage->version > version);
    for (size_t i = 0; i < all.size(); ++i) {
      INFO("step " << step << ", parameter " << i << ", " << dtype_name(dtype));
      CHECK(difference(all[i], expected[i], tolerance(dtype), tolerance(dtype)) == "");
      CHECK(all[i].requires_grad());
      CHECK(all[i].is_leaf());
    }
    CHECK(values(all[2]) == untouched);
  }
  const std::vector<Optimizer::Parameter>& of = optimizer.groups()[0].parameters;
  CHECK(of[0].progress.step == 4);
  CHECK(of[2].progress.step == 0);
  return optimizer;
}

/// The options of a point, as each option of its own too.
template <class O> std::vector<typename O::Options> options_of_points() {
  std::vector<typename O::Options> all;
  for (const auto& point : O::points) {
    const typename O::Options defaults{};
    constexpr size_t n = sizeof defaults / sizeof(double);
    all.push_back(point.options);
    for (size_t i = 0; i < n; ++i) {
      std::array<double, n> one;
      std::memcpy(one.data(), &defaults, sizeof defaults);
      one[i] = reinterpret_cast<const double*>(&point.options)[i];
      const auto options = options_in<typename O::Options>(one.data());
      if constexpr (requires { O::refuses(options); })
        if (O::refuses(options)) continue;
      all.push_back(options);
    }
  }
  return all;
}

/// Calls `body(optim::Adam{}, std::type_identity<mt::Adam>{}, "Adam")` for every optimizer.
template <class Body> void for_each_optimizer(const Body& body) {
#define MT_CALL(O) body(optim::O{}, std::type_identity<O>{}, #O);
  MT_OPTIMIZERS(MT_CALL)
#undef MT_CALL
}

}  // namespace

MT_TEST("every optimizer takes the steps of its points", "[optim]") {
  for_each_optimizer([](auto rule, auto type, const char* name) {
    for (const auto& point : decltype(rule)::points)
      for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        const Tensor w = leaf(tensor({1}, {1}, dtype));
        const typename decltype(type)::type optimizer({w}, point.options);
        for (int step = 0, k = 0; step < 9; ++step) {
          w.set_grad(tensor({1}, {std::array{.5, -1.25, 2.}[size_t(step % 3)]}, dtype));
          optimizer.step();
          if (step != 0 && step != 1 && step != 8) continue;
          INFO(name << ", point " << &point - decltype(rule)::points << ", step " << step + 1);
          const double error = dtype == Dtype::f64 ? 1e-13 : 5e-6;
          CHECK(std::abs(w.at(0) - point.value[k++]) <= error);
        }
      }
  });
}

MT_TEST("a step has the same bits for every number of threads, and alone or among others",
        "[optim]") {
  Rng rng(83);
  const int before = cpu_threads();
  const std::vector<int64_t> sizes = {1, 40000, 0, 7, 70001, 33};
  std::vector<Tensor> starts, slopes;
  for (const int64_t n : sizes) {
    starts.push_back(random_tensor(rng, {n}, Dtype::f32));
    slopes.push_back(random_tensor(rng, {n}, Dtype::f32, -1, 1));
  }
  for_each_optimizer([&](auto rule, auto type, const char* name) {
    using Class = typename decltype(type)::type;
    for (const auto& options : options_of_points<decltype(rule)>()) {
      std::vector<Tensor> first;
      for (const int threads : {1, 3, 8}) {
        INFO(name << ", " << threads << " threads");
        set_cpu_threads(threads);
        std::vector<Tensor> all;
        for (size_t i = 0; i < starts.size(); ++i) all.push_back(leaf(starts[i]));
        std::vector<Class> alone;
        if (threads == 1)
          for (const Tensor& p : all) alone.emplace_back(std::vector<Tensor>{p}, options);
        else alone.emplace_back(all, options);
        for (int step = 0; step < 3; ++step) {
          for (size_t i = 0; i < all.size(); ++i) all[i].set_grad(slopes[i] * double(step + 1));
          for (const Class& optimizer : alone) optimizer.step();
        }
        if (first.empty()) first = all;
        for (size_t i = 0; i < all.size(); ++i) CHECK(difference(all[i], first[i]) == "");
      }
    }
  });
  set_cpu_threads(before);
}

MT_TEST("the options of an optimizer: ranges, and the states that they ask for", "[optim]") {
  const Tensor p = leaf(tensor({2}, {1, 2}));
  p.set_grad(tensor({2}, {1, 1}));
  CHECK(contains(error_of([&] { Adam({p}, {.beta1 = 1}); }),
                 "Adam: betas must be two numbers from 0 to below 1, got 1"));
  CHECK(
      contains(error_of([&] { SGD({p}, {.lr = -1}); }), "SGD: lr must be a finite number from 0"));
  CHECK(
      contains(error_of([&] { SGD({p}, {.nesterov = true}); }), "SGD: nesterov needs a momentum"));
  const Adam adam({p}, {.lr = .5});
  CHECK(adam.options().lr == .5);
  CHECK(contains(error_of([&] { adam.set_options({.eps = -1}); }), "Adam: eps must be"));
  adam.set_options({.lr = .25, .amsgrad = true});
  adam.step();
  for (int k = 0; k < 3; ++k) CHECK(adam.groups()[0].parameters[0].state[k].defined());
  const Adam plain({p});
  plain.step();
  CHECK(!plain.groups()[0].parameters[0].state[2].defined());
  const Adagrad adagrad({p}, {.initial_accumulator_value = 3});
  adagrad.step();
  CHECK(values(adagrad.groups()[0].parameters[0].state[0]) == Numbers{4, 4});
  adam.zero_grad();
  CHECK(!p.grad().defined());
  const Adam groups({});
  groups.add_group({p}, {.lr = .5});
  CHECK(groups.options(1).lr == .5);
}

MT_TEST("where a step fails, nothing has changed", "[optim]") {
  const Tensor p = leaf(tensor({2}, {1, 2})), q = leaf(tensor({2}, {1, 2}));
  const SGD sgd({p, q}, {.lr = 1, .momentum = .5, .dampening = .5});
  p.set_grad(tensor({2}, {1, 1})), q.set_grad(tensor({1}, {1}));
  CHECK(contains(error_of([&] { sgd.step(); }), "parameter 2 is (2), its gradient (1)"));
  CHECK(values(p) == Numbers{1, 2});
  q.set_grad({});
  sgd.step();
  CHECK(values(p) == Numbers{0, 1});  // the first step, without dampening
  q.set_grad(tensor({2}, {1, 1}));
  sgd.groups()[0].parameters[1].state[0] = zeros({3});  // the error names the parameter's own place
  CHECK(contains(error_of([&] { sgd.step(); }), "parameter 2 is (2), its state (3)"));
  CHECK(values(p) == Numbers{0, 1});
}

MT_TEST("SGD is torch.optim.SGD with every option", "[optim]") {
  Rng rng(81);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64})
    for (const double momentum : {0.0, 0.9})
      for (const double dampening : {0.0, 0.3})
        for (const double weight_decay : {0.0, 0.1})
          for (const bool nesterov : {false, true}) {
            if (nesterov && (momentum == 0 || dampening != 0)) continue;  // refused by torch.optim
            const SGD::Options o{0.07, momentum, dampening, weight_decay, nesterov};
            INFO("momentum " << momentum << " dampening " << dampening << " weight_decay "
                             << weight_decay << " nesterov " << nesterov);
            const Optimizer sgd =
                compare(rng, dtype, PlainSgd{o, {}}, [&](const auto& p) { return SGD(p, o); });
            const std::vector<Optimizer::Parameter>& all = sgd.groups()[0].parameters;
            CHECK(all[0].state[0].defined() == (momentum != 0));
            CHECK(!all[2].state[0].defined());
          }
}

MT_TEST("Adam and AdamW are those of torch.optim with every option", "[optim]") {
  Rng rng(82);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64})
    for (const double weight_decay : {0.0, 0.1})
      for (const bool decoupled : {false, true})
        for (const double eps : {1e-8, 1e-2}) {
          const Adam::Options o{0.03, 0.8, 0.95, eps, weight_decay};
          const AdamW::Options w{0.03, 0.8, 0.95, eps, weight_decay};
          INFO("weight_decay " << weight_decay << " decoupled " << decoupled << " eps " << eps);
          compare(rng, dtype, PlainAdam{o, decoupled, {}, {}}, [&](const auto& p) -> Optimizer {
            if (decoupled) return AdamW(p, w);
            return Adam(p, o);
          });
        }
}

MT_TEST("a gradient of another dtype or layout is converted", "[optim]") {
  const Tensor p = leaf(tensor({2, 2}, {1, 2, 3, 4}, Dtype::f32));
  p.set_grad(t(tensor({2, 2}, {1, 2, 3, 4}, Dtype::f64)));
  const SGD sgd({p}, {.lr = 1});
  sgd.step();
  CHECK(values(p) == Numbers{0, -1, 1, 0});
  p.set_grad(zeros({4}));
  CHECK(contains(error_of([&] { sgd.step(); }), "parameter 1 is (2 x 2), its gradient (4)"));
  CHECK(values(p) == Numbers{0, -1, 1, 0});
}

MT_TEST("both optimizers find the bottom of a bowl", "[optim]") {
  for (const bool adam : {false, true}) {
    const Tensor x = leaf(tensor({2}, {3, -4})), centre = tensor({2}, {1, 2});
    const Optimizer optimizer = adam ? Optimizer(Adam({x}, {.lr = 0.1})) : SGD({x}, {0.1, 0.5});
    for (int64_t step = 1; step <= 500; ++step) {
      optimizer.zero_grad();
      sum(square(x - centre)).backward();
      optimizer.step();
    }
    CHECK(difference(x, values(centre), 1e-3) == "");
  }
}

}  // namespace mt::test
