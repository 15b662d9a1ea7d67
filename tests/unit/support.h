// support.h -- what the C++ tests share: seeded numbers, comparisons, layouts, and a check that
// memory is given back
#pragma once
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "engine/autograd/gradcheck.h"
#include "engine/autograd/graph.h"
#include "engine/core/memory.h"
#include "engine/ops/ops.h"
#include "kernels/math/number.h"
#include "tests/unit/catch.h"

namespace mt::test {

constexpr double kInf = __builtin_inf(), kNan = __builtin_nan("");

/// A fixture: when the test ends, as many bytes live in tensors as before, and gradients are
/// recorded again.
struct Balanced {
  Balanced() : live(memory_use().live) {}
  Balanced(const Balanced&) = delete;
  ~Balanced() {
    CHECK(memory_use().live == live);
    CHECK(grad_enabled());
    CHECK(default_dtype() == Dtype::f32);
  }
  int64_t live;
};
#define MT_TEST(name, tags) TEST_CASE_METHOD(mt::test::Balanced, name, tags)

/// splitmix64 (Steele 2014): the tests' own numbers, the same on every run.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  double uniform(double low, double high) {
    return low + (high - low) * double(next() >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

/// Sets element i, counted in row-major order.
inline void put(const Tensor& x, int64_t i, double value) {
  int64_t offset = 0;
  for (int d = x.dim() - 1; d >= 0; --d) offset += i % x.size(d) * x.stride(d), i /= x.size(d);
  with_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    x.data_as<T>()[offset] = math::convert<T>(value);
  });
}

inline Tensor tensor(const Shape& shape, const std::vector<double>& values,
                     Dtype dtype = Dtype::f64) {
  Tensor x = empty(shape, dtype);
  REQUIRE(x.numel() == int64_t(values.size()));
  for (size_t i = 0; i < values.size(); ++i) put(x, int64_t(i), values[i]);
  return x;
}

inline std::vector<double> values(const Tensor& x) {
  std::vector<double> v;
  for (int64_t i = 0; i < x.numel(); ++i) v.push_back(x.at(i));
  return v;
}

inline Tensor random_tensor(Rng& rng, const Shape& shape, Dtype dtype = Dtype::f64, double low = -4,
                            double high = 4) {
  Tensor x = empty(shape, dtype);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double v = rng.uniform(low, high);
    put(x, i,
        is_float(dtype)      ? v
        : dtype == Dtype::b8 ? double(v > (low + high) / 2)
                             : std::floor(v));
  }
  return x;
}

/// The value that a dtype has for x.
inline double rounded(double x, Dtype d) {
  return with_dtype(d, [&](auto zero) { return double(math::convert<decltype(zero)>(x)); });
}

inline bool same_value(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

/// Whether x is a result in this dtype: `expected`, with a relative error before it is rounded.
inline bool is_result(double x, double expected, double error, Dtype d) {
  error *= std::fabs(expected);
  const double low = rounded(expected - error, d), high = rounded(expected + error, d);
  return (low <= x && x <= high) || same_value(x, low) || same_value(x, high);
}

/// What is not alike in two tensors: dtype, shape, or an element; empty when all is. NaN equals
/// NaN, 0 is not -0.
inline std::string difference(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype())
    return fmt::format("dtype {} and {}", dtype_name(a.dtype()), dtype_name(b.dtype()));
  if (!(a.shape() == b.shape()))
    return fmt::format("shape {} and {}", to_string(a.shape()), to_string(b.shape()));
  NoGrad off;
  const Tensor x = contiguous(a), y = contiguous(b);
  if (x.numel() == 0 ||
      std::memcmp(x.data(), y.data(), size_t(x.numel() * item_size(x.dtype()))) == 0)
    return "";
  for (int64_t i = 0; i < x.numel(); ++i)
    if (!same_value(x.at(i), y.at(i)))
      return fmt::format("element {}: {} and {}", i, x.at(i), y.at(i));
  return "";
}

/// The same with a tolerance, across dtypes; infinities and NaN must agree.
inline std::string difference(const Tensor& a, const Tensor& b, double relative,
                              double absolute = 0) {
  if (!(a.shape() == b.shape()))
    return fmt::format("shape {} and {}", to_string(a.shape()), to_string(b.shape()));
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (std::isnan(x) ? std::isnan(y)
                      : x == y || std::fabs(x - y) <= absolute + relative * std::fabs(y))
      continue;
    return fmt::format("element {}: {} and {}, off by {}", i, x, y, x - y);
  }
  return "";
}
inline std::string difference(const Tensor& a, const std::vector<double>& b, double relative,
                              double absolute = 0) {
  if (a.numel() != int64_t(b.size())) return fmt::format("{} elements and {}", a.numel(), b.size());
  return difference(a, tensor(a.shape(), b), relative, absolute);
}

const std::string kNoError = "nothing was thrown";
/// The text of the mt::Error that `f` throws, or kNoError.
inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) { return e.what(); }
  return kNoError;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A tensor that requires a gradient, with a copy of x's values.
inline Tensor leaf(const Tensor& x) {
  Tensor copy = clone(x.detach());
  copy.requires_grad_();
  return copy;
}

/// The gradients of sum(f(inputs) * weights) by every input that requires one.
inline std::vector<Tensor> gradients(const TensorFunction& f, const std::vector<Tensor>& inputs,
                                     bool create_graph = false) {
  for (const Tensor& x : inputs) x.set_grad({});
  const Tensor out = f(inputs);
  Tensor weights = empty(out.shape(), out.dtype());
  for (int64_t i = 0; i < weights.numel(); ++i) put(weights, i, 0.5 + double(i % 7) / 8);
  out.backward(weights, false, create_graph);
  std::vector<Tensor> result;
  for (const Tensor& x : inputs) {
    if (x.requires_grad()) result.push_back(x.grad());
    x.set_grad({});
  }
  return result;
}

/// A way to lie in memory: `view` shows a contiguous base of shape `base` with other strides.
struct Layout {
  const char* name;
  Shape base;
  std::function<Tensor(const Tensor&)> view;
};

/// All the ways to show a rows x columns matrix, then (`odd_ones`) an empty, a 0-d and a size-1
/// tensor.
inline std::vector<Layout> matrix_layouts(int64_t rows, int64_t columns) {
  return {
      {"contiguous", {rows, columns}, [](const Tensor& x) { return x; }},
      {"transposed", {columns, rows}, [](const Tensor& x) { return transpose(x, 0, 1); }},
      {"strided slice",
       {2 * rows + 1, 2 * columns + 3},
       [=](const Tensor& x) { return slice(slice(x, 0, 1, rows, 2), 1, 2, columns, 2); }},
      {"rows apart", {rows, columns + 5}, [=](const Tensor& x) { return slice(x, 1, 3, columns); }},
      {"expanded",
       {1, columns},
       [=](const Tensor& x) {
         return expand(x, {rows, columns});
       }},
      {"expanded columns", {rows, 1}, [=](const Tensor& x) {
         return expand(x, {rows, columns});
       }}};
}
/// Empty, 0-d and size-1 tensors.
inline std::vector<Layout> odd_layouts() {
  return {{"zero-size", {3, 0}, [](const Tensor& x) { return x; }},
          {"zero-size slice", {3, 4}, [](const Tensor& x) { return slice(x, 0, 2, 0); }},
          {"0-d", {}, [](const Tensor& x) { return x; }},
          {"0-d inside", {2, 3}, [](const Tensor& x) { return pick(pick(x, 0, 1), 0, 2); }},
          {"size-1", {1, 1, 1}, [](const Tensor& x) { return x; }}};
}

}  // namespace mt::test
