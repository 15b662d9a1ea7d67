// test_accuracy.cpp -- the errors of functions of one and two numbers, in units in the last place
#include <algorithm>
#include <limits>

#include "kernels/device.h"
#include "tests/unit/support.h"

namespace mt::test {
namespace {

/// A function, its truth in double and long double, and the largest errors: in float32 over all
/// numbers, in float64 over a sample.
struct Function {
  const char* name;
  double (*truth)(double);
  long double (*wide)(long double);
  double limit32, limit64;
};

template <class T> T logistic(T x) { return 1 / (1 + std::exp(-x)); }
template <class T> T softplus_of(T x) { return x > 20 ? x : std::log1p(std::exp(x)); }
template <class T> T silu_of(T x) {
  return std::isinf(x) && x < 0 ? -T(0) : x / (1 + std::exp(-x));
}
template <class T> T gelu_of(T x) {
  const T root = T(0.70710678118654752440084436210484903928L);
  return std::isinf(x) && x < 0 ? -T(0) : x / 2 * std::erfc(-x * root);
}
template <class T> T ndtr_of(T x) {
  return std::erfc(-x * T(0.70710678118654752440084436210484903928L)) / 2;
}
template <class T> T sinc_of(T x) {
  const T pi = T(3.14159265358979323846264338327950288L), turn = x - 2 * std::nearbyint(x / 2);
  const T a = std::fabs(turn), near = std::copysign(a > T(0.5) ? 1 - a : a, turn);
  return x == 0 ? T(1) : std::sin(pi * near) / (pi * x);
}
template <class T> T rsqrt_of(T x) { return 1 / std::sqrt(x); }
template <class T> T softsign_of(T x) { return std::isinf(x) ? T(kNan) : x / (1 + std::fabs(x)); }
/// Near 0, where x - tanh(x) has few digits, by its series.
template <class T> T tanhshrink_of(T x) {
  const T terms[] = {T(21844) / 6081075, -T(1382) / 155925, T(62) / 2835,
                     -T(17) / 315,       T(2) / 15,         -T(1) / 3};
  T sum = 0;
  for (T c : terms) sum = c + x * x * sum;
  return std::fabs(x) < T(0.02) ? x * x * -sum * x + T(0) : x - std::tanh(x);
}
/// Far out by its asymptotic series.
template <class T> T erfcx_of(T x) {
  const T z = 1 / (2 * x * x), root = T(0.56418958354775628694807945156077258584L);
  if (x < 9) return std::exp(x * x) * std::erfc(x);
  T sum = 1;
  for (int k = 12; k > 0; --k) sum = 1 - (2 * k - 1) * z * sum;
  return root / x * sum;
}
/// Newton's steps from 0, which come from below.
template <class T> T erfinv_of(T x) {
  const T root = T(1.12837916709551257389615890312154517169L), a = std::fabs(x);
  T y = 0;
  for (int i = 0; i < 200 && a < 1; ++i)
    y += (a < T(0.5) ? a - std::erf(y) : std::erfc(y) - (1 - a)) / root * std::exp(y * y);
  return a < 1 ? std::copysign(y, x) : a == 1 ? std::copysign(T(kInf), x) : T(kNan);
}
template <class T> T logit_of(T x) {
  return x < T(0.25) ? std::log(x / (1 - x)) : std::log1p((x + x - 1) / (1 - x));
}
template <class T> T elu_of(T x) { return x > 0 ? x : std::expm1(x); }

// clang-format off
#define MT_LINE(name, limit32, limit64)                          \
  Function {                                                     \
    #name, [](double x) { return std::name(x); },                \
        [](long double x) { return std::name(x); }, limit32, limit64 \
  }
#define MT_OWN(name, f, limit32, limit64) \
  Function { #name, f<double>, f<long double>, limit32, limit64 }
const Function kFunctions[] = {
    MT_LINE(exp, 1.05, 1),      MT_LINE(exp2, 1.05, 1.5),   MT_LINE(expm1, 1.55, 1.5),
    MT_LINE(log, 1, 1),         MT_LINE(log2, 1.2, 1),      MT_LINE(log10, 1.35, 1),
    MT_LINE(log1p, 1.5, 1.5),   MT_LINE(sin, 1.25, 1),      MT_LINE(cos, 1.25, 1),
    MT_LINE(tan, 1.4, 1.25),    MT_LINE(asin, 1.25, 1.25),  MT_LINE(acos, 1.25, 1.25),
    MT_LINE(atan, 1.4, 1.4),     MT_LINE(sinh, 0.55, 1.9),   MT_LINE(cosh, 0.55, 1.6),
    MT_LINE(tanh, 1.51, 1.5),    MT_LINE(asinh, 0.55, 1.6),  MT_LINE(acosh, 0.55, 1.6),
    MT_LINE(atanh, 0.55, 1.5),  MT_LINE(erf, 1.15, 1.5),    MT_LINE(erfc, 2, 2.3),
    MT_LINE(sqrt, 0.5, 0.5),    MT_OWN(sigmoid, logistic, 1.5, 1.55),
    MT_OWN(softplus, softplus_of, 1.75, 2),                 MT_OWN(silu, silu_of, 1.8, 2),
    MT_OWN(gelu, gelu_of, 2, 3),                            MT_OWN(ndtr, ndtr_of, 2.9, 3),
    MT_OWN(sinc, sinc_of, 2.45, 2.4),
    MT_OWN(rsqrt, rsqrt_of, 1.1, 1.5),                      MT_LINE(lgamma, 1, 5),
    MT_OWN(erfinv, erfinv_of, 1.9, 5),
    MT_OWN(softsign, softsign_of, 1.5, 1.5),                MT_OWN(elu, elu_of, 1, 1.5),
    MT_OWN(tanhshrink, tanhshrink_of, 3.9, 64),             MT_OWN(celu, elu_of, 1, 1.5),
    MT_OWN(logit, logit_of, 1.5, 1.5),
};
// clang-format on

/// The distance of y from the truth in places of T; infinite where they are of different kinds.
template <class T, class W> double error_in_places(T y, W truth) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(truth) || std::isnan(y)) return std::isnan(truth) == std::isnan(y) ? 0 : kInf;
  const T rounded = T(truth);
  if (rounded == y) return truth == 0 && std::signbit(truth) != std::signbit(y) ? kInf : 0.5;
  const W most = W(Limits::max()), size = std::fabs(truth);
  const W held = std::isinf(y) ? std::copysign(most, W(y)) : W(y);  // beside an overflow
  if (std::isinf(y) && size < most * (1 - W(Limits::epsilon()))) return kInf;
  int exponent = 0;
  std::frexp(std::max(std::min(size, most), W(Limits::min())), &exponent);
  const W place = std::ldexp(W(1), exponent - Limits::digits);
  return double(std::fabs(held - std::copysign(std::min(size, most), truth)) / place);
}

struct Worst {
  double error = 0;
  double at = 0;
  void see(double e, double x) {
    if (e > error) error = e, at = x;
  }
};

Tensor run(int op, const Tensor& x) {
  double params[op::kMaxParams] = {};
  for (int i = 0; i < op_row(op).params; ++i) params[i] = op_row(op).info->params[i].value;
  const Tensor* inputs[] = {&x};
  return elementwise(op, inputs, params);
}

/// The worst error over every `stride`-th float. The truth is our own float64 function if `own`: it
/// is vectorised, and a test of its own compares it with the C library.
Worst worst_of_floats(const Function& f, int op, uint64_t stride, bool own) {
  constexpr int64_t kBlock = 1 << 18, kSlices = 64;
  constexpr uint64_t kAll = uint64_t{1} << 32;
  Worst worst;
  const Tensor x = empty({kBlock}, Dtype::f32);
  for (uint64_t first = 0; first < kAll; first += stride * kBlock) {
    float* in = x.data_as<float>();
    for (int64_t i = 0; i < kBlock; ++i) {
      const uint32_t bits = uint32_t(std::min(first + uint64_t(i) * stride, kAll - 1));
      std::memcpy(in + i, &bits, 4);
    }
    const Tensor y = run(op, x);
    const float* out = y.data_as<float>();
    const Tensor t = own ? run(op, to(x, Dtype::f64)) : Tensor();
    const double* truth = own ? t.data_as<double>() : nullptr;
    Worst slice[kSlices];
#pragma omp parallel for
    for (int64_t s = 0; s < kSlices; ++s)
      for (int64_t i = s * (kBlock / kSlices); i < (s + 1) * (kBlock / kSlices); ++i)
        slice[s].see(error_in_places(out[i], truth ? truth[i] : f.truth(in[i])), in[i]);
    for (const Worst& w : slice) worst.see(w.error, w.at);
  }
  return worst;
}

/// Numbers of every kind, and the edges of the formulas.
std::vector<double> edges() {
  std::vector<double> v = {0,
                           1,
                           0.5,
                           0.25,
                           2,
                           3,
                           10,
                           20,
                           kInf,
                           1e-45,
                           1.1754942e-38,
                           1.1754944e-38,
                           3.4028235e38,
                           1e-8,
                           5.9604645e-8,
                           88.7,
                           88.73,
                           89,
                           87.3,
                           103.9,
                           104,
                           105,
                           14.2,
                           14.3,
                           14.5,
                           15,
                           0.5625,
                           0.921875,
                           3.92,
                           4,
                           10.06,
                           10.1,
                           16384,
                           16384.002,
                           1.5707964,
                           3.1415927,
                           1e10,
                           1e20,
                           1e30,
                           0.99999994,
                           1.0000001,
                           0.41421357,
                           0.70710677,
                           1.4142135,
                           8388608,
                           16777216,
                           3e38,
                           2.4e-4,
                           2.4570248,  // minus these: zeros of lgamma
                           2.747683,
                           3.1435809,
                           3.9552943};
  const size_t n = v.size();
  for (size_t i = 0; i < n; ++i) v.push_back(-v[i]);
  v.push_back(kNan);
  return v;
}

/// Without FMA a formula rounds more often; these limits are for those that round once.
double allowed(double limit) { return std::string_view(cpu_isa()) == "base" ? 2 * limit : limit; }

/// A report is made of many, by our own truth; `only` names one function.
int check_floats(uint64_t stride, bool report, std::string_view only = {}) {
  int seen = 0;
  for (const Function& f : kFunctions) {
    const int op = op_named(f.name);
    if (op < 0) continue;
    ++seen;
    if (!only.empty() && only != f.name) continue;
    const Worst w = worst_of_floats(f, op, stride, report);
    INFO(f.name << ": " << w.error << " ulp at " << w.at);
    CHECK(w.error <= allowed(f.limit32));
    if (report) fmt::print("{:10} {:.4f} ulp at {:.9g}\n", f.name, w.error, w.at);
    std::fflush(stdout);
  }
  return seen;
}

}  // namespace

MT_TEST("float32 functions of one number stay within their errors", "[accuracy]") {
  NoGrad off;
  CHECK(check_floats(40009, false) >= 18);
  for (const Function& f : kFunctions) {
    const int op = op_named(f.name);
    if (op < 0) continue;
    const Tensor x = tensor({int64_t(edges().size())}, edges(), Dtype::f32), y = run(op, x);
    for (int64_t i = 0; i < x.numel(); ++i) {
      INFO(f.name << " of " << x.at(i) << " is " << y.at(i) << ", not " << f.truth(x.at(i)));
      CHECK(error_in_places(y.data_as<float>()[i], f.truth(x.at(i))) <= allowed(f.limit32));
    }
  }
}

/// Hidden, because it takes minutes: mtorch_tests '[nightly]'. MTORCH_ACCURACY_ONLY=sin is one
/// function, MTORCH_ACCURACY_STRIDE=100 every hundredth float.
MT_TEST("float32 functions of one number, over all floats", "[.][nightly]") {
  NoGrad off;
  const char* stride = std::getenv("MTORCH_ACCURACY_STRIDE");
  const char* only = std::getenv("MTORCH_ACCURACY_ONLY");
  CHECK(check_floats(stride ? std::strtoull(stride, nullptr, 10) : 1, true, only ? only : "") >=
        18);
}

MT_TEST("logarithms of powers of their base are whole numbers", "[accuracy]") {
  NoGrad off;
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const int most = dtype == Dtype::f32 ? 38 : 300;
    std::vector<double> tens, twos;
    for (int i = -most + 1; i <= most; ++i)
      tens.push_back(std::strtod(fmt::format("1e{}", i).c_str(), nullptr));
    for (int i = -126; i < 128; ++i) twos.push_back(std::ldexp(1.0, i));
    const Tensor ten = log10(tensor({int64_t(tens.size())}, tens, dtype)),
                 two = log2(tensor({int64_t(twos.size())}, twos, dtype));
    for (int64_t i = 0; i < ten.numel(); ++i) CHECK(ten.at(i) == double(i - most + 1));
    for (int64_t i = 0; i < two.numel(); ++i) CHECK(two.at(i) == double(i - 126));
  }
}

MT_TEST("float64 functions of one number stay within their errors", "[accuracy]") {
  NoGrad off;
  Rng rng(64);
  std::vector<double> v = edges();
  for (int i = 0; i < 60000; ++i) {
    const double size = std::exp2(i % 3 ? rng.uniform(-60, 30) : rng.uniform(-1074, 1024));
    v.push_back(i % 2 ? rng.uniform(-40, 40) : rng.below(2) ? size : -size);
  }
  for (int i = 0; i < 5000; ++i) v.push_back(rng.uniform(-1, 1));
  const Tensor x = tensor({int64_t(v.size())}, v, Dtype::f64);
  for (const Function& f : kFunctions) {
    const int op = op_named(f.name);
    if (op < 0) continue;
    Worst worst;
    const Tensor y = run(op, x);
    for (size_t i = 0; i < v.size(); ++i)
      worst.see(error_in_places(y.data_as<double>()[i], f.wide(v[i])), v[i]);
    INFO(f.name << ": " << worst.error << " ulp at " << worst.at);
    CHECK(worst.error <= allowed(f.limit64));
  }
  std::vector<double> w(v.rbegin(), v.rend());
  const Tensor z = hypot(x, tensor({int64_t(w.size())}, w, Dtype::f64));
  Worst worst;
  for (size_t i = 0; i < v.size(); ++i)
    worst.see(error_in_places(z.data_as<double>()[i], std::hypot((long double)v[i], w[i])), v[i]);
  INFO("hypot: " << worst.error << " ulp at " << worst.at);
  CHECK(worst.error <= 0.75);
}

/// Exponents for which pow is two or three operations, each of which rounds (kernels/cpu/simd/powers.h).
bool rounds_often(double exponent) {
  return exponent == 3 || exponent == 4 || exponent == -2 || exponent == -0.5;
}

MT_TEST("float32 functions of two numbers stay within their errors", "[accuracy]") {
  NoGrad off;
  struct Pair {
    Tensor (*call)(const Tensor&, const Tensor&);
    double (*truth)(double, double);
    double limit;
    const char* name;
  };
  const auto modulo = [](double a, double b) {
    const double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? double(float(rest + b)) : rest;
  };
  const Pair pairs[] = {
      {[](const Tensor& a, const Tensor& b) { return pow(a, b); },
       [](double a, double b) { return std::pow(a, b); }, 0.55, "pow"},
      {[](const Tensor& a, const Tensor& b) { return atan2(a, b); },
       [](double a, double b) { return std::atan2(a, b); }, 0.55, "atan2"},
      {[](const Tensor& a, const Tensor& b) { return hypot(a, b); },
       [](double a, double b) { return std::hypot(a, b); }, 0.55, "hypot"},
      {[](const Tensor& a, const Tensor& b) { return fmod(a, b); },
       [](double a, double b) { return std::fmod(a, b); }, 0.5, "fmod"},
      {[](const Tensor& a, const Tensor& b) { return remainder(a, b); }, modulo, 0.5, "remainder"}};
  Rng rng(2);
  std::vector<double> a, b, far_a, far_b;
  for (double x : edges())
    for (double y : edges()) far_a.push_back(x), far_b.push_back(y);
  for (int i = 0; i < 50000; ++i) {
    a.push_back(double(float(rng.uniform(-10, 10))));
    b.push_back(double(float(rng.uniform(-10, 10))));
    far_a.push_back(double(float(std::exp2(rng.uniform(-30, 30)))));
    far_b.push_back(double(float(std::exp2(rng.uniform(-5, 5)))));
  }
  for (const auto& [first, second] : {std::pair{a, b}, std::pair{far_a, far_b}}) {
    const Shape shape{int64_t(first.size())};
    const Tensor x = tensor(shape, first, Dtype::f32), y = tensor(shape, second, Dtype::f32);
    for (const Pair& p : pairs) {
      const Tensor z = p.call(x, y);
      Worst worst;
      for (int64_t i = 0; i < x.numel(); ++i) {
        const double e = error_in_places(z.data_as<float>()[i], p.truth(x.at(i), y.at(i)));
        if (std::string_view(p.name) == "pow" && rounds_often(y.at(i))) CHECK(e <= 2.5);
        else worst.see(e, double(i));
      }
      const int64_t at = int64_t(worst.at);
      INFO(p.name << " of " << x.at(at) << ", " << y.at(at) << " is " << z.at(at));
      CHECK(worst.error <= p.limit);
    }
  }
}

MT_TEST("float32 incomplete gamma functions are those of float64, rounded", "[accuracy]") {
  NoGrad off;
  Rng rng(3);
  std::vector<double> a, x;
  for (int i = 0; i < 20000; ++i) {
    a.push_back(double(float(std::exp2(rng.uniform(-8, 12)))));
    x.push_back(
        double(float(i % 2 ? a.back() * rng.uniform(0.4, 1.7) : std::exp2(rng.uniform(-8, 12)))));
  }
  const Shape shape{int64_t(a.size())};
  for (const char* name : {"igamma", "igammac"}) {
    Tensor y[2];
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const Tensor s = to(tensor(shape, a, Dtype::f32), dtype), q = tensor(shape, x, dtype);
      const Tensor* in[] = {&s, &q};
      const double none[op::kMaxParams] = {};
      y[dtype == Dtype::f64] = elementwise(op_named(name), in, none);
    }
    Worst worst;
    for (int64_t i = 0; i < shape[0]; ++i)
      worst.see(error_in_places(y[0].data_as<float>()[i], y[1].data_as<double>()[i]), double(i));
    const size_t at = size_t(worst.at);
    INFO(name << " of " << a[at] << ", " << x[at] << ": " << worst.error << " ulp");
    CHECK(worst.error <= 0.55);
  }
}

MT_TEST("an element's result does not depend on its neighbours", "[accuracy]") {
  NoGrad off;
  Rng rng(5);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const Tensor x = random_tensor(rng, {5000}, dtype, -20000, 20000),
                 y = random_tensor(rng, {5000}, dtype, -3, 3);
    Tensor other_x = clone(x), other_y = clone(y);
    for (int64_t i = 0; i < 5000; i += 500) {  // a whole loop leaves its short way
      put(other_x, i, 1e30), put(other_y, i, 0);
    }
    const auto same = [&](const Tensor& a, const Tensor& b) {
      for (int64_t i = 0; i < 5000; ++i)
        if (i % 500 != 0 && !same_value(a.at(i), b.at(i))) return false;
      return true;
    };
    CHECK(same(sin(x), sin(other_x)));
    CHECK(same(cos(x), cos(other_x)));
    CHECK(same(fmod(x, y), fmod(other_x, other_y)));
    CHECK(same(remainder(x, y), remainder(other_x, other_y)));
    CHECK(same(floor_divide(x, y), floor_divide(other_x, other_y)));
    const Tensor above = abs(y) + Tensor(0.5);
    Tensor mixed = clone(above);
    for (int64_t i = 0; i < 5000; i += 500) put(mixed, i, -1);
    double one[8] = {1};  // at least as long as the parameters of any operation
    const Tensor *in[] = {&above}, *in_mixed[] = {&mixed};
    for (const char* name : {"elu", "lgamma"}) {
      const int op = op_named(name);
      CHECK(same(elementwise(op, in, one), elementwise(op, in_mixed, one)));
    }
  }
}

}  // namespace mt::test
