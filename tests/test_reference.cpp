// test_reference.cpp -- the engine against values and gradients computed by PyTorch, at special and ordinary points
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/support.h"

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
        if (name != "unary64")  // these are float32 numbers, written with as few digits as tell them apart
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

/// How far the two systems may lie apart, in units of the last place of the dtype. PyTorch's own float64 functions and
/// gradients are several operations long too; where it cancels, `absolute` (in the size of the result near 1) says so.
struct Tolerance {
  double value = 4, gradient = 16, absolute = 0;
};
Tolerance tolerance_of(const std::string&, Dtype) { return {}; }

/// The distance in units of the last place of `dtype`, which for denormals is that of the smallest of them.
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

void compare(const Block& b, const std::vector<std::vector<double>>& x, const Tensor& got, const std::vector<double>& expected,
             const char* what, double ulps, double absolute, bool signed_zero) {
  REQUIRE(got.numel() == int64_t(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    const double y = got.at(int64_t(i));
    const bool zeros_agree = !signed_zero || y != 0 || std::signbit(y) == std::signbit(expected[i]);
    if (agrees(y, expected[i], b.dtype, ulps, absolute) && zeros_agree) continue;
    std::string at;
    for (const std::vector<double>& column : x) at += fmt::format("{} ", column[i]);
    FAIL_CHECK(fmt::format("{} {}{} at {}: {} is {}, PyTorch says {} ({} ulp)", b.op, dtype_name(b.dtype),
                           fmt::join(b.params, ","), at, what, y, expected[i], distance(y, expected[i], b.dtype)));
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
    for (size_t i = 0; i < b.params.size(); ++i) params[i] = b.params[i];
    std::vector<Tensor> in;
    const Tensor* inputs[3] = {};
    for (int i = 0; i < row.inputs; ++i) {
      const std::vector<double>& column = x[size_t(i)];
      const bool mask = row.mask_first && i == 0;
      in.push_back(tensor({int64_t(column.size())}, column, mask ? Dtype::b8 : b.dtype));
      if (!b.g.empty() && !mask) in.back().requires_grad_();
    }
    for (int i = 0; i < row.inputs; ++i) inputs[i] = &in[size_t(i)];
    const Tensor y = elementwise(op, inputs, params);
    const double ulp_of_one = b.dtype == Dtype::f32 ? 0x1p-24 : 0x1p-53;
    const Tolerance t = tolerance_of(b.op, b.dtype);
    compare(b, x, y, b.y, "the value", t.value, t.absolute, true);
    if (b.g.empty()) continue;
    y.backward(ones(y.shape(), y.dtype()));
    for (size_t i = 0; i < b.g.size(); ++i)
      if (!b.g[i].empty()) compare(b, x, in[i].grad(), b.g[i], i == 0 ? "d/da" : i == 1 ? "d/db" : "d/dc", t.gradient, 4 * ulp_of_one, false);
  }
}

MT_TEST("each operation of the list is compared with PyTorch", "[reference]") {
  const Reference reference;
  std::set<std::string> compared;
  for (const Block& b : reference.blocks) compared.insert(b.op);
  for (int op = 0; op < kOps; ++op) {
    INFO("make_torch_values.py knows no " << op_row(op).info->name);
    CHECK(compared.count(op_row(op).info->name) == 1);
  }
}

}  // namespace mt::test
