// test_shape.cpp -- shapes, views, joins, copies and conversions, against a slow index-by-index
// reference
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tests/unit/support.h"

namespace mt::test {

namespace {

/// A tensor as a list: element i in row-major order came from element from[i] of the base.
struct Slow {
  std::vector<int64_t> size, from;

  int64_t numel() const { return int64_t(from.size()); }
  Shape shape() const { return Shape(size.data(), int(size.size())); }

  /// A tensor of another size whose element at an index is this one's element at `source(index)`.
  Slow seen(std::vector<int64_t> new_size,
            const std::function<std::vector<int64_t>(std::vector<int64_t>)>& source) const {
    Slow out;
    out.size = std::move(new_size);
    int64_t n = 1;
    for (int64_t s : out.size) n *= s;
    for (int64_t i = 0; i < n; ++i) {
      std::vector<int64_t> index(out.size.size());
      int64_t rest = i;
      for (size_t d = out.size.size(); d-- > 0;) index[d] = rest % out.size[d], rest /= out.size[d];
      const std::vector<int64_t> at = source(index);
      int64_t place = 0;
      for (size_t d = 0; d < size.size(); ++d) place = place * size[d] + at[d];
      out.from.push_back(from[size_t(place)]);
    }
    return out;
  }
  Slow reshaped(std::vector<int64_t> new_size) const { return {std::move(new_size), from}; }
};

/// Whether offsets of elements, in row-major order, are an affine function of an index in `shape`.
bool affine(const std::vector<int64_t>& offset, const Shape& shape) {
  std::vector<int64_t> step;
  int64_t n = 1;
  for (int d = shape.size() - 1; d >= 0; n *= shape[d--])
    step.insert(step.begin(), shape[d] > 1 ? offset[size_t(n)] - offset[0] : 0);
  for (size_t i = 0; i < offset.size(); ++i) {
    int64_t rest = int64_t(i), place = offset[0];
    for (int d = shape.size() - 1; d >= 0; --d)
      place += rest % shape[d] * step[size_t(d)], rest /= shape[d];
    if (place != offset[i]) return false;
  }
  return true;
}

std::vector<int64_t> offsets(const Tensor& x) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, place = x.offset();
    for (int d = x.dim() - 1; d >= 0; --d)
      place += rest % x.size(d) * x.stride(d), rest /= x.size(d);
    all.push_back(place);
  }
  return all;
}

/// A random shape with n elements.
std::vector<int64_t> factors(Rng& rng, int64_t n) {
  std::vector<int64_t> size;
  while (n > 1 && size.size() < 5) {
    std::vector<int64_t> divisors;
    for (int64_t d = 2; d <= n; ++d)
      if (n % d == 0) divisors.push_back(d);
    size.push_back(divisors[size_t(rng.below(int64_t(divisors.size())))]);
    n /= size.back();
  }
  if (n > 1) size.back() *= n;
  for (int64_t ones = rng.below(3); ones > 0; --ones)
    size.insert(size.begin() + rng.below(int64_t(size.size()) + 1), 1);
  return size;
}

struct Pair {
  Tensor fast;
  Slow slow;
  std::string history;
};

/// One random view operation on both; nothing where it does not apply.
void step(Rng& rng, Pair& p) {
  const int rank = p.fast.dim();
  const int64_t kind = rng.below(9);
  const auto any_dim = [&] { return rng.below(rank); };
  const auto signed_dim = [&](int64_t d) { return rng.below(2) ? d : d - rank; };
  const std::vector<int64_t>& size = p.slow.size;
  if (kind == 0 && rank > 0) {
    std::vector<int64_t> order(static_cast<size_t>(rank)), new_size;
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[size_t(rng.below(int64_t(i)))]);
    Shape dims;
    for (int64_t d : order) dims.push(signed_dim(d)), new_size.push_back(size[size_t(d)]);
    p.fast = permute(p.fast, dims);
    p.slow = p.slow.seen(new_size, [&](const std::vector<int64_t>& index) {
      std::vector<int64_t> at(order.size());
      for (size_t i = 0; i < order.size(); ++i) at[size_t(order[i])] = index[i];
      return at;
    });
    p.history += fmt::format(" permute({})", fmt::join(order, ","));
  } else if (kind == 1 && rank > 0) {
    const int64_t a = any_dim(), b = any_dim();
    std::vector<int64_t> new_size = size;
    std::swap(new_size[size_t(a)], new_size[size_t(b)]);
    p.fast = transpose(p.fast, signed_dim(a), signed_dim(b));
    p.slow = p.slow.seen(new_size, [&](std::vector<int64_t> index) {
      std::swap(index[size_t(a)], index[size_t(b)]);
      return index;
    });
    p.history += fmt::format(" transpose({},{})", a, b);
  } else if (kind == 2 && rank > 0) {
    const int64_t d = any_dim(), have = size[size_t(d)], by = rng.between(1, 3),
                  first = rng.below(have + 1);
    const int64_t most = have > first ? (have - first - 1) / by + 1 : 0;
    const int64_t n = most > 0 && rng.below(20) ? rng.between(1, most) : rng.below(12) ? most : 0;
    if (n == 0 && rng.below(4)) return;
    std::vector<int64_t> new_size = size;
    new_size[size_t(d)] = n;
    p.fast = slice(p.fast, signed_dim(d), first, n, by);
    p.slow = p.slow.seen(new_size, [&](std::vector<int64_t> index) {
      index[size_t(d)] = first + index[size_t(d)] * by;
      return index;
    });
    p.history += fmt::format(" slice({},{},{},{})", d, first, n, by);
  } else if (kind == 3 && rank > 2) {
    const int64_t d = any_dim(), have = size[size_t(d)];
    if (have == 0) return;
    const int64_t at = rng.below(have);
    std::vector<int64_t> new_size = size;
    new_size.erase(new_size.begin() + d);
    p.fast = pick(p.fast, signed_dim(d), rng.below(2) ? at : at - have);
    p.slow = p.slow.seen(new_size, [&](std::vector<int64_t> index) {
      index.insert(index.begin() + d, at);
      return index;
    });
    p.history += fmt::format(" pick({},{})", d, at);
  } else if (kind == 4 && rank < 6) {
    const int64_t d = rng.below(rank + 1);
    std::vector<int64_t> new_size = size;
    new_size.insert(new_size.begin() + d, 1);
    p.fast = unsqueeze(p.fast, rng.below(2) ? d : d - rank - 1);
    p.slow = p.slow.reshaped(new_size);
    p.history += fmt::format(" unsqueeze({})", d);
  } else if (kind == 5) {
    std::vector<int64_t> new_size = size;
    if (rank > 0 && rng.below(2)) {
      const int64_t d = any_dim();
      if (size[size_t(d)] == 1) new_size.erase(new_size.begin() + d);
      p.fast = squeeze(p.fast, signed_dim(d));
    } else {
      new_size.erase(std::remove(new_size.begin(), new_size.end(), 1), new_size.end());
      p.fast = squeeze(p.fast);
    }
    p.slow = p.slow.reshaped(new_size);
    p.history += " squeeze";
  } else if (kind == 6 && rank < 5 && p.slow.numel() < 400) {
    std::vector<int64_t> new_size = size;
    Shape wanted;
    for (int64_t& s : new_size) {
      if (s == 1 && rng.below(2)) s = rng.between(1, 3), wanted.push(s);
      else wanted.push(rng.below(2) ? -1 : s);
    }
    if (rng.below(3) == 0) new_size.insert(new_size.begin(), 2), wanted.insert(0, 2);
    const size_t skip = new_size.size() - size.size();
    p.fast = expand(p.fast, wanted);
    p.slow = p.slow.seen(new_size, [&](const std::vector<int64_t>& index) {
      std::vector<int64_t> at(index.begin() + int64_t(skip), index.end());
      for (size_t d = 0; d < at.size(); ++d)
        if (size[d] == 1) at[d] = 0;
      return at;
    });
    p.history += fmt::format(" expand({})", fmt::join(new_size, ","));
  } else if (kind == 7 && p.slow.numel() > 0) {
    const std::vector<int64_t> new_size = factors(rng, p.slow.numel());
    Shape wanted(new_size.data(), int(new_size.size()));
    const bool can = affine(offsets(p.fast), wanted);
    p.history += fmt::format(" view({}){}", fmt::join(new_size, ","), can ? "" : "!");
    INFO(p.history);
    Tensor seen;
    const std::string error = error_of([&] { seen = view(p.fast, wanted); });
    CHECK((error == kNoError) == can);
    if (!can) CHECK(contains(error, "view: " + to_string(p.fast.shape())));
    if (wanted.size() > 0 && rng.below(2)) wanted[int(rng.below(wanted.size()))] = -1;
    const Tensor reshaped = reshape(p.fast, wanted);
    CHECK((reshaped.impl()->storage == p.fast.impl()->storage) == can);
    p.fast = reshaped;
    p.slow = p.slow.reshaped(new_size);
  } else if (kind == 8 && rank > 0) {
    int64_t a = any_dim(), b = any_dim();
    if (a > b) std::swap(a, b);
    std::vector<int64_t> new_size(size.begin(), size.begin() + a);
    new_size.push_back(
        std::accumulate(size.begin() + a, size.begin() + b + 1, int64_t(1), std::multiplies<>()));
    new_size.insert(new_size.end(), size.begin() + b + 1, size.end());
    p.fast = flatten(p.fast, signed_dim(a), signed_dim(b));
    p.slow = p.slow.reshaped(new_size);
    p.history += fmt::format(" flatten({},{})", a, b);
  }
}

}  // namespace

MT_TEST("random sequences of views show the right elements and send gradients home", "[shape]") {
  Rng rng(1);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int64_t> size;
    for (int64_t rank = rng.between(0, 4); rank > 0; --rank)
      size.push_back(rng.below(30) ? rng.between(1, 5) : 0);
    Slow slow{size, {}};
    const int64_t n = checked_count("test", slow.shape());
    for (int64_t i = 0; i < n; ++i) slow.from.push_back(i);
    std::vector<double> iota(slow.from.begin(), slow.from.end());
    Tensor base = tensor(slow.shape(), iota);
    base.requires_grad_();
    Pair p{base, slow, fmt::format("({})", fmt::join(size, ","))};
    for (int64_t steps = rng.between(1, 7); steps > 0; --steps) {
      step(rng, p);
      INFO(p.history);
      REQUIRE(p.fast.shape() == p.slow.shape());
      std::vector<double> expected(p.slow.from.begin(), p.slow.from.end());
      REQUIRE(values(p.fast) == expected);
      REQUIRE(p.fast.numel() == p.slow.numel());
      const std::vector<int64_t> at = offsets(p.fast);
      bool dense = true;
      for (size_t i = 0; i < at.size(); ++i) dense &= at[i] == p.fast.offset() + int64_t(i);
      if (p.fast.numel() > 0) REQUIRE(p.fast.is_contiguous() == dense);
      REQUIRE(difference(clone(p.fast), tensor(p.slow.shape(), expected)) == "");
      REQUIRE(clone(p.fast).is_contiguous());
    }
    if (!p.fast.requires_grad() || p.fast.impl() == base.impl()) continue;
    INFO(p.history);
    const Tensor weights = random_tensor(rng, p.fast.shape(), Dtype::f64, 0, 9);
    std::vector<double> expected(size_t(n), 0.0);
    for (int64_t i = 0; i < p.slow.numel(); ++i)
      expected[size_t(p.slow.from[size_t(i)])] += weights.at(i);
    p.fast.backward(weights);
    REQUIRE(base.grad().shape() == base.shape());
    CHECK(difference(base.grad(), expected, 1e-13) == "");
  }
}

MT_TEST("shapes broadcast from the right", "[shape]") {
  const auto both = [](const Shape& a, const Shape& b) {
    const Shape one = broadcast("add", a, b), other = broadcast("add", b, a);
    CHECK(one == other);
    return to_string(one);
  };
  CHECK(both({}, {}) == "()");
  CHECK(both({}, {2, 3}) == "(2 x 3)");
  CHECK(both({3}, {2, 3}) == "(2 x 3)");
  CHECK(both({2, 1}, {3}) == "(2 x 3)");
  CHECK(both({1}, {0}) == "(0)");
  CHECK(both({2, 0}, {1, 1}) == "(2 x 0)");
  CHECK(both({1, 5, 1, 5}, {5, 1, 5, 1}) == "(5 x 5 x 5 x 5)");
  CHECK(both({2, 3, 1}, {7, 2, 3, 5}) == "(7 x 2 x 3 x 5)");
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{
           {{5, 7, 5, 1}, {1, 5, 1, 5}}, {{5, 2}, {5}}, {{3}, {0}}, {{2, 3}, {3, 2}}}) {
    const std::string text = error_of([&a = a, &b = b] { broadcast("add", a, b); });
    CHECK(contains(text, "add: "));
    CHECK(contains(text, to_string(a)));
    CHECK(contains(text, to_string(b)));
    CHECK(contains(error_of([&a = a, &b = b] { broadcast("add", b, a); }), "add: "));
  }
  const std::string text = error_of([] { broadcast("add", {5, 7, 5, 1}, {1, 5, 1, 5}); });
  CHECK(contains(text, "7 and 5"));
  CHECK(contains(text, "dimension 2"));
}

MT_TEST("-1 is inferred where it is one number", "[shape]") {
  const auto inferred = [](int64_t n, const Shape& wanted) {
    return to_string(infer("view", n, wanted, {n}));
  };
  CHECK(inferred(12, {3, -1}) == "(3 x 4)");
  CHECK(inferred(12, {-1}) == "(12)");
  CHECK(inferred(0, {-1}) == "(0)");
  CHECK(inferred(0, {3, -1}) == "(3 x 0)");
  CHECK(inferred(1, {}) == "()");
  CHECK(inferred(1, {1, -1, 1}) == "(1 x 1 x 1)");
  CHECK(contains(error_of([] { infer("view", 12, {-1, -1}, {12}); }), "only one size can be -1"));
  CHECK(contains(error_of([] { infer("view", 12, {5, -1}, {12}); }), "12"));
  CHECK(contains(error_of([] { infer("view", 12, {-2, 6}, {12}); }), "-2"));
  CHECK(contains(error_of([] { infer("view", 0, {0, -1}, {0}); }), "-1 cannot be inferred"));
  CHECK(contains(error_of([] { infer("view", 12, {3, 5}, {12}); }), "(3 x 5)"));
  CHECK(contains(error_of([] { infer("view", 12, {}, {12}); }), "12"));
}

MT_TEST("tensors of a program's numbers", "[shape]") {
  const std::vector<int64_t> whole{1, 2, 3, 4, 5, 6};
  const Tensor x = mt::tensor(whole.data(), {2, 3}), y = mt::tensor({1, 2.5, -3});
  CHECK((x.dtype() == Dtype::i64 && x.shape() == Shape{2, 3} && x.at(5) == 6));
  CHECK((y.dtype() == Dtype::f32 && y.shape() == Shape{3} && y.at(1) == 2.5));
  CHECK((mt::tensor({}).numel() == 0 && mt::tensor({1, 0}, Dtype::b8).at(0) == 1));
  CHECK(error_of([] { mt::tensor({1, 300}, Dtype::u8); }).find("300") != std::string::npos);
  CHECK((mt::tensor(whole, {3, 2}).shape() == Shape{3, 2} && mt::tensor(whole, {6}).at(5) == 6));
  CHECK(error_of([&] { mt::tensor(whole, {7}); }) == "tensor: 6 numbers do not fill the shape (7)");
  CHECK((x.data_as<int64_t>()[5] == 6 && y.data_as<void>() == y.data_as<float>()));
  CHECK(error_of([&] { y.data_as<double>(); }) ==
        "data_as: the tensor is float32, the elements are asked for as float64");
}

MT_TEST("a += b and similar functions write into a tensor, a view too", "[shape]") {
  const Tensor x = mt::tensor({1, 2, 3, 4}), w = ones({2}).requires_grad_(), y = w * 3.0;
  x += 1.0, x -= mt::tensor({0, 1, 0, 1}), x *= 2.0, slice(x, 0, 0, 2) /= 4.0;
  CHECK((x.at(0) == 1 && x.at(1) == 1 && x.at(2) == 8 && x.at(3) == 8));
  pick(y, 0, 0) *= 5.0;
  y.sum().backward();
  CHECK((w.grad().at(0) == 15 && w.grad().at(1) == 3));
}

MT_TEST("tensors are made with the values asked for", "[shape]") {
  for (const Shape& shape :
       std::vector<Shape>{{}, {0}, {3, 0}, {0, 3}, {2, 0, 3}, {5}, {2, 3}, {1, 1, 1}, {33, 7}})
    for (int d = 0; d < kDtypes; ++d) {
      INFO(to_string(shape) << " " << dtype_name(Dtype(d)));
      for (const double value : {0.0, 1.0}) {
        Tensor x;
        CHECK(error_of([&] { x = full(shape, value, Dtype(d)); }) == kNoError);
        if (!x.defined()) continue;
        CHECK(x.dtype() == Dtype(d));
        CHECK(x.shape() == shape);
        CHECK(x.is_contiguous());
        CHECK(values(x) == std::vector<double>(size_t(x.numel()), value));
      }
    }
  CHECK(values(full({3}, -2.5)) == std::vector<double>{-2.5, -2.5, -2.5});
  CHECK(values(eye(2, 3)) == std::vector<double>{1, 0, 0, 0, 1, 0});
  CHECK(values(eye(3, 2)) == std::vector<double>{1, 0, 0, 1, 0, 0});
  CHECK(eye(0, 3).numel() == 0);
  CHECK(values(range(1, 4, 1, Dtype::i64)) == std::vector<double>{1, 2, 3, 4});
  CHECK(values(range(4, 1, -1.5, Dtype::f64)) == std::vector<double>{4, 2.5, 1});
  CHECK(range(1, 0, 1, Dtype::i64).numel() == 0);
  CHECK(range(0, 1, 0.1, Dtype::f64).numel() == 11);
  CHECK(values(linspace(0, 1, 5)) == std::vector<double>{0, 0.25, 0.5, 0.75, 1});
  CHECK(values(linspace(3, 9, 1)) == std::vector<double>{3});
  const Tensor even = linspace(-1.1, 2.3, 77, Dtype::f64);
  CHECK(even.at(0) == -1.1);
  CHECK(even.at(76) == 2.3);
}

MT_TEST("numbers keep their sign and are never undefined", "[shape]") {
  CHECK(std::signbit((ones({1}) * Tensor(-0.0)).item()));
  CHECK((ones({1}) / Tensor(-0.0)).item() == -kInf);
  CHECK(std::signbit(full({1}, -0.0).item()));
  for (const double value : {300., -1., 1e30, kInf, kNan}) {
    INFO(value << " as uint8");
    Tensor x;
    if (error_of([&] { x = full({1}, value, Dtype::u8); }) != kNoError)
      continue;  // refused, or what `to` makes of it
    CHECK(x.item() == to(full({1}, value, Dtype::f64), Dtype::u8).item());
  }
}

MT_TEST("cat and stack put parts beside each other", "[shape]") {
  Rng rng(2);
  for (int round = 0; round < 100; ++round) {
    const int64_t rank = rng.between(1, 4), d = rng.below(rank);
    Shape size;
    for (int64_t i = 0; i < rank; ++i) size.push(rng.between(1, 4));
    std::vector<Tensor> parts;
    int64_t total = 0;
    for (int64_t count = rng.between(1, 5); count > 0; --count) {
      size[int(d)] = rng.between(0, 3);
      total += size[int(d)];
      Tensor part = leaf(random_tensor(rng, size));
      if (rng.below(3) == 0)
        part = transpose(leaf(random_tensor(rng, transpose(part, 0, -1).shape())), 0, -1);
      parts.push_back(part);
    }
    const Tensor all = cat(parts, rng.below(2) ? d : d - rank);
    CHECK(all.size(int(d)) == total);
    int64_t at = 0;
    for (const Tensor& part : parts) {
      CHECK(difference(slice(all, d, at, part.size(int(d))), part) == "");
      at += part.size(int(d));
    }
  }
  const Tensor a = tensor({2}, {1, 2}), b = tensor({2}, {3, 4});
  CHECK(values(stack({a, b}, 0)) == std::vector<double>{1, 2, 3, 4});
  CHECK(values(stack({a, b}, -1)) == std::vector<double>{1, 3, 2, 4});
  CHECK(stack({a, b}, 1).shape() == Shape{2, 2});
  CHECK(stack({tensor({}, {1}), tensor({}, {2})}).shape() == Shape{2});
  const Tensor mixed = cat({to(a, Dtype::i32), to(b, Dtype::f32), to(a, Dtype::b8)}, 0);
  CHECK(mixed.dtype() == Dtype::f32);
  CHECK(values(mixed) == std::vector<double>{1, 2, 3, 4, 1, 1});
}

MT_TEST("the gradient of cat and stack goes to the parts, in their dtypes", "[shape]") {
  Rng rng(3);
  const std::vector<Tensor> parts = {leaf(random_tensor(rng, {2, 2})), random_tensor(rng, {2, 1}),
                                     leaf(random_tensor(rng, {2, 0})),
                                     leaf(random_tensor(rng, {2, 3})),
                                     leaf(random_tensor(rng, {2, 1}))};
  gradcheck([](const std::vector<Tensor>& in) { return square(cat(in, 1)); }, parts);
  gradgradcheck(
      [](const std::vector<Tensor>& in) { return square(cat(in, 1)) * square(cat(in, -1)); },
      parts);
  const std::vector<Tensor> alike = {leaf(random_tensor(rng, {2})), leaf(random_tensor(rng, {2}))};
  gradcheck([](const std::vector<Tensor>& in) { return square(stack(in, 1)); }, alike);
  const Tensor narrow = leaf(to(parts[0], Dtype::f32)), wide = leaf(parts[0]);
  sum(cat({narrow, wide}, 0)).backward();
  CHECK(narrow.grad().dtype() == Dtype::f32);
  CHECK(wide.grad().dtype() == Dtype::f64);
}

MT_TEST("copies of every layout and dtype keep the elements", "[shape]") {
  Rng rng(4);
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {3, 4}, {17, 33}, {64, 65}, {130, 5}, {1, 9}, {300, 301}})
    for (const Layout& layout : matrix_layouts(rows, columns))
      for (const Dtype dtype : {Dtype::b8, Dtype::i32, Dtype::f64}) {
        INFO(rows << " x " << columns << " " << layout.name << " " << dtype_name(dtype));
        const Tensor base = random_tensor(rng, layout.base, dtype), x = layout.view(base);
        const Tensor dense = clone(x);
        bool same = dense.is_contiguous() && dense.shape() == x.shape();
        for (int64_t i = 0; i < x.numel(); i += 1 + i / 50) same &= dense.at(i) == x.at(i);
        CHECK(same);
        if (x.stride(0) == 0 || x.stride(1) == 0) continue;
        fill_(base, 0);
        copy_(x, dense);
        CHECK(difference(x, dense) == "");
        CHECK(sum(to(base, Dtype::f64)).item() ==
              Approx(sum(to(dense, Dtype::f64)).item()));  // nothing beside the view
      }
}

MT_TEST("rows of any length and squares of any rest are moved as elements are", "[shape]") {
  Rng rng(6);
  for (const Dtype dtype : {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::f64})
    for (const Shape& size : {Shape{5, 37, 21}, {70, 3, 66}, {2, 130, 9}, {33, 40, 1}, {3, 5, 300}})
      for (const Shape& order :
           {Shape{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}})
        for (const int64_t cut : {0, 1}) {
          const Tensor whole = permute(random_tensor(rng, size, dtype), order);
          const Tensor x = slice(whole, 2, 0, std::max<int64_t>(1, whole.size(2) - cut));
          INFO(fmt::format("{} {} stride {}", x.shape(), dtype, x.stride(2)));
          const Tensor dense = tensor(x.shape(), values(x), dtype);
          CHECK(difference(clone(x), dense) == "");
          CHECK(difference(x + x, dense + dense) == "");
          CHECK(difference(x * slice(x, 2, 0, 1), dense * slice(dense, 2, 0, 1)) == "");
          const Tensor mirror = flip(x, {2});
          bool same = difference(flip(mirror, {2}), dense) == "";
          for (int64_t i = 0, n = x.size(2); i < n; ++i)
            same &= mirror.at(i) == dense.at(n - 1 - i);
          CHECK(same);
          for (const Shape& layout : {Shape{0, 1, 2}, {1, 2, 0}, {1, 0, 2}}) {
            Shape memory;
            for (const int d : {0, 1, 2}) memory.push(whole.size(int(layout[d])));
            Shape seen{0, 0, 0};
            for (const int d : {0, 1, 2}) seen[int(layout[d])] = d;
            const Tensor base = permute(zeros(memory, x), seen);
            const Tensor part = slice(base, 2, 0, x.size(2));
            copy_(part, x);
            CHECK(difference(part, dense) == "");
            part += x;
            CHECK(difference(part, dense + dense) == "");
            CHECK(difference(base,
                             cat({part, slice(base, 2, x.size(2), whole.size(2) - x.size(2)) * 0.0},
                                 2)) == "");
          }
        }
}

MT_TEST("a copy within one storage reads before it writes", "[shape]") {
  const Tensor x = range(0, 15, 1, Dtype::f64), square_x = view(x, {4, 4});
  const std::vector<double> before = values(transpose(square_x, 0, 1));
  copy_(square_x, transpose(square_x, 0, 1));
  CHECK(values(square_x) == before);
  const Tensor y = range(0, 9, 1, Dtype::f64);
  copy_(slice(y, 0, 1, 9), slice(y, 0, 0, 9));
  CHECK(values(y) == std::vector<double>{0, 0, 1, 2, 3, 4, 5, 6, 7, 8});
}

MT_TEST("conversions hold what fits, saturate what does not, and make NaN 0", "[shape]") {
  const double big = double(1e30f);
  struct Row {
    double from, b8, u8, i32, i64;
  };
  const double least32 = -2147483648.0, most32 = 2147483647.0, least64 = -9223372036854775808.0,
               most64 = 9223372036854775808.0;
  const std::vector<Row> rows = {{0, 0, 0, 0, 0},
                                 {-0.0, 0, 0, 0, 0},
                                 {0.5, 1, 0, 0, 0},
                                 {-0.5, 1, 0, 0, 0},
                                 {1, 1, 1, 1, 1},
                                 {2.75, 1, 2, 2, 2},
                                 {-2.75, 1, 0, -2, -2},
                                 {255, 1, 255, 255, 255},
                                 {256, 1, 255, 256, 256},
                                 {2147483648.0, 1, 255, most32, 2147483648.0},
                                 {-2147483904.0, 1, 0, least32, -2147483904.0},
                                 {big, 1, 255, most32, most64},
                                 {-big, 1, 0, least32, least64},
                                 {kInf, 1, 255, most32, most64},
                                 {-kInf, 1, 0, least32, least64},
                                 {kNan, 1, 0, 0, 0}};
  for (const Dtype from : {Dtype::f32, Dtype::f64})
    for (const int64_t copies : {1, 40})  // a scalar tail, and whole vectors
      for (const Row& row : rows) {
        INFO(row.from << " as " << dtype_name(from));
        const Tensor x = full({copies}, row.from, from);
        const auto as = [&](Dtype d) { return to(x, d).at(copies - 1); };
        CHECK(as(Dtype::b8) == row.b8);
        CHECK(as(Dtype::u8) == row.u8);
        CHECK(as(Dtype::i32) == row.i32);
        CHECK(as(Dtype::i64) == row.i64);
        CHECK(same_value(as(Dtype::f64), row.from));
        CHECK(same_value(as(Dtype::f32), double(float(row.from))));
      }
  CHECK(to(tensor({1}, {1e300}), Dtype::f32).item() == kInf);
  CHECK(to(tensor({1}, {1e-300}), Dtype::f32).item() == 0);
  const Tensor whole = tensor({4}, {0, 1, 96, 3}, Dtype::i64);
  for (int d = 0; d < kDtypes; ++d)
    CHECK(values(to(whole, Dtype(d))) == (Dtype(d) == Dtype::b8
                                              ? std::vector<double>{0, 1, 1, 1}
                                              : std::vector<double>{0, 1, 96, 3}));
}

MT_TEST("two dtypes promote as in PyTorch", "[shape]") {
  using enum Dtype;
  constexpr Dtype e4 = f8_e4m3fn, e5 = f8_e5m2;  // which PyTorch does not promote
  constexpr Dtype all[] = {b8, u8, i8, i16, i32, i64, e4, e5, f16, bf16, f32, f64};
  constexpr int n = std::size(all);
  const Dtype expected[n][n] = {
      {b8, u8, i8, i16, i32, i64, e4, e5, f16, bf16, f32, f64},
      {u8, u8, i16, i16, i32, i64, e4, e5, f16, bf16, f32, f64},
      {i8, i16, i8, i16, i32, i64, e4, e5, f16, bf16, f32, f64},
      {i16, i16, i16, i16, i32, i64, e4, e5, f16, bf16, f32, f64},
      {i32, i32, i32, i32, i32, i64, e4, e5, f16, bf16, f32, f64},
      {i64, i64, i64, i64, i64, i64, e4, e5, f16, bf16, f32, f64},
      {e4, e4, e4, e4, e4, e4, e4, f16, f16, bf16, f32, f64},
      {e5, e5, e5, e5, e5, e5, f16, e5, f16, bf16, f32, f64},
      {f16, f16, f16, f16, f16, f16, f16, f16, f16, f32, f32, f64},
      {bf16, bf16, bf16, bf16, bf16, bf16, bf16, bf16, f32, bf16, f32, f64},
      {f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f64},
      {f64, f64, f64, f64, f64, f64, f64, f64, f64, f64, f64, f64}};
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < n; ++b) CHECK(promote(all[a], all[b]) == expected[a][b]);
  for (int d = 0; d < kDtypes; ++d) CHECK(dtype_named(dtype_name(Dtype(d))) == Dtype(d));
  CHECK(dtype_named("complex64") == none);
  set_default_dtype(f64);
  CHECK(zeros({1}).dtype() == f64);
  CHECK(div(tensor({1}, {1}, i64), tensor({1}, {2}, i64)).dtype() == f64);
  set_default_dtype(f32);
  CHECK(contains(error_of([] { set_default_dtype(i64); }), "int64"));
}

}  // namespace mt::test
