// test_loss.cpp -- softmax and the losses: values, gradients, extremes
#include "tests/unit/support.h"

namespace mt::test {

namespace {

const Reduction kAll[] = {Reduction::none, Reduction::mean, Reduction::sum};

void check_gradients(const TensorFunction& f, const std::vector<Tensor>& in) {
  CHECK_NOTHROW(gradcheck(f, in));
  CHECK_NOTHROW(gradgradcheck(f, in));
}

}  // namespace

MT_TEST("softmax and log_softmax agree with a loop", "[loss]") {
  Rng rng(71);
  const Tensor x = leaf(random_tensor(rng, {2, 3, 4}));
  for (int64_t d = -3; d < 3; ++d) {
    const int dim = int(d < 0 ? d + 3 : d);
    const Tensor p = softmax(x, d), l = log_softmax(x, d);
    const Tensor e = exp(x.detach()), total = sum(e, {dim}, true);
    CHECK(difference(p, e / total, 1e-14) == "");
    CHECK(difference(l, log(e / total), 1e-13) == "");
    CHECK(difference(sum(p, {dim}), std::vector<double>(size_t(24 / x.size(dim)), 1.0), 1e-15) ==
          "");
    check_gradients([&](const std::vector<Tensor>& in) { return softmax(in[0], d); }, {x});
    check_gradients([&](const std::vector<Tensor>& in) { return log_softmax(in[0], d); }, {x});
  }
}

MT_TEST("softmax of extremes", "[loss]") {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const auto row = [&](std::vector<double> v) {
      return tensor({1, int64_t(v.size())}, v, dtype);
    };
    CHECK(values(softmax(row({1e4, 1e4}), 1)) == std::vector<double>{0.5, 0.5});
    CHECK(values(softmax(row({-1e30, 0}), 1)) == std::vector<double>{0, 1});
    CHECK(values(softmax(row({-kInf, 3}), 1)) == std::vector<double>{0, 1});
    CHECK(values(log_softmax(row({1e4, -1e4}), 1)) == std::vector<double>{0, -2e4});
    CHECK(values(log_softmax(row({-kInf, 0}), 1)) == std::vector<double>{-kInf, 0});
    for (const std::vector<double>& v :
         std::vector<std::vector<double>>{{-kInf, -kInf}, {kNan, 1}, {kInf, kInf}})
      for (const Tensor& y : {softmax(row(v), 1), log_softmax(row(v), 1)})
        CHECK(std::isnan(y.at(0)));
  }
  CHECK(softmax(tensor({}, {3}), 0).item() == 1);
  CHECK(log_softmax(tensor({}, {3}), 0).item() == 0);
  CHECK(softmax(zeros({0, 3}), 1).shape() == Shape{0, 3});
  CHECK_NOTHROW(softmax(zeros({3, 0}), 1));
}

MT_TEST("mse_loss, binary_cross_entropy and its form with logits", "[loss]") {
  Rng rng(72);
  const Tensor x = leaf(random_tensor(rng, {2, 3})),
               p = leaf(random_tensor(rng, {2, 3}, Dtype::f64, 0.05, 0.95));
  const Tensor target = random_tensor(rng, {2, 3}, Dtype::f64, 0, 1);
  std::vector<double> mse, bce, logits;
  for (int64_t i = 0; i < 6; ++i) {
    const double t = target.at(i), q = p.at(i), s = 1 / (1 + std::exp(-x.at(i)));
    mse.push_back((x.at(i) - t) * (x.at(i) - t));
    bce.push_back(-(t * std::log(q) + (1 - t) * std::log(1 - q)));
    logits.push_back(-(t * std::log(s) + (1 - t) * std::log(1 - s)));
  }
  const auto reduced = [](const std::vector<double>& v, Reduction how) {
    if (how == Reduction::none) return v;
    double total = 0;
    for (double e : v) total += e;
    return std::vector<double>{how == Reduction::sum ? total : total / double(v.size())};
  };
  for (const Reduction how : kAll) {
    CHECK(difference(mse_loss(x, target, how), reduced(mse, how), 1e-13) == "");
    CHECK(difference(binary_cross_entropy(p, target, {}, how), reduced(bce, how), 1e-13) == "");
    CHECK(difference(binary_cross_entropy_with_logits(x, target, {}, how), reduced(logits, how),
                     1e-13) == "");
    check_gradients([&](const std::vector<Tensor>& in) { return mse_loss(in[0], in[1], how); },
                    {x, leaf(target)});
    check_gradients(
        [&](const std::vector<Tensor>& in) { return binary_cross_entropy(in[0], target, {}, how); },
        {p});
    check_gradients(
        [&](const std::vector<Tensor>& in) {
          return binary_cross_entropy_with_logits(in[0], target, {}, how);
        },
        {x});
  }
}

MT_TEST("binary cross entropy at the ends", "[loss]") {
  const Tensor p = tensor({4}, {0, 1, 0, 1}), target = tensor({4}, {0, 1, 1, 0});
  CHECK(values(binary_cross_entropy(p, target, {}, Reduction::none)) ==
        std::vector<double>{0, 0, 100, 100});
  const Tensor x = leaf(tensor({4}, {1000, -1000, 1000, -1000}));
  const Tensor y = binary_cross_entropy_with_logits(x, target, {}, Reduction::none);
  CHECK(values(y) == std::vector<double>{1000, 1000, 0, 0});
  sum(y).backward();
  CHECK(values(x.grad()) == std::vector<double>{1, -1, 0, 0});
}

MT_TEST("cross_entropy picks the class, weighs by what counts", "[loss]") {
  Rng rng(73);
  const Tensor logits = leaf(random_tensor(rng, {4, 3})),
               target = tensor({4}, {2, 0, -100, 1}, Dtype::i64);
  const Tensor l = log_softmax(logits.detach(), 1);
  const std::vector<double> each = {-l.at(2), -l.at(3), 0, -l.at(10)};
  CHECK(difference(cross_entropy(logits, target, {}, -100, Reduction::none), each, 1e-14) == "");
  CHECK(cross_entropy(logits, target, {}, -100, Reduction::sum).item() ==
        Approx(each[0] + each[1] + each[3]));
  CHECK(cross_entropy(logits, target).item() == Approx((each[0] + each[1] + each[3]) / 3));
  const Tensor renamed = tensor({4}, {2, 0, 7, 1}, Dtype::i32);
  CHECK(cross_entropy(logits, renamed, {}, 7).item() == Approx((each[0] + each[1] + each[3]) / 3));
  for (const Reduction how : kAll)
    check_gradients(
        [&](const std::vector<Tensor>& in) { return cross_entropy(in[0], target, {}, -100, how); },
        {logits});
  CHECK(std::isnan(cross_entropy(logits, full({4}, -100, Dtype::i64)).item()));
  const Tensor large = tensor({2, 2}, {1000, 0, 0, 1000}, Dtype::f32);
  CHECK(values(cross_entropy(large, tensor({2}, {0, 0}, Dtype::i64), {}, -100, Reduction::none)) ==
        std::vector<double>{0, 1000});
}

}  // namespace mt::test
