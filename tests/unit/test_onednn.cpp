// test_onednn.cpp -- oneDNN's calls behind kernels/cpu/libraries/onednn.h, against plain loops
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/cpu/libraries/onednn.h"
#include "tests/unit/catch.h"

using namespace mt::onednn;

namespace {

std::vector<float> numbers(size_t n, int seed) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = float((i * 37 + size_t(seed) * 11) % 19) - 9;
  return x;
}

bool missing() {
  if (open()) return false;
  WARN("skipped: " << why());
  return true;
}

}  // namespace

TEST_CASE("onednn: products of all layouts", "[onednn]") {
  if (missing()) return;
  const int64_t m = 33, n = 47, k = 65;
  const std::vector<float> a = numbers(size_t(m * k), 1), b = numbers(size_t(k * n), 2);
  for (int layout = 0; layout < 8; ++layout) {
    const bool ta = layout & 1, tb = layout & 2, accumulate = layout & 4;
    std::vector<float> c(size_t(m * n), 3.0f);
    REQUIRE(sgemm(ta, tb, m, n, k, a.data(), ta ? m : k, b.data(), tb ? k : n, c.data(), n,
                  accumulate));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = accumulate ? 3.0f : 0.0f;  // small whole numbers: every sum is exact
        for (int64_t p = 0; p < k; ++p)
          sum += a[size_t(ta ? p * m + i : i * k + p)] * b[size_t(tb ? j * k + p : p * n + j)];
        if (c[size_t(i * n + j)] != sum) FAIL(layout << ": " << i << ", " << j);
      }
  }
}

namespace {

/// 2 images of 3 x 9 x 8 to 5 channels by 3 x 2 filters, stride 2 and 1, dilation 1 and 2, padding.
struct Conv {
  static constexpr int64_t N = 2, C = 3, H = 9, W = 8, O = 5, R = 3, S = 2, P = 5, Q = 8;
  const int64_t xs[4] = {N, C, H, W}, ws[4] = {O, C, R, S}, ys[4] = {N, O, P, Q};
  const int64_t xt[4] = {C * H * W, H*W, W, 1}, wt[4] = {C * R * S, R*S, S, 1},
                yt[4] = {O * P * Q, P*Q, Q, 1};
  const int64_t stride[2] = {2, 1}, dilation[2] = {1, 2}, before[2] = {1, 1}, after[2] = {1, 1};
  const Window window{2, stride, dilation, before, after};
  /// f(place in x, place in w, place in y) for each term.
  template <class F> void each(const F& f) const {
    for (int64_t i = 0; i < N * O * P * Q * C * R * S; ++i) {
      int64_t rest = i;
      const auto next = [&](int64_t size) {
        const int64_t at = rest % size;
        rest /= size;
        return at;
      };
      const int64_t s = next(S), r = next(R), c = next(C), q = next(Q), p = next(P), o = next(O);
      const int64_t h = p * 2 - 1 + r, v = q - 1 + s * 2;
      if (h >= 0 && h < H && v >= 0 && v < W)
        f(size_t(((rest * C + c) * H + h) * W + v), size_t(((o * C + c) * R + r) * S + s),
          size_t(((rest * O + o) * P + p) * Q + q));
    }
  }
};

/// Runs p with the weights in the layout that it has chosen.
void run_reordered(const Primitive& p, const Layout& weights, const std::vector<float>& w,
                   const std::vector<float>& other, Argument from, std::vector<float>& to,
                   Argument result) {
  const Layout chosen = p.layout(kWeights);
  std::vector<float> packed(chosen.bytes() / 4);
  REQUIRE(Primitive::reorder(weights, chosen).run({{kSource, w.data()}, {kResult, packed.data()}}));
  REQUIRE(p.run({{from, other.data()}, {kWeights, packed.data()}, {result, to.data()}}));
}

}  // namespace

TEST_CASE("onednn: a convolution and its gradients", "[onednn]") {
  if (missing()) return;
  const Conv c;
  const std::vector<float> x = numbers(2 * 3 * 9 * 8, 1), w = numbers(5 * 3 * 3 * 2, 2),
                           y = numbers(2 * 5 * 5 * 8, 3);
  std::vector<float> want_y(y.size()), want_x(x.size()), want_w(w.size());
  c.each([&](size_t i, size_t j, size_t k) {
    want_y[k] += x[i] * w[j], want_x[i] += y[k] * w[j], want_w[j] += x[i] * y[k];
  });
  const Layout lx(kF32, 4, c.xs, c.xt), lw(kF32, 4, c.ws, c.wt), ly(kF32, 4, c.ys, c.yt),
      any(kF32, 4, c.ws, nullptr);
  REQUIRE((lx && lw && ly && any));
  CHECK(lx.bytes() == x.size() * 4);
  CHECK(lx == Layout(kF32, 4, c.xs, c.xt));
  CHECK(!(lx == ly));

  const Algorithm direct = Algorithm::direct;
  std::vector<float> got(y.size());
  const Primitive forward = Primitive::convolution(Pass::forward, direct, {lx, any, ly}, c.window);
  REQUIRE(forward);
  CHECK(std::strlen(forward.kernel()) > 0);
  run_reordered(forward, lw, w, x, kSource, got, kResult);
  CHECK(got == want_y);

  got.assign(x.size(), 1);
  const Primitive data = Primitive::convolution(Pass::data, direct, {lx, any, ly}, c.window);
  REQUIRE(data);
  run_reordered(data, lw, w, y, kResultGradient, got, kSourceGradient);
  CHECK(got == want_x);

  got.assign(w.size(), 1);
  const Primitive weights = Primitive::convolution(Pass::weights, direct, {lx, lw, ly}, c.window);
  REQUIRE(weights);
  CHECK(weights.run(
      {{kSource, x.data()}, {kResultGradient, y.data()}, {kWeightsGradient, got.data()}}));
  CHECK(got == want_w);
}

TEST_CASE("onednn: a primitive is run by several threads at once", "[onednn]") {
  if (missing()) return;
  const int64_t sizes[2] = {96, 96}, strides[2] = {96, 1};
  const Layout square(kF32, 2, sizes, strides);
  const Primitive product = Primitive::matmul(square, square, square);
  REQUIRE(product);
  const std::vector<float> a = numbers(96 * 96, 1), b = numbers(96 * 96, 2);
  std::vector<float> results[4];
  std::vector<std::thread> threads;
  for (auto& c : results)
    threads.emplace_back([&] {
      c.resize(96 * 96);
      for (int i = 0; i < 50; ++i)
        product.run({{kSource, a.data()}, {kWeights, b.data()}, {kResult, c.data()}});
    });
  for (auto& thread : threads) thread.join();
  std::vector<float> want(96 * 96);
  REQUIRE(sgemm(false, false, 96, 96, 96, a.data(), 96, b.data(), 96, want.data(), 96, false));
  for (const auto& c : results) CHECK(c == want);
}

TEST_CASE("onednn: what it has no kernel for is refused", "[onednn]") {
  if (missing()) return;
  const int64_t sizes[2] = {4, 5}, strides[2] = {5, 1};
  const Layout x(kF32, 2, sizes, strides);
  CHECK(!Primitive::matmul(x, x, x));  // 4 x 5 by 4 x 5
  CHECK(!Layout(kF32, -1, sizes, strides));
}
