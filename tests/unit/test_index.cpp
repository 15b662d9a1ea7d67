// test_index.cpp -- gather, scatter_add, index_select and assignment against loops
#include "tests/unit/support.h"

namespace mt::test {

namespace {

Shape random_shape(Rng& rng) {
  Shape s;
  for (int64_t rank = rng.between(1, 3); rank > 0; --rank) s.push(rng.between(1, 5));
  return s;
}

Tensor random_index(Rng& rng, const Shape& shape, int64_t below, Dtype dtype = Dtype::i64) {
  const Tensor index = empty(shape, dtype);
  for (int64_t i = 0; i < index.numel(); ++i) put(index, i, double(rng.below(below)));
  return index;
}

/// x's element i in row-major order has this index.
std::vector<int64_t> index_of(const Shape& shape, int64_t i) {
  std::vector<int64_t> at(size_t(shape.size()));
  for (int d = shape.size() - 1; d >= 0; --d) at[size_t(d)] = i % shape[d], i /= shape[d];
  return at;
}
int64_t geometry_of(const Shape& shape, const std::vector<int64_t>& at) {
  int64_t place = 0;
  for (int d = 0; d < shape.size(); ++d) place = place * shape[d] + at[size_t(d)];
  return place;
}

/// x, or the same elements with another stride.
Tensor maybe_strided(Rng& rng, const Tensor& x) {
  const int64_t d = rng.below(x.dim());
  return rng.below(2) ? x : transpose(contiguous(transpose(x, 0, d)), 0, d);
}

}  // namespace

MT_TEST("gather and scatter_add agree with loops", "[index]") {
  Rng rng(51);
  for (int round = 0; round < 400; ++round) {
    const Shape shape = random_shape(rng);
    const int d = int(rng.below(shape.size()));
    Shape size = shape, larger = shape;
    for (int k = 0; k < size.size(); ++k)
      size[k] = rng.between(k == d ? 0 : 1, k == d ? 6 : shape[k]),
      larger[k] = size[k] + rng.below(2);
    const Dtype dtype = Dtype(rng.between(int(Dtype::u8), int(Dtype::f64)));
    const Tensor x = maybe_strided(rng, random_tensor(rng, shape, dtype, 0, 9)),
                 source = maybe_strided(rng, random_tensor(rng, larger, dtype, 0, 9));
    const Tensor index = maybe_strided(
        rng, random_index(rng, size, shape[d], rng.below(2) ? Dtype::i64 : Dtype::i32));
    INFO(to_string(shape) << " index " << to_string(size) << " dimension " << d);
    std::vector<double> gathered, added = values(x);
    for (int64_t i = 0; i < index.numel(); ++i) {
      std::vector<int64_t> at = index_of(size, i);
      const double value = source.at(geometry_of(larger, at));
      at[size_t(d)] = int64_t(index.at(i));
      gathered.push_back(x.at(geometry_of(shape, at)));
      double& cell = added[size_t(geometry_of(shape, at))];
      cell += value;
      if (dtype == Dtype::f32) cell = double(float(cell));
    }
    const Tensor before = clone(x), y = gather(x, rng.below(2) ? d : d - shape.size(), index);
    CHECK(y.shape() == size);
    CHECK(y.dtype() == dtype);
    CHECK(values(y) == gathered);
    CHECK(values(scatter_add(x, d, index, source)) == added);
    CHECK(difference(x, before) == "");
  }
}

MT_TEST("index_select takes whole slices", "[index]") {
  Rng rng(52);
  for (int round = 0; round < 200; ++round) {
    const Shape shape = random_shape(rng);
    const int d = int(rng.below(shape.size()));
    const Tensor x = maybe_strided(rng, random_tensor(rng, shape));
    const int64_t n = rng.below(6);
    const Tensor whole = random_index(rng, {2 * n + 1}, shape[d]),
                 index = rng.below(2) ? slice(whole, 0, 0, n) : slice(whole, 0, 1, n, 2);
    const Tensor y = index_select(x, d, index);
    Shape expected = shape;
    expected[d] = n;
    REQUIRE(y.shape() == expected);
    for (int64_t i = 0; i < n; ++i)
      CHECK(difference(pick(y, d, i), pick(x, d, int64_t(index.at(i)))) == "");
  }
}

MT_TEST("large gathers and scatters agree with loops", "[index]") {
  Rng rng(53);
  const int64_t n = 50021;
  const Tensor x = random_tensor(rng, {n, 3}, Dtype::f32), index = random_index(rng, {n, 3}, n);
  const Tensor y = gather(x, 0, index);
  std::vector<double> added(size_t(3 * n), 0.0);
  bool right = true;
  for (int64_t i = 0; i < 3 * n; ++i) {
    const int64_t place = int64_t(index.at(i)) * 3 + i % 3;
    right &= y.at(i) == x.at(place);
    added[size_t(place)] = double(float(added[size_t(place)]) + float(x.at(i)));
  }
  CHECK(right);
  CHECK(values(scatter_add(zeros({n, 3}), 0, index, x)) == added);
}

MT_TEST("gradients of gather, scatter_add and index_select agree with finite differences",
        "[index]") {
  Rng rng(54);
  const Tensor x = leaf(random_tensor(rng, {3, 4})), source = leaf(random_tensor(rng, {3, 3})),
               index = random_index(rng, {2, 3}, 4);
  const std::vector<Tensor> rows = {x}, both = {x, source};
  const TensorFunction g = [&](const std::vector<Tensor>& in) {
    return square(gather(in[0], 1, index));
  };
  CHECK_NOTHROW(gradcheck(g, rows));
  CHECK_NOTHROW(gradgradcheck(g, rows));
  const TensorFunction s = [&](const std::vector<Tensor>& in) {
    return square(scatter_add(in[0], 1, index, in[1]));
  };
  CHECK_NOTHROW(gradcheck(s, both));
  CHECK_NOTHROW(gradgradcheck(s, both));
  const Tensor picks = tensor({4}, {2, 0, 2, 2}, Dtype::i64);
  const TensorFunction select = [&](const std::vector<Tensor>& in) {
    return square(index_select(in[0], 0, picks));
  };
  CHECK_NOTHROW(gradcheck(select, rows));
  CHECK_NOTHROW(gradgradcheck(select, rows));
}

MT_TEST("assignment writes the region and nothing else", "[index]") {
  Rng rng(55);
  for (const Dtype dtype : {Dtype::f32, Dtype::i64, Dtype::b8}) {
    const Tensor x = random_tensor(rng, {4, 5}, dtype), before = clone(x),
                 value = random_tensor(rng, {2, 1}, Dtype::f64);
    assign(x, slice(slice(x, 0, 1, 2), 1, 0, 3, 2), value);
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 5; ++j) {
        const bool inside = i >= 1 && i < 3 && j % 2 == 0;
        CHECK(x.at(5 * i + j) == (inside ? to(value, dtype).at(i - 1) : before.at(5 * i + j)));
      }
  }
}

MT_TEST("gradients pass through assignment, to the second order", "[index][autograd]") {
  Rng rng(56);
  const std::vector<Tensor> in = {leaf(random_tensor(rng, {3, 4})),
                                  leaf(random_tensor(rng, {2, 1}))};
  const TensorFunction f = [](const std::vector<Tensor>& x) {
    const Tensor y = square(x[0]);
    assign(y, slice(slice(y, 0, 1, 2), 1, 0, 2, 2), square(x[1]));
    return square(y);
  };
  CHECK_NOTHROW(gradcheck(f, in));
  CHECK_NOTHROW(gradgradcheck(f, in));
  const TensorFunction constant = [](const std::vector<Tensor>& x) {
    const Tensor y = square(x[0]);
    assign(y, pick(y, 1, 2), Tensor(3.0));
    return square(y);
  };
  CHECK_NOTHROW(gradcheck(constant, {in[0]}));
  CHECK_NOTHROW(gradgradcheck(constant, {in[0]}));
  const Tensor plain = zeros({3}, Dtype::f64), v = leaf(tensor({}, {2}));
  assign(plain, pick(plain, 0, 1), square(v));
  sum(square(plain)).backward();
  CHECK(v.grad().item() == 4 * 8);
}

}  // namespace mt::test
