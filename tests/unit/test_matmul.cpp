// test_matmul.cpp -- products of matrices, batches and vectors against a loop of multiplications
#include "kernels/cpu/pool/parallel.h"
#include "kernels/matmul.h"
#include "tests/unit/support.h"

namespace mt::test {

namespace {

/// A tensor of this shape in a random layout.
Tensor in_some_layout(Rng& rng, const Shape& shape, Dtype dtype) {
  const int rank = shape.size();
  const double low = is_float(dtype) ? -1 : 0, high = is_float(dtype) ? 1 : 7;
  Shape base = shape;
  switch (rank > 0 ? rng.below(5) : 0) {
    case 1: {
      const int a = int(rng.below(rank)), b = int(rng.below(rank));
      std::swap(base[a], base[b]);
      return transpose(random_tensor(rng, base, dtype, low, high), a, b);
    }
    case 2: {
      const int d = int(rng.below(rank));
      base[d] = 2 * shape[d] + 1;
      return slice(random_tensor(rng, base, dtype, low, high), d, 1, shape[d], 2);
    }
    case 3: {
      const int d = int(rng.below(rank));
      base[d] = shape[d] + 3;
      return slice(random_tensor(rng, base, dtype, low, high), d, 2, shape[d]);
    }
    case 4: {
      const int d = int(rng.below(rank));
      base[d] = 1;
      return expand(random_tensor(rng, base, dtype, low, high), shape);
    }
    default: return random_tensor(rng, base, dtype, low, high);
  }
}

/// torch.matmul in its own words: vectors become matrices, batches broadcast, then a loop.
Tensor naive(const Tensor& a0, const Tensor& b0) {
  const Tensor a = a0.dim() == 1 ? unsqueeze(a0, 0) : a0, b = b0.dim() == 1 ? unsqueeze(b0, 1) : b0;
  Shape batch_a, batch_b;
  for (int d = 0; d < a.dim() - 2; ++d) batch_a.push(a.size(d));
  for (int d = 0; d < b.dim() - 2; ++d) batch_b.push(b.size(d));
  const Shape batch = broadcast("naive", batch_a, batch_b);
  const int64_t m = a.size(-2 + a.dim()), k = a.size(a.dim() - 1), n = b.size(b.dim() - 1),
                count = checked_count("naive", batch);
  Shape sa = batch, sb = batch, so = batch;
  sa.push(m), sa.push(k), sb.push(k), sb.push(n), so.push(m), so.push(n);
  const std::vector<double> x = values(expand(a, sa)), y = values(expand(b, sb));
  std::vector<double> out(size_t(count * m * n));
  for (int64_t e = 0; e < count; ++e)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double total = 0;
        for (int64_t p = 0; p < k; ++p)
          total += x[size_t((e * m + i) * k + p)] * y[size_t((e * k + p) * n + j)];
        out[size_t((e * m + i) * n + j)] = total;
      }
  Tensor result = tensor(so, out);
  if (b0.dim() == 1) result = squeeze(result, -1);
  if (a0.dim() == 1) result = squeeze(result, b0.dim() == 1 ? -1 : -2);
  return result;
}

std::string compare(const Tensor& a, const Tensor& b) {
  const Tensor y = matmul(a, b);
  double largest = 0;  // sum of |a b|: what the rounding of each term is relative to
  for (double v : values(naive(abs(to(a, Dtype::f64)), abs(to(b, Dtype::f64)))))
    largest = std::max(largest, v);
  const double unit = y.dtype() == Dtype::f32 ? 0x1p-23 : y.dtype() == Dtype::f64 ? 0x1p-52 : 0;
  return difference(y, naive(a, b), 0, 4 * unit * largest);
}

}  // namespace

MT_TEST("products of random shapes, layouts and batches agree with a loop", "[matmul]") {
  Rng rng(41);
  for (int round = 0; round < 500; ++round) {
    const auto side = [&] {
      return rng.below(20) == 0 ? 0 : rng.below(3) == 0 ? rng.between(1, 40) : rng.between(1, 9);
    };
    const int64_t m = side(), k = side(), n = side();
    Shape sa, sb;
    for (int64_t batch = rng.below(3); batch > 0; --batch) {
      const int64_t size = rng.below(12) ? rng.between(1, 3) : 0;
      sa.push(rng.below(3) ? size : 1), sb.push(rng.below(3) ? size : 1);
    }
    if (sa.size() > 0 && rng.below(3) == 0) (rng.below(2) ? sa : sb).erase(0);
    sa.push(m), sa.push(k), sb.push(k), sb.push(n);
    if (rng.below(8) == 0) sa = {k};
    if (rng.below(8) == 0) sb = {k};
    const Dtype dtypes[] = {Dtype::f32, Dtype::f64, Dtype::i64, Dtype::i32};
    const Dtype dtype = dtypes[rng.below(10) < 8 ? rng.below(2) : 2 + rng.below(2)];
    const Tensor a = in_some_layout(rng, sa, dtype), b = in_some_layout(rng, sb, dtype);
    INFO(dtype_name(dtype) << " " << to_string(sa) << " by " << to_string(a.strides()) << " times "
                           << to_string(sb) << " by " << to_string(b.strides()));
    CHECK(compare(a, b) == "");
  }
}

MT_TEST("products of larger shapes agree with a loop", "[matmul]") {
  Rng rng(42);
  struct Size {
    int64_t m, k, n;
  };
  for (const auto& [m, k, n] : std::vector<Size>{{1, 300, 130},
                                                 {130, 300, 1},
                                                 {129, 127, 131},
                                                 {32, 513, 33},
                                                 {257, 65, 9},
                                                 {7, 40, 515},
                                                 {230, 210, 220}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
          if (m * k * n > 1000000 && ta != tb) continue;
          const Tensor a = ta ? t(random_tensor(rng, {k, m}, dtype, -1, 1))
                              : random_tensor(rng, {m, k}, dtype, -1, 1);
          const Tensor b = tb ? t(random_tensor(rng, {n, k}, dtype, -1, 1))
                              : random_tensor(rng, {k, n}, dtype, -1, 1);
          INFO(m << " x " << k << " x " << n << (ta ? " a transposed" : "")
                 << (tb ? " b transposed" : ""));
          CHECK(compare(a, b) == "");
        }
}

MT_TEST("NaN and infinity pass through a product", "[matmul]") {
  for (const int64_t n : {2, 33, 70}) {
    const Tensor a = zeros({n, n}), b = ones({n, n});
    put(a, n + 1, kNan);
    put(a, 0, kInf);
    const Tensor y = matmul(a, b);
    for (int64_t j = 0; j < n; ++j) {
      CHECK(y.at(j) == kInf);
      CHECK(std::isnan(y.at(n + j)));
    }
    const Tensor zero_times_inf = matmul(zeros({n, n}), full({n, n}, kInf));
    CHECK(std::isnan(zero_times_inf.at(0)));
  }
}

MT_TEST("products have the same bits for every number of threads", "[matmul]") {
  Rng rng(43);
  const int before = cpu_threads();
  struct Size {
    int64_t batch, m, k, n;
  };
  for (const auto& [batch, m, k, n] : std::vector<Size>{{1, 64, 784, 128},
                                                        {1, 300, 300, 300},
                                                        {1, 1100, 20, 1030},
                                                        {1, 1030, 20, 1100},
                                                        {1, 1, 3000, 400},
                                                        {1, 900, 64, 10},
                                                        {40, 33, 20, 17},
                                                        {3, 200, 100, 150}})
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      INFO(batch << " x " << m << " x " << k << " x " << n);
      const Tensor a = random_tensor(rng, {batch, m, k}, dtype, -1, 1),
                   b = random_tensor(rng, {batch, k, n}, dtype, -1, 1);
      Tensor first;
      for (const int threads : {1, 2, 3, 8}) {
        set_cpu_threads(threads);
        const Tensor y = matmul(a, b);
        if (!first.defined()) first = y;
        CHECK(difference(y, first) == "");
      }
      set_cpu_threads(before);
    }
}

MT_TEST("gradients of products agree with finite differences", "[matmul]") {
  Rng rng(44);
  const TensorFunction f = [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); };
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{2, 3}, {3, 2}},
                                                                 {{3}, {3}},
                                                                 {{3}, {3, 2}},
                                                                 {{2, 3}, {3}},
                                                                 {{2, 2, 3}, {3, 2}},
                                                                 {{2, 3}, {2, 3, 2}},
                                                                 {{2, 1, 2, 3}, {3, 3, 1}},
                                                                 {{1, 1}, {1, 1}},
                                                                 {{0, 3}, {3, 2}},
                                                                 {{2, 0}, {0, 2}},
                                                                 {{2, 2, 3}, {3}},
                                                                 {{3}, {2, 3, 2}}}) {
    INFO(to_string(a) << " times " << to_string(b));
    const std::vector<Tensor> in = {leaf(random_tensor(rng, a)), leaf(random_tensor(rng, b))};
    CHECK_NOTHROW(gradcheck(f, in));
    CHECK_NOTHROW(gradgradcheck(f, in));
    CHECK_NOTHROW(gradcheck(f, {in[0], random_tensor(rng, b)}));
    CHECK_NOTHROW(gradcheck(f, {random_tensor(rng, a), in[1]}));
  }
  const std::vector<Tensor> swapped = {leaf(random_tensor(rng, {3, 2})),
                                       leaf(random_tensor(rng, {4, 3}))};
  CHECK_NOTHROW(
      gradcheck([](const std::vector<Tensor>& in) { return matmul(t(in[0]), t(in[1])); }, swapped));
  CHECK_NOTHROW(gradcheck([](const std::vector<Tensor>& in) { return matmul(in[0], in[0]); },
                          {leaf(random_tensor(rng, {3, 3}))}));
}

MT_TEST("every kernel of products adds the bias once", "[matmul]") {
  Rng rng(46);
  for (const int64_t m : {1, 5, 64, 300})
    for (const int64_t n : {1, 5, 40, 600})
      for (const int64_t k : {1, 64, 300, 5000}) {
        if (m * n * k > 100'000'000) continue;
        INFO(m << " x " << k << " x " << n);
        const Tensor x = random_tensor(rng, {m, k}), w = random_tensor(rng, {n, k}),
                     b = squeeze(slice(random_tensor(rng, {n, 2}), 1, 1, 1), 1),
                     y = matmul(x, t(w)) + b;
        for (const Dtype d : {Dtype::f64, Dtype::f32}) {
          const double tolerance = d == Dtype::f64 ? 1e-12 : 1e-3;
          const auto same = [&](const Tensor& x, const Tensor& w) {
            const Tensor z = linear(to(x, d), to(w, d), to(b, d));
            return difference(to(z, Dtype::f64), y, tolerance, tolerance);
          };
          CHECK(same(x, w) == "");
          CHECK(same(t(contiguous(t(x))), w) == "");
          CHECK(same(x, t(contiguous(t(w)))) == "");
        }
      }
}

MT_TEST("linear is the product with the weight transposed, plus the bias", "[matmul]") {
  Rng rng(45);
  for (const Shape& shape : std::vector<Shape>{{3}, {1, 3}, {5, 3}, {2, 4, 3}, {0, 3}}) {
    INFO("input " << to_string(shape));
    const Tensor x = leaf(random_tensor(rng, shape)), w = leaf(random_tensor(rng, {2, 3})),
                 b = leaf(random_tensor(rng, {2}));
    CHECK(difference(linear(x, w, b), matmul(x, t(w)) + b, 1e-14, 1e-14) == "");
    CHECK(difference(linear(x, w, {}), matmul(x, t(w)), 1e-14, 1e-14) == "");
    const TensorFunction f = [](const std::vector<Tensor>& in) {
      return linear(in[0], in[1], in[2]);
    };
    CHECK_NOTHROW(gradcheck(f, {x, w, b}));
    CHECK_NOTHROW(gradgradcheck(f, {x, w, b}));
  }
  const Tensor x = leaf(random_tensor(rng, {4, 3})), w = random_tensor(rng, {2, 3}),
               b = leaf(random_tensor(rng, {2}));
  CHECK_NOTHROW(
      gradcheck([&](const std::vector<Tensor>& in) { return linear(in[0], w, in[1]); }, {x, b}));
  const Tensor strided = leaf(random_tensor(rng, {3, 4}));
  CHECK_NOTHROW(
      gradcheck([&](const std::vector<Tensor>& in) { return linear(t(in[0]), w, b); }, {strided}));
  CHECK(linear(to(x, Dtype::f32), w, b).dtype() == Dtype::f64);
}

MT_TEST("linear adds the bias in every kind of product", "[matmul]") {
  Rng rng(46);
  for (int round = 0; round < 120; ++round) {
    const Dtype dtype = round % 2 ? Dtype::f32 : Dtype::f64;
    const int64_t n = rng.between(1, 20), k = rng.between(1, round % 4 ? 30 : 700),
                  m = rng.between(1, 20);
    const Tensor x = in_some_layout(rng, {m, k}, dtype), w = in_some_layout(rng, {n, k}, dtype);
    const Tensor bias = full({n}, 1000, dtype);  // the product is far smaller
    INFO(m << " x " << k << " x " << n << " " << dtype_name(dtype));
    const Tensor expected = naive(x, t(w)) + bias;
    CHECK(difference(linear(x, w, bias), expected, dtype == Dtype::f32 ? 1e-6 : 1e-14) == "");
  }
  const Tensor x = random_tensor(rng, {260, 220}, Dtype::f32, -1, 1),
               w = random_tensor(rng, {230, 220}, Dtype::f32, -1, 1);
  CHECK(difference(linear(x, w, full({230}, 1000)), naive(x, t(w)) + full({230}, 1000), 1e-6) ==
        "");
}

MT_TEST("mixed dtypes of a product are promoted", "[matmul]") {
  const Tensor a = tensor({1, 2}, {2, 3}, Dtype::i32), b = tensor({2, 1}, {0.5, 2}, Dtype::f32);
  CHECK(matmul(a, b).dtype() == Dtype::f32);
  CHECK(matmul(a, b).item() == 7);
  CHECK(matmul(a, to(b, Dtype::f64)).dtype() == Dtype::f64);
  CHECK(matmul(a, to(a, Dtype::i64).t()).dtype() == Dtype::i64);
}

MT_TEST("a batch dimension of size 1 does not keep rows apart, whatever its strides are",
        "[matmul]") {
  Matmul q{};
  q.m = 3, q.n = 2, q.k = 4;
  q.a_row = 4, q.c_row = 2;
  q.batch_dims = 2;
  q.batch_size[0] = 5, q.a_batch[0] = 12, q.c_batch[0] = 6;
  q.batch_size[1] = 1, q.a_batch[1] = 100, q.c_batch[1] = 7;
  const Matmul merged = merge_rows(q);
  CHECK(merged.batch_dims == 0);
  CHECK(merged.m == 15);
}

}  // namespace mt::test
