// test_reference.cpp -- the engine against values and gradients computed by PyTorch, at special and
// ordinary points
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/unit/support.h"

namespace mt::test {

namespace {

std::string data_path(const char* name) {
#ifdef MT_TESTS_DIR
  return std::string(MT_TESTS_DIR) + "/data/" + name;
#else
  const std::string here = __FILE__;
  return here.substr(0, here.find_last_of('/') + 1) + "data/" + name;
#endif
}

struct Block {
  std::string op, points;
  Dtype dtype;
  std::vector<double> params, y;
  std::vector<std::vector<double>> g;  // one for each input; empty: none
};

std::vector<double> numbers(std::istringstream& in) {
  std::vector<double> v;
  for (std::string word; in >> word;)
    if (word != "-") v.push_back(std::strtod(word.c_str(), nullptr));
  return v;
}

/// torch_values.txt; make_torch_values.py says what is in it.
struct Reference {
  std::map<std::string, std::vector<std::vector<double>>> points;
  std::vector<Block> blocks;

  Reference() {
    std::ifstream file(data_path("torch_values.txt"));
    std::string text, name;
    while (std::getline(file, text)) {
      std::istringstream in(text);
      std::string word, dtype;
      in >> word;
      if (word == "points") {
        in >> name;
      } else if (word == "x") {
        points[name].push_back(numbers(in));
        // the others are float32 numbers, written with as few digits as tell them apart
        if (name != "unary64" && name.substr(0, 7) != "integer")
          for (double& v : points[name].back()) v = double(float(v));
      } else if (word == "op") {
        Block b;
        in >> b.op >> dtype >> b.points;
        b.dtype = dtype_named(dtype);
        b.params = numbers(in);
        blocks.push_back(b);
      } else if (word == "y") {
        blocks.back().y = numbers(in);
      } else if (word == "g") {
        blocks.back().g.push_back(numbers(in));
      }
    }
  }
};

/// How far the two systems may lie apart, in units of the last place of the dtype: what a value is,
/// and a gradient, which is several operations long in both. A gradient made of 1 - y may also be
/// wrong by a few units at 1.
constexpr double kValueUlps = 4, kGradientUlps = 16, kGradientAtOne = 4;

/// Where another answer than PyTorch's is meant, and why.
struct Exception {
  const char* op;
  const char* what;
  bool (*at)(const std::vector<double>& x, double got, double expected);
  const char* why;
};
const Exception kExceptions[] = {
    {"gelu", "the value",
     [](const auto&, double got, double expected) { return got == 0 && expected == 0; },
     "ours has the sign of x times a positive number, PyTorch's vectorised one has none"},
    {"gelu", "the value",
     [](const auto& x, double got, double expected) {
       const bool narrow = got == double(float(got));
       return x[0] < -1 && std::fabs(got - expected) < (narrow ? 0x1p-20 * std::fabs(got) : 3e-16);
     },
     "PyTorch's float64 loses digits in 1 + erf(x); our float32 has x^2/2 units from rounding "
     "x / sqrt(2)"},
    {"gelu_tanh", "the value",
     [](const auto& x, double got, double expected) {
       const bool narrow = got == double(float(got));
       return x[0] < -1 && std::fabs(got - expected) < (narrow ? 0x1p-20 * std::fabs(got) : 3e-16);
     },
     "PyTorch's float64 loses digits in 1 + tanh(u); our float32 has u units from rounding u"},
    {"gelu_tanh", "d/da",
     [](const auto& x, double got, double expected) {
       return x[0] < -1 && std::fabs(got - expected) < 1e-15;
     },
     "the same"},
    {"gelu_tanh", "d/da",
     [](const auto& x, double got, double expected) {
       return std::fabs(x[0]) > 1e9 && std::isnan(expected) && got == double(x[0] > 0);
     },
     "0 * inf in PyTorch; ours is the slope"},
    {"gelu_tanh", "d/da",
     [](const auto& x, double got, double expected) {
       return x[0] > 4 && std::fabs(got - expected) < 5e-15;
     },
     "1 - sigmoid(u), a unit off, is multiplied by x u'"},
    {"hardsigmoid", "d/da",
     [](const auto&, double got, double expected) {
       return got == 1. / 6 && expected == double(1.f / 6);
     },
     "PyTorch's float64 multiplies by a float32 constant"},
    {"hardswish", "the value",
     [](const auto& x, double got, double) { return x[0] > 1e38 && got == x[0]; },
     "PyTorch multiplies by 6 first, which overflows"},
    {"mish", "the value",
     [](const auto& x, double got, double expected) {
       return x[0] < -700 && std::fabs(got - expected) < 2e-15 * std::fabs(expected);
     },
     "another order of the same products; both are a few units off"},
    {"logit", "the value",
     [](const auto& x, double got, double expected) {
       return std::fabs(x[0] - 0.5) < 0.02 && std::fabs(got - expected) < 1e-16;
     },
     "PyTorch takes the logarithm of a rounded number near 1"},
    {"logit", "d/da",
     [](const auto& x, double got, double) { return std::isnan(x[0]) && std::isnan(got); },
     "0 in PyTorch where eps is given; ours says that x was NaN"},
    {"sinc", "the value",
     [](const auto& x, double got, double expected) {
       return x[0] == std::round(x[0]) ? got == 0 : std::fabs(got - expected) < 0x1p-52;
     },
     "PyTorch rounds pi x before the sine, which then is not 0 at whole numbers"},
    {"sinc", "d/da",
     [](const auto& x, double got, double expected) {
       return std::fabs(x[0]) < 1 && std::fabs(got - expected) * std::fabs(x[0]) < 0x1p-50;
     },
     "PyTorch subtracts near 0 what is nearly equal; ours is the series"},
    {"ndtr", "the value",
     [](const auto& x, double got, double expected) {
       return x[0] < -1 && std::fabs(got - expected) < 3e-16;
     },
     "PyTorch's float64 loses digits in 1 + erf(x)"},
    {"tanhshrink", "the value",
     [](const auto& x, double got, double expected) {
       return std::fabs(x[0]) < 1 && std::fabs(got - expected) <= 0x1p-52 * std::fabs(x[0]);
     },
     "x - tanh(x) of nearly equal numbers in PyTorch; ours is the series"},
    {"lcm", "the value", [](const auto& x, double, double) { return std::fabs(x[0]) > 1e18; },
     "what does not fit wraps; PyTorch then takes its magnitude"},
    {"igamma", "the value",
     [](const auto& x, double got, double) {
       return (std::isnan(x[0]) || std::isnan(x[1])) && std::isnan(got);
     },
     "PyTorch forgets a NaN beside 0 and infinity"},
    {"igammac", "the value",
     [](const auto& x, double got, double) {
       return (std::isnan(x[0]) || std::isnan(x[1])) && std::isnan(got);
     },
     "the same"},
    {"igamma", "the value",
     [](const auto& x, double got, double) { return x[0] < 1e-39 && got == 1; },
     "PyTorch's float32 takes a denormal number for 0"},
    {"igammac", "the value",
     [](const auto& x, double got, double) { return x[0] < 1e-39 && got < 1e-38; },
     "x times the exponential integral of y, of which PyTorch's denormals lose Euler's constant"},
    {"igamma", "d/db",
     [](const auto& x, double got, double expected) {
       return std::isnan(expected) || std::fabs(got / expected - 1) < 1e-7 * x[0] + 2e-6;
     },
     "exp((x - 1) log(y) - y - lgamma(x)) in float32, whose terms are large; 1 for x = 1 and y = 0"},
    {"igammac", "d/db",
     [](const auto& x, double got, double expected) {
       return std::isnan(expected) || std::fabs(got / expected - 1) < 1e-7 * x[0] + 2e-6;
     },
     "the same"},
    {"copysign", "d/da",
     [](const auto& x, double got, double) { return !std::isfinite(x[0]) && std::fabs(got) <= 1; },
     "result / x in PyTorch; ours is the sign, also of an infinite x, and 0 for NaN as in abs"},
    {"acosh", "d/da", [](const auto& x, double, double) { return x[0] < 1; },
     "outside the domain, where the value is NaN"},
    {"sinh", "the value", [](const auto& x, double, double) { return std::fabs(x[0]) == 710; },
     "PyTorch overflows too early"},
    {"sinh", "d/da", [](const auto& x, double, double) { return std::fabs(x[0]) == 710; },
     "the same"},
    {"cosh", "the value", [](const auto& x, double, double) { return std::fabs(x[0]) == 710; },
     "the same"},
    {"cosh", "d/da", [](const auto& x, double, double) { return std::fabs(x[0]) == 710; },
     "the same"},
    {"softsign", "d/da",
     [](const auto& x, double got, double) { return std::isinf(x[0]) && got == 0; },
     "infinity / infinity in PyTorch; ours is the slope"},
    {"gelu", "the value",
     [](const auto& x, double got, double) { return std::isinf(x[0]) && got == 0; },
     "ours goes to 0 at -infinity, PyTorch multiplies infinity by 0"},
    {"gelu", "d/da",
     [](const auto& x, double got, double) { return std::isinf(x[0]) && got == (x[0] > 0); },
     "ours goes to 1 and 0, PyTorch multiplies infinity by 0"},
    {"silu", "the value",
     [](const auto& x, double got, double) { return std::isinf(x[0]) && got == 0; },
     "ours goes to 0 at -infinity, PyTorch multiplies infinity by 0"},
    {"pow", "d/db",
     [](const auto& x, double got, double) { return x[0] == 0 && !(x[1] >= 0) && got == 0; },
     "0 to a negative power is infinite for every power: ours says that the power does not matter"},
};
bool excepted(const std::string& op, const char* what, const std::vector<double>& x, double got,
              double expected) {
  for (const Exception& e : kExceptions)
    if (op == e.op && std::string(what) == e.what && e.at(x, got, expected)) return true;
  return false;
}

/// The distance in units of the last place of `dtype`, which for denormals is that of the smallest
/// of them.
double distance(double a, double b, Dtype dtype) {
  if (a == b) return 0;
  const bool f32 = dtype == Dtype::f32;
  int exponent;
  std::frexp(b, &exponent);
  const int lowest = f32 ? -149 : -1074;
  return std::ldexp(std::fabs(a - b), -std::max(exponent - (f32 ? 24 : 53), lowest));
}

bool agrees(double got, double expected, Dtype dtype, double ulps, double absolute) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return got == expected;
  return distance(got, expected, dtype) <= ulps || std::fabs(got - expected) <= absolute;
}

void compare(const Block& b, const std::vector<std::vector<double>>& x, const Tensor& got,
             const std::vector<double>& expected, const char* what, bool is_value) {
  REQUIRE(got.numel() == int64_t(expected.size()));
  const double ulps = is_value ? kValueUlps : kGradientUlps,
               unit = b.dtype == Dtype::f32 ? 0x1p-24 : 0x1p-53;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double y = got.at(int64_t(i));
    const bool sign =
        !is_value || y != 0 ||
        std::signbit(y) == std::signbit(expected[i]);  // that of a zero gradient is noise
    if (sign && agrees(y, expected[i], b.dtype, ulps, is_value ? 0 : kGradientAtOne * unit))
      continue;
    std::vector<double> at;
    for (const std::vector<double>& column : x) at.push_back(column[i]);
    if (excepted(b.op, what, at, y, expected[i])) continue;
    FAIL_CHECK(fmt::format("{} {}{} at {}: {} is {}, PyTorch says {} ({} ulp)", b.op,
                           dtype_name(b.dtype), fmt::join(b.params, ","), fmt::join(at, " "), what,
                           y, expected[i], distance(y, expected[i], b.dtype)));
  }
}

}  // namespace

MT_TEST("values and gradients are PyTorch's", "[reference]") {
  const Reference reference;
  REQUIRE(reference.blocks.size() > 100);
  for (const Block& b : reference.blocks) {
    const int op = op_named(b.op);
    INFO("operation " << b.op << ", " << dtype_name(b.dtype) << ", points " << b.points);
    REQUIRE(op >= 0);
    const OpRow& row = op_row(op);
    const std::vector<std::vector<double>>& x = reference.points.at(b.points);
    REQUIRE(int(x.size()) == row.inputs);
    double params[op::kMaxParams] = {};
    for (int i = 0; i < row.params; ++i) params[i] = row.info->params[i].value;
    for (size_t i = 0; i < b.params.size(); ++i) params[i] = b.params[i];
    std::vector<Tensor> in;
    const Tensor* inputs[3] = {};
    for (int i = 0; i < row.inputs; ++i) {
      const std::vector<double>& column = x[size_t(i)];
      const bool mask = row.mask_first && i == 0, whole = !is_float(b.dtype);
      const Dtype dtype = mask ? Dtype::b8 : b.dtype;  // integers wrap, as in PyTorch
      in.push_back(to(tensor({int64_t(column.size())}, column, whole ? Dtype::i64 : dtype), dtype));
      if (!b.g.empty() && !mask && !(row.flat >> i & 1)) in.back().requires_grad_();
    }
    for (int i = 0; i < row.inputs; ++i) inputs[i] = &in[size_t(i)];
    const Tensor y = elementwise(op, inputs, params);
    compare(b, x, y, b.y, "the value", true);
    if (b.g.empty()) continue;
    y.backward(ones(y.shape(), y.dtype()));
    for (size_t i = 0; i < b.g.size(); ++i)
      if (!b.g[i].empty())
        compare(b, x, in[i].grad(), b.g[i], i == 0 ? "d/da" : i == 1 ? "d/db" : "d/dc", false);
  }
}

MT_TEST("each operation of the list is compared with PyTorch", "[reference]") {
  const Reference reference;
  std::set<std::string> compared;
  for (const Block& b : reference.blocks) compared.insert(b.op);
  for (int op = 0; op < kOps; ++op) {
    const std::string name = op_row(op).info->name;
    INFO("make_torch_values.py must know " << name);
    CHECK(compared.count(name) == 1);
  }
  CHECK(int(compared.size()) == kOps);
}

}  // namespace mt::test
