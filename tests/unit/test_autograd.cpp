// test_autograd.cpp -- the graph of gradients: chain rule, accumulation, changes in place, higher
// orders, long graphs
#include <pthread.h>
#include <numeric>

#include <thread>

#include "engine/autograd/function.h"
#include "engine/autograd/view_gradients.h"
#include "engine/ops/optim.h"
#include "tests/unit/support.h"

namespace mt::test {

namespace {

Tensor number(double value) { return leaf(tensor({}, {value})); }
double grad_of(const Tensor& x) { return x.grad().item(); }

/// Runs `body` on a thread whose stack has `bytes`.
void with_stack(size_t bytes, void (*body)()) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, bytes) == 0);
  pthread_t thread;
  const auto start = [](void* f) -> void* {
    reinterpret_cast<void (*)()>(f)();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, start, reinterpret_cast<void*>(body)) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace

MT_TEST("the chain rule in small", "[autograd]") {
  const Tensor x = number(3), y = number(-2);
  (x * y).backward();
  CHECK(grad_of(x) == -2);
  CHECK(grad_of(y) == 3);
  x.set_grad({}), y.set_grad({});
  (x / y).backward();
  CHECK(grad_of(x) == -0.5);
  CHECK(grad_of(y) == -0.75);
  x.set_grad({}), y.set_grad({});
  exp(sin(x) * y).backward();
  const double e = std::exp(std::sin(3.0) * -2);
  CHECK(grad_of(x) == Approx(e * std::cos(3.0) * -2).epsilon(1e-14));
  CHECK(grad_of(y) == Approx(e * std::sin(3.0)).epsilon(1e-14));
  x.set_grad({}), y.set_grad({});
  x.backward();
  CHECK(grad_of(x) == 1);
}

MT_TEST("shared subexpressions add their gradients", "[autograd]") {
  const Tensor x = number(3);
  (x * x * x).backward();
  CHECK(grad_of(x) == 27);
  x.set_grad({});
  const Tensor a = x * 2.0, b = a * a, c = a + b, d = b * c;  // diamonds: d = 4x^2 (2x + 4x^2)
  d.backward();
  CHECK(grad_of(x) == 24 * 9 + 64 * 27);
  x.set_grad({});
  Tensor y = x;
  for (int i = 0; i < 40; ++i) y = y + y;  // 2^40 paths, walked once each
  y.backward();
  CHECK(grad_of(x) == std::ldexp(1, 40));
  x.set_grad({});
  const Tensor wide = leaf(tensor({3}, {1, 2, 3}));
  sum(wide * wide + wide * pick(wide, 0, 0))
      .backward();  // 2 x_i + x_0, and the sum of all once more for x_0
  CHECK(values(wide.grad()) == std::vector<double>{2 + 1 + 6, 5, 7});
}

MT_TEST("leaves accumulate over several backwards", "[autograd]") {
  const Tensor x = leaf(tensor({2}, {1, 2}));
  sum(x * 3.0).backward();
  sum(square(x)).backward();
  CHECK(values(x.grad()) == std::vector<double>{5, 7});
  const Tensor held = x.grad();
  sum(x).backward();
  CHECK(values(x.grad()) == std::vector<double>{6, 8});
  x.set_grad({});
  CHECK(!x.grad().defined());
  sum(x).backward();
  CHECK(values(x.grad()) == std::vector<double>{1, 1});
}

MT_TEST("gradients of different leaves share no memory", "[autograd]") {
  const Tensor a = leaf(tensor({2}, {1, 2})), b = leaf(tensor({2}, {3, 4})),
               seed = tensor({2}, {10, 20});
  (a + b).backward(seed);
  CHECK(values(a.grad()) == std::vector<double>{10, 20});
  fill_(a.grad(), 0);
  CHECK(values(b.grad()) == std::vector<double>{10, 20});
  CHECK(values(seed) == std::vector<double>{10, 20});
  (a + b).backward(seed);
  view(b, {1, 2}).backward(tensor({1, 2}, {1, 1}));
  CHECK(values(b.grad()) == std::vector<double>{21, 41});
  CHECK(values(seed) == std::vector<double>{10, 20});
  const Tensor c = leaf(tensor({2, 2}, {1, 2, 3, 4})), ones22 = full({2, 2}, 1, Dtype::f64);
  transpose(c, 0, 1).backward(ones22);
  CHECK(c.grad().is_contiguous());
  fill_(c.grad(), 5);
  CHECK(values(ones22) == std::vector<double>{1, 1, 1, 1});
}

MT_TEST("backward consumes the graph unless it is retained", "[autograd]") {
  const Tensor x = number(2);
  const Tensor y = exp(x * x);
  y.backward({}, true);
  y.backward({}, true);
  CHECK(grad_of(x) == Approx(2 * 4 * std::exp(4.0)));
  y.backward();
  const double before = grad_of(x);
  const std::string error = error_of([&] { y.backward(); });
  CHECK(contains(error, "backward: the graph behind 'exp' was freed by an earlier backward"));
  CHECK(contains(error, "retain_graph=true"));
  CHECK(grad_of(x) == before);
  const Tensor shared = square(x), first = shared * 2.0, second = shared * 3.0;
  first.backward();
  CHECK(contains(error_of([&] { second.backward(); }), "'square' was freed"));
}

MT_TEST("backward frees what it saved", "[memory]") {
  const Tensor x = leaf(zeros({1000}, Dtype::f64));
  Tensor y = sum(exp(square(x)));
  const int64_t full_graph = memory_use().live;
  y.backward();
  CHECK(memory_use().live == full_graph);  // the result of exp goes, a gradient comes
  x.set_grad({});
}

MT_TEST("a saved tensor that was changed in place is refused", "[autograd]") {
  struct Change {
    const char* name;
    std::function<Tensor(const Tensor&)> make;  // changes what it saved
    bool refused;
  };
  const std::vector<Change> changes = {
      {"exp",
       [](const Tensor& x) {
         Tensor y = exp(x);
         y += 1.0;
         return y;
       },
       true},
      {"mul",
       [](const Tensor& x) {
         Tensor a = clone(x), y = a * x;
         a += 1.0;
         return y;
       },
       true},
      {"mul",
       [](const Tensor& x) {
         Tensor a = clone(x), y = a * x;
         {
           NoGrad off;
           copy_(slice(a, 0, 0, 1), Tensor(1.0));
         }
         return y;
       },
       true},
      {"matmul",
       [](const Tensor& x) {
         Tensor a = view(clone(x), {1, 2}), y = matmul(a, t(view(x, {1, 2})));
         {
           NoGrad off;
           fill_(a, 1);
         }
         return y;
       },
       true},
      {"add",
       [](const Tensor& x) {
         Tensor a = clone(x), y = a + x;
         a += 1.0;
         return y;
       },
       false},
      {"sin",
       [](const Tensor& x) {
         Tensor y = sin(x);
         y += 1.0;
         return y;
       },
       false},
      {"sum",
       [](const Tensor& x) {
         Tensor a = clone(x), y = sum(a);
         a += 1.0;
         return y;
       },
       false}};
  for (const Change& c : changes) {
    INFO(c.name);
    const Tensor x = leaf(tensor({2}, {1, 2}));
    const Tensor y = c.make(x);
    const std::string error = error_of([&] { sum(y).backward(); });
    CHECK((error != kNoError) == c.refused);
    if (!c.refused) continue;
    CHECK(contains(error, std::string("backward: ") + c.name + " needs a tensor"));
    CHECK(contains(error, "changed in place"));
    CHECK(contains(error, "version"));
    CHECK(!x.grad().defined());
  }
  const Tensor w = leaf(tensor({2}, {1, 2}));
  w.set_grad(tensor({2}, {1, 1}));
  const Tensor loss = sum(square(w));
  SGD({w}).step();
  CHECK(contains(error_of([&] { loss.backward(); }),
                 "backward: square needs a tensor (2) that was changed in place"));
}

MT_TEST("a backward that fails leaves no gradient behind", "[autograd]") {
  const Tensor a = leaf(tensor({2}, {1, 2})), b = leaf(tensor({2}, {1, 2}));
  const Tensor used = sum(square(a));
  used.backward();
  const std::vector<double> before = values(a.grad());
  const Tensor both =
      sum(exp(a) * b) + used;  // the walk reaches the leaves first, then what is used up
  CHECK(contains(error_of([&] { both.backward(); }), "was freed"));
  CHECK(values(a.grad()) == before);
  CHECK(!b.grad().defined());
  sum(b * a).backward();  // and the leaves can be used again
  CHECK(values(b.grad()) == std::vector<double>{1, 2});
  CHECK(values(a.grad()) == std::vector<double>{3, 6});
}

MT_TEST("no_grad and detach leave the graph", "[autograd]") {
  const Tensor x = number(3);
  {
    NoGrad off;
    CHECK(!grad_enabled());
    CHECK(!(x * x).requires_grad());
    {
      const GradMode on(true);
      CHECK((x * x).requires_grad());
    }
    CHECK(!grad_enabled());
  }
  const Tensor y = x * x;
  CHECK(y.requires_grad());
  CHECK(!y.is_leaf());
  const Tensor d = y.detach();
  CHECK(!d.requires_grad());
  CHECK(d.is_leaf());
  CHECK(d.data() == y.data());
  (d * x).backward();
  CHECK(grad_of(x) == 9);
  bool seen = false;
  std::thread([&] { seen = grad_enabled(); }).join();
  CHECK(seen);
  NoGrad off;
  std::thread([&] { seen = grad_enabled(); }).join();
  CHECK(seen);
  CHECK(!(x * 2.0).requires_grad());
}

MT_TEST("a node keeps one value, and gives it out as what it is", "[autograd]") {
  struct Small {
    int d;
    bool on;
  };
  struct Large {
    Shape shape;
    double p;
  };
  static const NodeType type{"kept", nullptr};
  const Tensor x = ones({2}).requires_grad_();
  const auto node = [&](const Tensor& y) -> Node& { return record(type, y, {&x}); };
  const Tensor a = ones({2}), b = ones({2}), c = ones({2}), d = ones({2});
  node(a).keep(Small{3, true});
  node(b).keep(Large{{2, 3}, 0.5});
  int64_t* few = node(c).keep_list<int64_t>(2);
  int64_t* many = node(d).keep_list<int64_t>(100);
  std::iota(few, few + 2, 7), std::iota(many, many + 100, 7);
  CHECK(a.impl()->node->kept<Small>().d == 3);
  CHECK(a.impl()->node->kept<Small>().on);
  CHECK(b.impl()->node->kept<Large>().shape == Shape{2, 3});
  CHECK(b.impl()->node->kept<Large>().p == 0.5);
  CHECK(c.impl()->node->kept_list<int64_t>()[1] == 8);
  CHECK(d.impl()->node->kept_list<int64_t>()[99] == 106);
  CHECK(contains(error_of([&] { a.impl()->node->kept<Large>(); }), "kept: its node keeps"));
  CHECK(contains(error_of([&] { c.impl()->node->kept<double>(); }), "kept: its node keeps"));
}

MT_TEST("gradients have the shape and dtype of their tensor", "[autograd]") {
  Rng rng(61);
  for (const Shape& a :
       std::vector<Shape>{{}, {1}, {4}, {3, 1}, {1, 4}, {3, 4}, {2, 3, 4}, {2, 1, 1}})
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const Tensor x = leaf(random_tensor(rng, a, dtype)),
                   y = leaf(random_tensor(rng, {3, 4}, Dtype::f64));
      const Tensor z = x * y + x;
      sum(z).backward();
      INFO(to_string(a) << " " << dtype_name(dtype));
      CHECK(x.grad().shape() == a);
      CHECK(x.grad().dtype() == dtype);
      CHECK(y.grad().shape() == Shape{3, 4});
      CHECK(!x.grad().requires_grad());
    }
  const Tensor x = leaf(zeros({3})), y = x * 2.0;
  y.backward(tensor({3}, {1, 2, 3}, Dtype::i64));
  CHECK(values(x.grad()) == std::vector<double>{2, 4, 6});
}

MT_TEST("gradients pass through views and slices", "[autograd]") {
  Rng rng(62);
  const std::vector<Tensor> in = {leaf(random_tensor(rng, {3, 4}))};
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> views = {
      {"view",
       [](const Tensor& x) {
         return view(x, {2, 6});
       }},
      {"reshape with copy",
       [](const Tensor& x) {
         return reshape(t(x), {6, 2});
       }},
      {"permute",
       [](const Tensor& x) {
         return permute(unsqueeze(x, 1), {2, 0, 1});
       }},
      {"expand",
       [](const Tensor& x) {
         return expand(unsqueeze(x, 0), {2, 3, 4});
       }},
      {"slice", [](const Tensor& x) { return slice(x, 1, 1, 2, 2); }},
      {"pick", [](const Tensor& x) { return pick(x, 0, -1); }},
      {"squeeze", [](const Tensor& x) { return squeeze(slice(x, 0, 1, 1)); }},
      {"flatten", [](const Tensor& x) { return flatten(x); }},
      {"contiguous", [](const Tensor& x) { return contiguous(t(x)); }},
      {"sum_to",
       [](const Tensor& x) {
         return sum_to(x, {1, 4});
       }},
      {"to", [](const Tensor& x) { return to(to(x, Dtype::f32), Dtype::f64); }}};
  for (const auto& [name, v] : views) {
    INFO(name);
    const TensorFunction f = [&v = v](const std::vector<Tensor>& x) { return square(v(x[0])); };
    if (std::string(name) != "to") CHECK_NOTHROW(gradcheck(f, in));
    if (std::string(name) != "to") CHECK_NOTHROW(gradgradcheck(f, in));
    const std::vector<Tensor> g = gradients(f, in);
    CHECK(g[0].shape() == in[0].shape());
  }
}

MT_TEST("parts of a large tensor add up in any order", "[autograd]") {
  NoGrad off;
  const Shape shape = {128, 144};
  const TensorGeometry all = contiguous_geometry(shape);
  std::vector<TensorGeometry> places;
  for (const int d : {0, 1})
    for (const auto& [first, n] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 1}, {0, 30}, {29, 11}, {30, 20}, {30, 40}, {50, 78}, {1, 127}, {127, 1}})
      places.push_back(slice_of(all, d, first, n, 1));
  places.push_back(slice_of(all, 1, 128, 16, 1));
  places.push_back(slice_of(all, 0, 0, 64, 2));
  places.push_back({{144, 128}, {1, 144}, 0});                        // transposed
  places.push_back(slice_of(slice_of(all, 0, 0, 2, 1), 1, 0, 9, 1));  // in both dimensions
  bool right = true;
  for (size_t i = 0; i < places.size(); ++i)
    for (size_t j = 0; j < places.size(); ++j) {
      PartSum sum(shape, scalar(0, Dtype::f32));
      const Tensor expected = zeros(shape, Dtype::f32);
      for (const size_t k : {i, j, (3 * i + j) % places.size()}) {
        const ViewGradient part{places[k], full(places[k].size, double(k + 1), Dtype::f32)};
        sum.add(part);
        add_view_gradient(expected, part);
      }
      right &= mt::all(eq(sum.take(), expected)).item() != 0;
    }
  CHECK(right);
}

MT_TEST("copy_ moves the graph to its source", "[autograd]") {
  const Tensor x = leaf(tensor({2}, {1, 2})), y = leaf(tensor({2}, {5, 6}));
  const Tensor z = x * 2.0;
  copy_(z, square(y));
  sum(z * 3.0).backward();
  CHECK(!x.grad().defined());
  CHECK(values(y.grad()) == std::vector<double>{30, 36});
  const Tensor w = x * 2.0;
  copy_(w, tensor({2}, {7, 8}));
  sum(w).backward();  // a computed tensor still, which nothing leads to
  CHECK(!x.grad().defined());
  const Tensor buffer = zeros({3, 2}, Dtype::f32);
  copy_(buffer, y);  // broadcast, converted
  y.set_grad({});
  sum(buffer).backward();
  CHECK(values(y.grad()) == std::vector<double>{3, 3});
}

MT_TEST("fill_ cuts what it fills off the graph", "[autograd]") {
  const Tensor x = leaf(tensor({2}, {1, 2})), y = x * 2.0;
  fill_(y, 0);
  sum(y).backward();
  CHECK(!x.grad().defined());
  const Tensor z = x * 2.0;
  fill_(slice(z, 0, 0, 1), 0);
  sum(z).backward();
  CHECK(values(x.grad()) == std::vector<double>{0, 2});
}

MT_TEST("a change of the base reaches the gradients of its views", "[autograd]") {
  const Tensor x = leaf(tensor({2}, {1, 2}));
  const Tensor base = x * 1.0, part = slice(base, 0, 0, 1);
  const Tensor *inputs[] = {&base, nullptr}, three(3.0);
  inputs[1] = &three;
  elementwise_(op::id<op::Mul>, inputs);
  sum(part).backward();
  CHECK(values(x.grad()) == std::vector<double>{3, 0});
}

MT_TEST("a view that is changed while gradients are recorded changes its base", "[autograd]") {
  const Tensor x = leaf(tensor({2}, {3, 2})), y = x * 1.0;
  copy_(slice(y, 0, 1, 1), pick(x, 0, 0));
  CHECK(values(y) == std::vector<double>{3, 3});
  sum(square(y)).backward();
  CHECK(values(x.grad()) == std::vector<double>{12, 0});
  const Tensor two = leaf(tensor({2}, {1, 2})), z = two * 1.0;
  for (int i = 0; i < 100000; ++i) slice(z, 0, 0, 1) += 1.0;  // a long history is freed by a loop
  sum(z).backward();
  CHECK(values(two.grad()) == std::vector<double>{1, 1});
}

MT_TEST("gradients can be differentiated again", "[autograd]") {
  const Tensor x = number(2);
  const Tensor y = x * x * x;
  y.backward({}, false, true);
  const Tensor first = x.grad();
  CHECK(first.item() == 12);
  x.set_grad({});
  first.backward({}, false, true);
  const Tensor second = x.grad();
  CHECK(second.item() == 12);
  x.set_grad({});
  second.backward();
  CHECK(grad_of(x) == 6);
  x.set_grad({});

  const Tensor s = sin(x * 2.0);
  Tensor g = s;
  const double expected[] = {2 * std::cos(4.), -4 * std::sin(4.), -8 * std::cos(4.),
                             16 * std::sin(4.), 32 * std::cos(4.)};
  for (double e : expected) {
    g.backward({}, true, true);
    g = x.grad();
    x.set_grad({});
    CHECK(g.item() == Approx(e).epsilon(1e-12));
  }
  const Tensor v = leaf(tensor({2}, {1, 2})), penalty = sum(exp(v));
  penalty.backward({}, false, true);
  const Tensor norm = sum(square(v.grad()));
  v.set_grad({});
  norm.backward();
  CHECK(difference(v.grad(), std::vector<double>{2 * std::exp(2.), 2 * std::exp(4.)}, 1e-14) == "");
}

MT_TEST("a chain of a million nodes builds, runs backward and is freed in a small stack",
        "[autograd]") {
  static std::string error;
  static double gradient;
  error = kNoError, gradient = 0;
  with_stack(size_t(8) << 20, [] {
    error = error_of([] {
      const Tensor x = number(1);
      const Tensor one(1.0);
      Tensor y = x;
      for (int i = 0; i < 1000000; ++i) y = y + one;
      y.backward();
      gradient = grad_of(x);
      y = x;
      for (int i = 0; i < 300000; ++i) y = y * one;  // freed without a backward
      y.reset();
      y = x;
      for (int i = 0; i < 50000; ++i) y = sin(y);  // each saves its input
      y.backward({}, true);
    });
  });
  CHECK(error == kNoError);
  CHECK(gradient == 1);
}

MT_TEST("a hundred thousand siblings meet in one leaf", "[autograd]") {
  const Tensor x = number(2);
  const int n = 100000;
  Tensor total = x * 0.0;
  std::vector<Tensor> branches;
  for (int i = 0; i < n; ++i) branches.push_back(x * Tensor(double(i % 10)));
  const Tensor all = stack(branches);
  branches.clear();
  sum(all).backward();
  CHECK(grad_of(x) == 4.5 * n);
  for (int i = 0; i < n; ++i) total = total + x;
  total.backward();
  CHECK(grad_of(x) == 4.5 * n + n);
}

MT_TEST("a function with its own gradient", "[autograd]") {
  const auto squared = [](const Tensor& x, const CustomFunction::Backward& backward) {
    Tensor y;
    {
      NoGrad off;
      y = x * x;
    }
    return record_function("squared", {x}, {y}, {}, {x}, backward)[0];
  };
  const auto slope = [](const TensorList& g) {
    return TensorList{g[0] * saved_tensors()[0] * 2.0};
  };
  const Tensor x = number(3);
  squared(x, slope).backward();
  CHECK(grad_of(x) == 6);
  CHECK(contains(error_of([&] { squared(x, [](auto&) { return TensorList(); }).backward(); }),
                 "squared: backward returned 0 gradients for 1 inputs"));
  NoGrad off;
  CHECK(!squared(x, slope).requires_grad());
}

MT_TEST("gradcheck finds a wrong gradient", "[autograd]") {
  const Tensor x = leaf(tensor({2}, {0.5, 0.7}));
  const TensorFunction wrong = [](const std::vector<Tensor>& in) {
    return square(in[0]) + in[0].detach() * 0.01;
  };
  const std::string error = error_of([&] { gradcheck(wrong, {x}); });
  CHECK(contains(error, "gradcheck: input 1, element 0, output 0"));
  const TensorFunction wrong_twice = [](const std::vector<Tensor>& in) {
    Tensor slope;
    {
      NoGrad off;
      slope = in[0] * 2.0;
    }
    return square(in[0]) + in[0] * slope - in[0] * slope.detach() +
           in[0] * (in[0].detach() - in[0].detach());
  };
  CHECK(error_of([&] { gradcheck(wrong_twice, {x}); }) == kNoError);
  const TensorFunction detached_slope = [](const std::vector<Tensor>& in) {
    return in[0] * in[0].detach() * 2.0 - square(in[0].detach());
  };
  CHECK(error_of([&] { gradcheck(detached_slope, {x}); }) == kNoError);  // the first order is right
  CHECK(error_of([&] { gradgradcheck(detached_slope, {x}); }) != kNoError);  // the second is not
  const TensorFunction unrecorded = [](const std::vector<Tensor>& in) {
    const Tensor y = in[0].detach();
    const auto backward = [y](const TensorList&) {
      NoGrad off;
      return TensorList{mt::sqrt(-y)};  // NaN beside 0
    };
    return record_function("unrecorded", {in[0]}, {y * 2.0}, {}, {}, backward)[0];
  };
  const Tensor at_zero = zeros({1}, Dtype::f64).requires_grad_();
  CHECK(contains(error_of([&] { gradgradcheck(unrecorded, {at_zero}); }), "was not recorded"));
  CHECK(contains(error_of([] {
                   gradcheck([](const std::vector<Tensor>& in) { return in[0]; },
                             {leaf(zeros({1}))});
                 }),
                 "float64"));
}

}  // namespace mt::test
