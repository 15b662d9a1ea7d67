// test_reduce.cpp -- reductions against naive loops, on random layouts and dimensions
#include <algorithm>

#include "kernels/cpu/pool/parallel.h"
#include "tests/unit/support.h"

namespace mt::test {

namespace {

/// A random view: up to four dimensions, permuted, sliced and expanded.
Tensor random_view(Rng& rng, Dtype dtype, int64_t most) {
  Shape size;
  for (int64_t rank = rng.between(0, 4); rank > 0; --rank)
    size.push(rng.below(25) ? rng.between(1, most) : 0);
  Tensor x = random_tensor(rng, size, dtype, is_float(dtype) ? -2 : dtype == Dtype::u8 ? 0 : -3, 4);
  for (int64_t times = rng.below(3); times > 0 && x.dim() > 0; --times) {
    const int64_t d = rng.below(x.dim());
    switch (rng.below(3)) {
      case 0: x = transpose(x, d, rng.below(x.dim())); break;
      case 1:
        if (x.size(int(d)) > 2) x = slice(x, d, 1, (x.size(int(d)) - 1 + 1) / 2, 2);
        break;
      default:
        if (x.size(int(d)) == 1) {
          Shape wanted = x.shape();
          wanted[int(d)] = 3;
          x = expand(x, wanted);
        }
    }
  }
  return x;
}

/// The elements of x that go into each element of the result, which has shape `out`.
struct Groups {
  Shape out;
  std::vector<std::vector<double>> of;
};
Groups group(const Tensor& x, const Shape& dims, bool keepdim) {
  std::vector<bool> goes(size_t(x.dim()), dims.size() == 0);
  for (int64_t d : dims) goes[size_t(d < 0 ? d + x.dim() : d)] = true;
  Groups g;
  int64_t n = 1;
  for (int d = 0; d < x.dim(); ++d) {
    if (!goes[size_t(d)]) g.out.push(x.size(d)), n *= x.size(d);
    else if (keepdim) g.out.push(1);
  }
  g.of.resize(size_t(n));
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, place = 0, step = 1;
    for (int d = x.dim() - 1; d >= 0; --d) {
      if (!goes[size_t(d)]) place += rest % x.size(d) * step, step *= x.size(d);
      rest /= x.size(d);
    }
    g.of[size_t(place)].push_back(x.at(i));
  }
  return g;
}

Shape random_dims(Rng& rng, int rank) {
  Shape dims;
  for (int d = 0; d < rank; ++d)
    if (rng.below(2)) dims.push(rng.below(2) ? d : d - rank);
  return dims;
}

struct Reduction {
  const char* name;
  Tensor (*run)(const Tensor&, const Shape&, bool);
  double start;
  double (*join)(double, double);
  bool empty_ok;
};
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double smaller_of(double a, double b) { return std::isnan(a) || a < b ? a : b; }
const Reduction kReductions[] = {
    {"sum", [](const Tensor& x, const Shape& d, bool k) { return sum(x, d, k); }, 0,
     [](double a, double b) { return a + b; }, true},
    {"prod", [](const Tensor& x, const Shape& d, bool k) { return prod(x, d, k); }, 1,
     [](double a, double b) { return a * b; }, true},
    {"amax", [](const Tensor& x, const Shape& d, bool k) { return amax(x, d, k); }, -kInf, larger,
     false},
    {"amin", [](const Tensor& x, const Shape& d, bool k) { return amin(x, d, k); }, kInf,
     smaller_of, false},
    {"all", [](const Tensor& x, const Shape& d, bool k) { return all(x, d, k); }, 1,
     [](double a, double b) { return double(a && b); }, true},
    {"any", [](const Tensor& x, const Shape& d, bool k) { return any(x, d, k); }, 0,
     [](double a, double b) { return double(a || b); }, true}};

Dtype answer(const Reduction& r, Dtype d) {
  const std::string name = r.name;
  if (name == "all" || name == "any") return Dtype::b8;
  return (name == "sum" || name == "prod") && !is_float(d) ? Dtype::i64 : d;
}

}  // namespace

MT_TEST("reductions agree with a loop on random layouts and dimensions", "[reduce]") {
  Rng rng(31);
  for (int round = 0; round < 600; ++round)
    for (const Reduction& r : kReductions) {
      const Dtype dtype = Dtype(rng.below(kDtypes));
      const Tensor x = random_view(rng, dtype, round % 10 ? 5 : 23);
      const Shape dims = random_dims(rng, x.dim());
      const bool keepdim = rng.below(2);
      INFO(r.name << " " << dtype_name(dtype) << " " << to_string(x.shape()) << " by "
                  << to_string(x.strides()) << " over " << to_string(dims)
                  << (keepdim ? " keepdim" : ""));
      const Groups g = group(x, dims, keepdim);
      const bool empty =
          std::any_of(g.of.begin(), g.of.end(), [](const auto& of) { return of.empty(); });
      Tensor y;
      const std::string error = error_of([&] { y = r.run(x, dims, keepdim); });
      if (empty && !r.empty_ok) {
        CHECK(contains(error, r.name));
        CHECK(contains(error, to_string(x.shape())));
        continue;
      }
      REQUIRE(error == kNoError);
      REQUIRE(y.shape() == g.out);
      CHECK(y.dtype() == answer(r, dtype));
      std::vector<double> expected;
      for (const std::vector<double>& of : g.of) {
        double total = r.start;
        for (double v : of) total = r.join(total, v);
        if (y.dtype() == Dtype::i64 && std::fabs(total) > 0x1p52)
          total = double(y.at(int64_t(expected.size())));  // wrapped
        if (is_reduced_float(y.dtype())) total = rounded(total, y.dtype());
        expected.push_back(total);
      }
      const double tolerance = dtype == Dtype::f32   ? 0x1p-23
                               : dtype == Dtype::f64 ? 1e-13
                               : is_float(dtype)     ? 1.001 / double(largest_whole(dtype))
                                                     : 0;
      CHECK(difference(y, expected, tolerance, tolerance) == "");
    }
}

MT_TEST("mean is the sum over the count", "[reduce]") {
  Rng rng(32);
  for (int round = 0; round < 200; ++round) {
    const Tensor x = random_view(rng, round % 2 ? Dtype::f32 : Dtype::f64, 6);
    const Shape dims = random_dims(rng, x.dim());
    const Groups g = group(x, dims, round % 3 == 0);
    std::vector<double> expected;
    for (const std::vector<double>& of : g.of) {
      double total = 0;
      for (double v : of) total += v;
      expected.push_back(total / double(of.size()));
    }
    const Tensor y = mean(x, dims, round % 3 == 0);
    REQUIRE(y.shape() == g.out);
    CHECK(y.dtype() == x.dtype());
    CHECK(difference(y, expected, 1e-6, 1e-6) == "");
  }
  CHECK(std::isnan(mean(zeros({0})).item()));
  CHECK(contains(error_of([] { mean(zeros({2}, Dtype::i64)); }),
                 "mean: the input must be a float tensor, got int64"));
}

MT_TEST("argmax and argmin give the first position of the extreme", "[reduce]") {
  Rng rng(33);
  for (int round = 0; round < 600; ++round) {
    const Dtype dtype = Dtype(rng.below(kDtypes));
    Tensor x = random_view(rng, dtype, 5);
    if (x.dim() == 0 || x.numel() == 0) continue;
    if (is_float(dtype)) x = to(to(x, Dtype::i64), dtype);  // ties
    const bool largest = rng.below(2), whole = rng.below(4) == 0;
    const int64_t d = rng.below(x.dim());
    const Groups g = group(x, whole ? Shape{} : Shape{d}, false);
    std::vector<double> expected;
    for (const std::vector<double>& of : g.of)
      expected.push_back(double((largest ? std::max_element(of.begin(), of.end())
                                         : std::min_element(of.begin(), of.end())) -
                                of.begin()));
    const auto run = [&](const Tensor& of, std::optional<int64_t> dim, bool keepdim) {
      return largest ? argmax(of, dim, keepdim) : argmin(of, dim, keepdim);
    };
    const Tensor y = whole ? run(x, {}, false) : run(x, rng.below(2) ? d : d - x.dim(), false);
    INFO(to_string(x.shape()) << " by " << to_string(x.strides()) << ", dimension "
                              << (whole ? -1 : d));
    REQUIRE(y.shape() == g.out);
    CHECK(y.dtype() == Dtype::i64);
    CHECK(values(y) == expected);
  }
  CHECK(argmax(zeros({2, 3}), 1, true).shape() == Shape{2, 1});
  CHECK(argmax(zeros({2, 3}), -2, true).shape() == Shape{1, 3});
  CHECK(contains(error_of([] { argmax(zeros({2, 0}), 1); }), "argmax: (2 x 0)"));
  CHECK(argmax(zeros({0, 2}), 1).numel() == 0);
}

MT_TEST("NaN wins every extreme, wherever it stands", "[reduce]") {
  for (const int64_t n : {1, 5, 16, 17, 100, 5000, 40000})
    for (const int64_t at : {int64_t(0), n / 2, n - 1})
      for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        INFO(n << " elements, NaN at " << at);
        const Tensor x = full({n}, -3, dtype), wide = zeros({n, 9}, dtype);
        put(x, at, kNan);
        copy_(pick(wide, 1, 4), x);
        for (const Tensor& part : {x, pick(wide, 1, 4)}) {
          CHECK(std::isnan(amax(part).item()));
          CHECK(std::isnan(amin(part).item()));
          CHECK(argmax(part).item() == double(at));
          CHECK(argmin(part).item() == double(at));
          CHECK(std::isnan(sum(part).item()));
        }
        const Tensor columns = amax(wide, {0});
        for (int64_t j = 0; j < 9; ++j) CHECK(std::isnan(columns.at(j)) == (j == 4));
      }
  const Tensor mixed = tensor({4}, {-kInf, 1, kInf, 0});
  CHECK(amax(mixed).item() == kInf);
  CHECK(amin(mixed).item() == -kInf);
  CHECK(argmax(mixed).item() == 2);
  CHECK(std::isnan(sum(mixed).item()));
  CHECK(amax(full({70}, -kInf)).item() == -kInf);
  CHECK(argmax(full({70}, -kInf)).item() == 0);
  CHECK(any(full({3}, kNan)).item() == 1);
  CHECK(all(full({3}, kNan)).item() == 1);
}

MT_TEST("reductions of nothing", "[reduce]") {
  const Tensor none = zeros({3, 0});
  CHECK(sum(none).item() == 0);
  CHECK(prod(none).item() == 1);
  CHECK(all(none).item() == 1);
  CHECK(any(none).item() == 0);
  CHECK(values(sum(none, {1})) == std::vector<double>{0, 0, 0});
  CHECK(values(prod(none, {-1})) == std::vector<double>{1, 1, 1});
  CHECK(sum(none, {0}).numel() == 0);
  CHECK(amax(none, {0}).numel() == 0);
  CHECK(contains(error_of([&] { amax(none, {1}); }), "amax: (3 x 0)"));
  CHECK(contains(error_of([&] { amin(none); }), "amin: (3 x 0)"));
}

MT_TEST("sums are accurate", "[reduce]") {
  {
    const int64_t n = int64_t(1) << 25;
    const Tensor x = full({n}, 0.1);
    const double exact = double(0.1f) * double(n);
    CHECK(std::fabs(sum(x).item() / exact - 1) < 1e-7);
    CHECK(std::fabs(mean(x).item() / double(0.1f) - 1) < 1e-7);
    const Tensor columns = sum(view(x, {n / 4, 4}), {0});
    CHECK(std::fabs(columns.at(3) / (exact / 4) - 1) < 1e-7);
  }
  const Tensor cancels = tensor({4}, {1e8, 1, -1e8, 1}, Dtype::f32);
  CHECK(sum(cancels).item() == 2);
  CHECK(sum(full({1000}, 200, Dtype::u8)).item() == 200000);
  CHECK(sum(full({3}, 2147483647, Dtype::i32)).item() == 3 * 2147483647.0);
  CHECK(sum(full({300}, 1, Dtype::b8)).item() == 300);
  CHECK(prod(full({5}, 200, Dtype::u8)).item() == 200.0 * 200 * 200 * 200 * 200);
}

MT_TEST("gradients of reductions agree with finite differences", "[reduce]") {
  Rng rng(35);
  for (const Layout& layout : matrix_layouts(3, 4)) {
    const std::vector<Tensor> in = {leaf(random_tensor(rng, layout.base))};
    for (const Shape& dims : std::vector<Shape>{{}, {0}, {1}, {-1, 0}})
      for (const bool keepdim : {false, true}) {
        INFO(layout.name << " over " << to_string(dims) << (keepdim ? " keepdim" : ""));
        const auto check = [&](const char* name, const auto& reduction, bool smooth) {
          INFO(name);
          const TensorFunction f = [&](const std::vector<Tensor>& x) {
            return reduction(smooth
                                 ? layout.view(x[0])
                                 : contiguous(layout.view(x[0])) * tensor({4}, {1, 1.25, 0.5, 2}),
                             dims, keepdim);
          };
          CHECK_NOTHROW(gradcheck(f, in));
          CHECK_NOTHROW(gradgradcheck(f, in));
        };
        check("sum", sum, true);
        check("mean", mean, true);
        check("prod", prod, true);
        if (layout.base[0] > 1) {  // expanded rows hold ties
          check("amax", amax, false);
          check("amin", amin, false);
        }
      }
  }
  for (const Shape& shape : std::vector<Shape>{{}, {0}, {2, 0}, {1, 1}}) {
    const std::vector<Tensor> in = {leaf(random_tensor(rng, shape))};
    CHECK_NOTHROW(gradcheck([](const std::vector<Tensor>& x) { return sum(x[0]); }, in));
    CHECK_NOTHROW(gradcheck([](const std::vector<Tensor>& x) { return prod(x[0]); }, in));
  }
}

MT_TEST("ties share the gradient of an extreme", "[reduce]") {
  const Tensor x = leaf(tensor({2, 3}, {1, 5, 5, 2, 2, 2}));
  sum(amax(x, {1})).backward();
  CHECK(difference(x.grad(), std::vector<double>{0, 0.5, 0.5, 1. / 3, 1. / 3, 1. / 3}, 1e-15) ==
        "");
  x.set_grad({});
  amin(x).backward();
  CHECK(values(x.grad()) == std::vector<double>{1, 0, 0, 0, 0, 0});
}

MT_TEST("the gradient of a product knows zeros, to the second order", "[reduce]") {
  const TensorFunction f = [](const std::vector<Tensor>& x) { return prod(x[0], {1}); };
  for (const std::vector<double>& row :
       std::vector<std::vector<double>>{{2, 3, 4}, {0, 3, 4}, {0, 0, 4}, {0, 0, 0}}) {
    INFO("row " << row[0] << " " << row[1] << " " << row[2]);
    const std::vector<Tensor> in = {leaf(tensor({1, 3}, row))};
    CHECK_NOTHROW(gradcheck(f, in));
    CHECK_NOTHROW(gradgradcheck(f, in));
  }
}

}  // namespace mt::test
