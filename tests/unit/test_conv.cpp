// test_conv.cpp -- Convolutions and pools from C++: numbers that Lua cannot pass, 0-based results.
#include "engine/autograd/graph.h"
#include "engine/ops/ops.h"
#include "tests/unit/catch.h"
#include "tests/unit/support.h"

using namespace mt;

namespace {
std::string error(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) { return e.what(); }
  return "no error";
}
}  // namespace

TEST_CASE("options beyond all sizes are refused before anything is allocated", "[conv]") {
  const Tensor x = ones({1, 1, 4, 4}), w = ones({1, 1, 2, 2});
  const int64_t live = memory_use().live;
  for (int64_t n :
       {int64_t(0), int64_t(-1), INT64_MIN, int64_t(1) << 31, int64_t(1) << 62, INT64_MAX}) {
    const std::string value = " is " + std::to_string(n);
    const auto has = [&](const char* option, const std::string& text) {
      INFO(option << ": " << text);
      CHECK(text.find(option + value) != std::string::npos);
    };
    has("stride", error([&] { conv("conv2d", 2, x, w, {}, {{n}, {}, {}, false, 1, {}}); }));
    has("dilation", error([&] { conv("conv2d", 2, x, w, {}, {{}, {}, {n}, false, 1, {}}); }));
    has("stride", error([&] {
          conv_transpose("conv_transpose2d", 2, x, w, {}, {{n}, {}, {}, false, 1, {}});
        }));
    PoolOptions pool;
    pool.kernel = {n};
    has("kernel_size", error([&] { max_pool("max_pool2d", 2, x, pool); }));
    if (n == 0) continue;
    has("padding", error([&] { conv("conv2d", 2, x, w, {}, {{}, {n}, {}, false, 1, {}}); }));
    if (n < 0)
      has("groups", error([&] { conv("conv2d", 2, x, w, {}, {{}, {}, {}, false, n, {}}); }));
  }
  CHECK(memory_use().live == live);
}

TEST_CASE("a kernel that repeats one element without memory of its own", "[conv]") {
  const Tensor one = expand(ones({1, 1, 1, 1}), {1, 1, int64_t(1) << 20, int64_t(1) << 20});
  const std::string text = error([&] { conv("conv2d", 2, ones({1, 1, 4, 4}), one, {}); });
  CHECK(text.find("more than the input of 4") != std::string::npos);
}

TEST_CASE("positions of max_pool count from 0", "[conv]") {
  const Tensor x = reshape(range(0, 15, 1, Dtype::f32), {1, 1, 4, 4});
  PoolOptions o;
  o.kernel = {2};
  const Pooled p = max_pool("max_pool2d", 2, x, o);
  CHECK(p.index.at_integer(0) == 5);
  CHECK(p.index.at_integer(3) == 15);
  CHECK(p.values.at(3) == 15);
}

TEST_CASE("the gradient refuses an input that was changed", "[conv]") {
  const Tensor x = ones({1, 1, 3, 3}), w = ones({1, 1, 2, 2});
  w.requires_grad_();
  const Tensor y = conv("conv2d", 2, x, w, {}).sum();
  fill_(x, 2);
  CHECK(error([&] { y.backward(); }).find("changed in place") != std::string::npos);
}
