// test_random.cpp -- random tensors: the stream's definition, its repeatability, and its moments
#include <algorithm>
#include <locale>

#include "engine/ops/generator.h"
#include "kernels/cpu/pool/parallel.h"
#include "tests/unit/support.h"

namespace mt::test {
namespace {

/// Puts the stream back where it was, so that the order of tests does not matter.
struct Seeded {
  explicit Seeded(uint64_t seed) { manual_seed(seed); }
  ~Seeded() { manual_seed(0); }
};

struct Moments {
  double mean = 0, variance = 0, third = 0, fourth = 0, neighbours = 0;
};
Moments moments(const Tensor& x) {
  Moments m;
  const double n = double(x.numel());
  const std::vector<double> v = values(x);
  for (double e : v) m.mean += e / n;
  for (size_t i = 0; i < v.size(); ++i) {
    const double d = v[i] - m.mean;
    m.variance += d * d / n, m.third += d * d * d / n, m.fourth += d * d * d * d / n;
    if (i > 0) m.neighbours += d * (v[i - 1] - m.mean) / n;
  }
  return m;
}

}  // namespace

MT_TEST("the stream is Philox 4x32-10", "[random]") {
  // Random123's known answers: counter 0, key 0.
  const uint32_t words[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  Seeded zero(0);
  const Tensor single = rand({4});
  for (int i = 0; i < 4; ++i) CHECK(single.at(i) == double(words[i] >> 8) * 0x1p-24);
  manual_seed(0);
  const Tensor wide = rand({2}, Dtype::f64);
  for (int i = 0; i < 2; ++i)
    CHECK(wide.at(i) == double((uint64_t(words[2 * i]) << 32 | words[2 * i + 1]) >> 11) * 0x1p-53);
  manual_seed(0);
  const Tensor whole = randint(5, 104, {2});
  for (int i = 0; i < 2; ++i)
    CHECK(whole.at(i) == double(5 + (uint64_t(words[2 * i]) << 32 | words[2 * i + 1]) % 100));
  manual_seed(0);
  const Tensor normal = randn({2}, Dtype::f64);
  const double radius = std::sqrt(-2 * std::log(1 - wide.at(0))),
               angle = 6.283185307179586 * wide.at(1);
  CHECK(normal.at(0) == Approx(radius * std::cos(angle)).epsilon(1e-14));
  CHECK(normal.at(1) == Approx(radius * std::sin(angle)).epsilon(1e-14));
}

MT_TEST("the same seed gives the same numbers, another seed others", "[random]") {
  Seeded seed(7);
  const auto draw = [] {
    return std::vector<Tensor>{
        rand({5}), randn({3}, Dtype::f64), randint(1, 6, {9}), randperm(10), rand({2}), randn({1})};
  };
  const std::vector<Tensor> first = draw(), next = draw();
  manual_seed(7);
  const std::vector<Tensor> again = draw();
  manual_seed(8);
  const std::vector<Tensor> other = draw();
  for (size_t i = 0; i < first.size(); ++i) {
    CHECK(difference(first[i], again[i]) == "");
    CHECK(difference(first[i], next[i]) != "");
    CHECK(difference(first[i], other[i]) != "");
  }
  manual_seed(7);
  const Tensor long_draw = rand({4096});
  manual_seed(7);
  const Tensor short_draw = rand({64, 8});
  CHECK(difference(slice(long_draw, 0, 0, 512), view(short_draw, {512})) == "");
}

MT_TEST("draws follow each other in the stream without a gap or an overlap", "[random]") {
  using Draw = Tensor (*)(const Shape&, Dtype, const Device&, Generator*);
  const auto in_parts = [](Draw draw, Dtype dtype) {
    Seeded seed(5);
    const Tensor whole = draw({64}, dtype, cpu_device(), nullptr);
    manual_seed(5);
    std::vector<Tensor> parts;
    for (int64_t n : {4, 12, 32, 16}) parts.push_back(draw({n}, dtype, cpu_device(), nullptr));
    return difference(cat(parts), whole);
  };
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    CHECK(in_parts(rand, dtype) == "");
    CHECK(in_parts(randn, dtype) == "");
  }
  Seeded seed(6);
  const Tensor first = rand({1}), second = rand({1});  // a part of a counter is not used twice
  manual_seed(6);
  const Tensor both = rand({8});
  CHECK(first.item() == both.at(0));
  CHECK(second.item() == both.at(4));
}

MT_TEST("random numbers do not depend on the number of threads", "[random]") {
  const int before = cpu_threads();
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 3, 8}) {
    set_cpu_threads(threads);
    Seeded seed(3);
    const std::vector<Tensor> drawn = {rand({100003}),
                                       randn({100003}),
                                       rand({50001}, Dtype::f64),
                                       randn({50001}, Dtype::f64),
                                       randint(0, 9, {70001}),
                                       randperm(1000)};
    if (first.empty()) first = drawn;
    for (size_t i = 0; i < drawn.size(); ++i) CHECK(difference(drawn[i], first[i]) == "");
  }
  set_cpu_threads(before);
}

MT_TEST("uniform numbers lie in [0, 1) with the right moments", "[random]") {
  Seeded seed(11);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const int64_t n = 200000;
    const Tensor x = rand({n}, dtype);
    CHECK(amin(x).item() >= 0);
    CHECK(amax(x).item() < 1);
    const Moments m = moments(x);
    const double sigma = 5 / std::sqrt(double(n));  // five standard errors
    CHECK(std::fabs(m.mean - 0.5) < sigma * std::sqrt(1 / 12.));
    CHECK(std::fabs(m.variance - 1 / 12.) < sigma * std::sqrt(1 / 180.));
    CHECK(std::fabs(m.neighbours) < sigma / 12);
    CHECK(amin(x).item() < 1e-4);
    CHECK(amax(x).item() > 1 - 1e-4);
  }
}

MT_TEST("normal numbers have the right moments and tails", "[random]") {
  Seeded seed(12);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const int64_t n = 200000;
    const Tensor x = randn({n}, dtype);
    const Moments m = moments(x);
    const double sigma = 5 / std::sqrt(double(n));
    CHECK(std::fabs(m.mean) < sigma);
    CHECK(std::fabs(m.variance - 1) < sigma * std::sqrt(2.));
    CHECK(std::fabs(m.third) < sigma * std::sqrt(15.));
    CHECK(std::fabs(m.fourth - 3) < sigma * std::sqrt(96.));
    CHECK(std::fabs(m.neighbours) < sigma);
    const double beyond_two = sum(to(gt(abs(x), 2.0), Dtype::f64)).item() / double(n);
    CHECK(std::fabs(beyond_two - 0.0455) < sigma * std::sqrt(0.0455));
    CHECK(all(isfinite(x)).item() == 1);
  }
}

MT_TEST("randint reaches both ends and nothing beyond, evenly", "[random]") {
  Seeded seed(13);
  for (const Dtype dtype : {Dtype::i64, Dtype::i32, Dtype::u8, Dtype::f32}) {
    const int64_t n = 60000;
    const Tensor x = randint(1, 6, {n}, dtype);
    CHECK(x.dtype() == dtype);
    double chi = 0;
    for (int face = 1; face <= 6; ++face) {
      const double count = sum(to(eq(x, Tensor(double(face))), Dtype::f64)).item(),
                   expected = double(n) / 6;
      chi += (count - expected) * (count - expected) / expected;
    }
    CHECK(chi < 25.7);  // 5 degrees of freedom, one in ten thousand
    CHECK(amin(x).item() == 1);
    CHECK(amax(x).item() == 6);
  }
  CHECK(values(randint(-3, -3, {3})) == std::vector<double>{-3, -3, -3});
  const Tensor extreme = randint(INT64_MIN, INT64_MAX, {1000});
  CHECK(amin(extreme).item() < -8e18);
  CHECK(amax(extreme).item() > 8e18);
  CHECK(
      contains(error_of([] { randint(2, 1, {3}); }), "randint: the first 2 lies above the last 1"));
}

MT_TEST("randperm is a permutation, each as likely", "[random]") {
  Seeded seed(14);
  for (const int64_t n : {0, 1, 2, 100, 10007}) {
    std::vector<double> v = values(randperm(n));
    std::sort(v.begin(), v.end());
    bool whole = int64_t(v.size()) == n;
    for (int64_t i = 0; i < int64_t(v.size()); ++i) whole &= v[size_t(i)] == double(i);
    CHECK(whole);
  }
  int count[27] = {};
  const int draws = 12000;
  for (int i = 0; i < draws; ++i) {
    const Tensor p = randperm(3);
    ++count[int(p.at(0) * 9 + p.at(1) * 3 + p.at(2))];
  }
  double chi = 0;
  for (int code : {5, 7, 11, 15, 19, 21})
    chi += std::pow(count[code] - draws / 6., 2) / (draws / 6.);
  CHECK(chi < 25.7);
}

MT_TEST("a draw of nothing and of every shape", "[random]") {
  Seeded seed(15);
  CHECK(rand({0}).numel() == 0);
  CHECK(randn({}).numel() == 1);
  CHECK(rand({2, 3, 4}).shape() == Shape{2, 3, 4});
  for (int64_t n = 1; n < 20; ++n) CHECK(values(randn({n})).size() == size_t(n));
  CHECK(contains(error_of([] { rand({2}, Dtype::i64); }), "rand: int64"));
  CHECK(contains(error_of([] { randn({2}, Dtype::b8); }), "randn: bool"));
}

MT_TEST("the state of a generator is the same text in a locale that groups digits", "[random]") {
  struct Grouped : std::numpunct<char> {
    std::string do_grouping() const override { return "\3"; }
  };
  Generator generator(Generator::Kind::mt19937, 123456789);
  const std::string plain = generator.state();
  const std::locale before = std::locale::global({std::locale::classic(), new Grouped});
  CHECK(generator.state() == plain);
  generator.set_state(plain);
  std::locale::global(before);
}

}  // namespace mt::test
