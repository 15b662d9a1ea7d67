// test_course.cpp -- what the tasks of MiniTorch's Module 3 ask for: mtorch_tests "[task3_1]" .. "[task3_5]"
//
// 3.1 map, zip and reduce on the CPU; 3.2 matrix products there; 3.3 and 3.4 the same on a GPU, which
// must give what the CPU gives; 3.5 training. As in the course's tests inputs have 1 to 4 dimensions
// of 1 to 3 elements in -100..100, lie in memory in any order, and 1e-2 is near enough.
#include "engine/core/device.h"
#include "engine/ops/optim.h"
#include "tests/unit/support.h"

namespace mt::test {
namespace {

struct One {
  const char* name;
  Tensor (*of_tensor)(const Tensor&);
  double (*of_number)(double);
};
double relu_of(double x) { return x > 0 ? x : 0; }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
const One kOne[] = {
    {"addConstant", [](const Tensor& x) { return 5.0 + x; }, [](double x) { return 5 + x; }},
    {"subConstant", [](const Tensor& x) { return x - 5.0; }, [](double x) { return x - 5; }},
    {"multConstant", [](const Tensor& x) { return 5.0 * x; }, [](double x) { return 5 * x; }},
    {"div", [](const Tensor& x) { return x / 5.0; }, [](double x) { return x / 5; }},
    {"square", [](const Tensor& x) { return x * x; }, [](double x) { return x * x; }},
    {"cube", [](const Tensor& x) { return x * x * x; }, [](double x) { return x * x * x; }},
    {"neg", [](const Tensor& x) { return -x; }, [](double x) { return -x; }},
    {"inv", [](const Tensor& x) { return 1.0 / (x + 103.5); },
     [](double x) { return 1 / (x + 103.5); }},
    {"sig", [](const Tensor& x) { return sigmoid(x); }, sigmoid_of},
    {"log", [](const Tensor& x) { return log(x + 100000.0); },
     [](double x) { return std::log(x + 100000); }},
    {"relu", [](const Tensor& x) { return relu(x + 5.5); },
     [](double x) { return relu_of(x + 5.5); }},
    {"exp", [](const Tensor& x) { return exp(x - 200.0); },
     [](double x) { return std::exp(x - 200); }},
    {"explog", [](const Tensor& x) { return log(x + 100000.0) + exp(x - 200.0); },
     [](double x) { return std::log(x + 100000) + std::exp(x - 200); }},
    {"complex",
     [](const Tensor& x) {
       return log(sigmoid(relu(relu(x * 10.0 + 7.0) * 6.0 + 5.0) * 10.0)) / 50.0;
     },
     [](double x) { return std::log(sigmoid_of(relu_of(relu_of(x * 10 + 7) * 6 + 5) * 10)) / 50; }},
};

struct Two {
  const char* name;
  Tensor (*of_tensors)(const Tensor&, const Tensor&);
  double (*of_numbers)(double, double);
  bool has_gradient;
};
const Two kTwo[] = {
    {"add2", [](const Tensor& x, const Tensor& y) { return x + y; },
     [](double x, double y) { return x + y; }, true},
    {"mul2", [](const Tensor& x, const Tensor& y) { return x * y; },
     [](double x, double y) { return x * y; }, true},
    {"div2", [](const Tensor& x, const Tensor& y) { return x / (y + 105.5); },
     [](double x, double y) { return x / (y + 105.5); }, true},
    {"gt2", [](const Tensor& x, const Tensor& y) { return y > x + 1.2; },
     [](double x, double y) { return double(y > x + 1.2); }, false},
    {"lt2", [](const Tensor& x, const Tensor& y) { return x + 1.2 < y; },
     [](double x, double y) { return double(x + 1.2 < y); }, false},
    {"eq2", [](const Tensor& x, const Tensor& y) { return x == y + 5.5; },
     [](double x, double y) { return double(x == y + 5.5); }, false},
};

Shape any_shape(Rng& rng) {
  Shape shape;
  for (int64_t d = rng.between(1, 4); d > 0; --d) shape.push(rng.between(1, 3));
  return shape;
}
/// Numbers of that shape whose dimensions lie in memory in a random order.
Tensor any_tensor(Rng& rng, const Shape& shape) {
  Shape order, back = shape, lying;
  for (int d = 0; d < shape.size(); ++d) order.push(d);
  for (int d = shape.size() - 1; d > 0; --d) std::swap(order[d], order[int(rng.below(d + 1))]);
  for (int d = 0; d < shape.size(); ++d) lying.push(shape[int(order[d])]), back[int(order[d])] = d;
  return permute(random_tensor(rng, lying, Dtype::f64, -100, 100), back);
}
const Tensor& wanting(const Tensor& x) { return x.requires_grad_(); }

/// The GPU, or null, having said why there is none.
const Device* gpu() {
  if (cuda_devices() > 0) return &device_named("cuda");
  WARN("skipped: " << cuda_unavailable_reason());
  return nullptr;
}

/// The result and the gradients of f there are those of the CPU.
void same_there(const Device& there, const TensorFunction& f, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> here, moved;
  for (const Tensor& x : inputs)
    here.push_back(leaf(x)), moved.push_back(wanting(to(x.detach(), there)));
  const Tensor a = f(here), b = f(moved);
  CHECK(difference(to(b.detach(), cpu_device()), a.detach(), 1e-9, 1e-2) == "");
  if (!a.requires_grad()) return;
  sum(a).backward();
  sum(b).backward();
  for (size_t i = 0; i < here.size(); ++i)
    CHECK(difference(to(moved[i].grad(), cpu_device()), here[i].grad(), 1e-9, 1e-2) == "");
  for (const Tensor& x : here) x.set_grad({});
  for (const Tensor& x : moved) x.set_grad({});
}

/// (D x A x B) and (1 x B x C), as two matrices and as batches.
void each_product(Rng& rng, const std::function<void(const Tensor&, const Tensor&)>& check) {
  for (int n = 0; n < 20; ++n) {
    const int64_t d = rng.between(2, 4), a = rng.between(2, 4), b = rng.between(2, 4),
                  c = rng.between(2, 4);
    check(any_tensor(rng, {a, b}), any_tensor(rng, {b, c}));
    check(any_tensor(rng, {d, a, b}), any_tensor(rng, {1, b, c}));
  }
}
Tensor product(const std::vector<Tensor>& v) { return matmul(v[0], v[1]); }
/// The same by broadcasting, summed over the inner dimension.
Tensor slow_product(const Tensor& a, const Tensor& b) {
  return sum(unsqueeze(a, -1) * unsqueeze(b, -3), {-2});
}

MT_TEST("task 3.1: maps", "[task3_1][course]") {
  Rng rng(31);
  for (const One& f : kOne)
    for (int n = 0; n < 20; ++n) {
      INFO(f.name);
      const Tensor x = any_tensor(rng, any_shape(rng)), y = f.of_tensor(x);
      for (int64_t i = 0; i < x.numel(); ++i)
        CHECK(std::fabs(y.at(i) - f.of_number(x.at(i))) < 1e-2);
      gradcheck([&](const std::vector<Tensor>& v) { return f.of_tensor(v[0]); }, {wanting(x)});
    }
}

MT_TEST("task 3.1: zips", "[task3_1][course]") {
  Rng rng(32);
  for (const Two& f : kTwo)
    for (int n = 0; n < 20; ++n) {
      INFO(f.name);
      const Shape shape = any_shape(rng);
      const Tensor x = any_tensor(rng, shape), y = any_tensor(rng, shape), z = f.of_tensors(x, y);
      for (int64_t i = 0; i < x.numel(); ++i)
        CHECK(std::fabs(z.at(i) - f.of_numbers(x.at(i), y.at(i))) < 1e-2);
      if (!f.has_gradient) continue;
      const TensorFunction g = [&](const std::vector<Tensor>& v) {
        return f.of_tensors(v[0], v[1]);
      };
      gradcheck(g, {wanting(x), wanting(y)});
      gradcheck(g, {wanting(sum(x.detach(), {0})), wanting(y)});  // broadcasting
      gradcheck(g, {wanting(x), wanting(sum(y.detach(), {0}))});
    }
}

MT_TEST("task 3.1: reductions and permute", "[task3_1][course]") {
  Rng rng(33);
  for (int n = 0; n < 20; ++n) {
    const Tensor x = wanting(any_tensor(rng, any_shape(rng)));
    double total = 0;
    for (int64_t i = 0; i < x.numel(); ++i) total += x.at(i);
    CHECK(std::fabs(sum(x).item() - total) < 1e-2);
    CHECK(std::fabs(mean(x).item() - total / double(x.numel())) < 1e-2);
    const int64_t d = rng.below(x.dim());
    using Reduce = std::function<Tensor(const Tensor&, const Shape&, bool)>;
    for (const Reduce& reduce : {Reduce(sum), Reduce(mean), Reduce(prod)}) {
      gradcheck([&](const std::vector<Tensor>& v) { return reduce(v[0], {d}, false); }, {x});
      gradcheck([&](const std::vector<Tensor>& v) { return reduce(v[0], {}, false); }, {x});
    }
    Shape turned;
    for (int k = x.dim() - 1; k >= 0; --k) turned.push(k);
    gradcheck([&](const std::vector<Tensor>& v) { return permute(v[0], turned) * 2.0; }, {x});
  }
}

MT_TEST("task 3.2: matrix products", "[task3_2][course]") {
  Rng rng(34);
  each_product(rng, [](const Tensor& a, const Tensor& b) {
    CHECK(difference(matmul(a, b), slow_product(a, b), 0, 1e-2) == "");
    gradcheck(product, {wanting(a), wanting(b)});
  });
  CHECK(contains(error_of([] { matmul(zeros({2, 3}), zeros({4, 5})); }), "inner sizes differ"));
}

MT_TEST("task 3.3: maps, zips and reductions of a GPU", "[task3_3][course]") {
  const Device* const there = gpu();
  if (!there) return;
  Rng rng(35);
  for (const One& f : kOne) {
    INFO(f.name);
    for (int n = 0; n < 5; ++n)
      same_there(*there, [&](const std::vector<Tensor>& v) { return f.of_tensor(v[0]); },
                 {any_tensor(rng, any_shape(rng))});
  }
  for (const Two& f : kTwo) {
    INFO(f.name);
    const TensorFunction g = [&](const std::vector<Tensor>& v) { return f.of_tensors(v[0], v[1]); };
    for (int n = 0; n < 5; ++n) {
      const Shape shape = any_shape(rng);
      const Tensor x = any_tensor(rng, shape), y = any_tensor(rng, shape);
      same_there(*there, g, {x, y});
      same_there(*there, g, {sum(x, {0}), y});
    }
  }
  // The course's practice sums, and sizes at which its kernel was wrong.
  for (const int64_t n : {16, 64, 48, 1025, 5000})
    same_there(*there, [](const std::vector<Tensor>& v) { return sum(v[0]); },
               {any_tensor(rng, {n})});
  for (const Shape& shape : {Shape{16, 32}, Shape{500, 32}, Shape{3, 1025}})
    for (const int64_t d : {0, 1})
      same_there(*there, [&](const std::vector<Tensor>& v) { return sum(v[0], {d}); },
                 {any_tensor(rng, shape)});
}

MT_TEST("task 3.4: matrix products of a GPU", "[task3_4][course]") {
  const Device* const there = gpu();
  if (!there) return;
  Rng rng(36);
  each_product(rng, [&](const Tensor& a, const Tensor& b) { same_there(*there, product, {a, b}); });
  for (const int64_t n : {2, 32, 33})
    same_there(*there, product, {any_tensor(rng, {n, n}), any_tensor(rng, {n, n})});
  same_there(*there, product, {any_tensor(rng, {2, 33, 33}), any_tensor(rng, {2, 33, 33})});
  same_there(*there, product, {any_tensor(rng, {2, 45, 33}), any_tensor(rng, {2, 33, 40})});
}

/// The course's network on `split`: the points of 50 that it puts on the right side in the end.
int64_t train_split(const Device& there, int epochs) {
  constexpr int64_t kPoints = 50, kHidden = 100, kBatch = 10;
  Rng rng(5);
  const auto uniform = [&](const Shape& shape, double low, double high) {
    return to(random_tensor(rng, shape, Dtype::f32, low, high), there);
  };
  const Tensor x = uniform({kPoints, 2}, 0, 1), side = pick(x, 1, 0);
  const Tensor y = to(logical_or(side<0.2, side> 0.8), Dtype::f32);
  std::vector<Tensor> p;
  for (const Shape& shape : {Shape{kHidden, 2}, Shape{kHidden, kHidden}, Shape{1, kHidden}}) {
    p.push_back(wanting(uniform(shape, -0.5, 0.5)));
    p.push_back(wanting(full({shape[0]}, 0.1, Dtype::f32, there)));
  }
  const auto own = [&](const Tensor& in,
                       const Tensor& of) {  // the probability of a point's own class
    const Tensor h = relu(linear(relu(linear(in, p[0], p[1])), p[2], p[3]));
    const Tensor out = reshape(sigmoid(linear(h, p[4], p[5])), {-1});
    return out * of + (out - 1.0) * (of - 1.0);
  };
  const SGD sgd(p, {.lr = 0.05});
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (int64_t at = 0; at < kPoints; at += kBatch) {
      for (const Tensor& w : p) w.set_grad({});
      mean(-log(own(slice(x, 0, at, kBatch), slice(y, 0, at, kBatch)) + 1e-6)).backward();
      sgd.step();
    }
  for (const Tensor& w : p) w.set_grad({});
  NoGrad off;
  return int64_t(sum(own(x, y) > 0.5).item());
}

MT_TEST("task 3.5: training", "[task3_5][course]") {
  CHECK(train_split(cpu_device(), 500) >= 48);
  if (const Device* there = gpu())
    CHECK(std::abs(train_split(*there, 100) - train_split(cpu_device(), 100)) <= 1);
}

}  // namespace
}  // namespace mt::test
