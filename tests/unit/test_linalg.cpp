// test_linalg.cpp -- linear algebra and contractions from C++: 0-based messages, several results
#include "engine/linalg/linalg.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/libraries/lapack_blocks.h"
#include "tests/unit/support.h"

namespace mt::test {

MT_TEST("factorisations multiply back", "[linalg]") {
  Rng rng(51);
  for (const Shape& shape : std::vector<Shape>{{4, 4}, {5, 2}, {2, 5}, {3, 4, 3}, {0, 2}, {2, 0}}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      INFO(to_string(shape) << " " << dtype_name(dtype));
      const double unit = dtype == Dtype::f32 ? 1e-5 : 1e-13;
      const Tensor a = random_tensor(rng, shape, dtype);
      const linalg::Qr q = linalg::qr(a);
      CHECK(difference(matmul(q.q, q.r), a, 0, unit * 10) == "");
      const linalg::Svd s = linalg::svd(a, false);
      CHECK(difference(matmul(s.u * unsqueeze(s.s, -2), s.vh), a, 0, unit * 10) == "");
    }
  }
}

MT_TEST("a matrix that fails is named, counted from 0", "[linalg]") {
  const Tensor s = tensor({2, 2, 2}, {1, 0, 0, 1, 1, 2, 2, 4});
  CHECK(error_of([&] { linalg::inv(s); }) ==
        "inv: matrix 1 of the batch is singular (pivot 1 is 0)");
  CHECK(contains(error_of([&] { linalg::solve(s, zeros({3}, Dtype::f64)); }), "it needs 2 rows"));
}

MT_TEST("a solution's gradients hold nothing that lives on", "[linalg]") {
  Rng rng(52);
  const Tensor a = leaf(random_tensor(rng, {2, 3, 3})), b = leaf(random_tensor(rng, {3, 2}));
  const TensorFunction f = [](const std::vector<Tensor>& in) {
    return linalg::solve(in[0], in[1]) + linalg::eigh(in[0]).values.sum() +
           linalg::svd(in[0], true).u.sum() * Tensor(0.0);
  };
  CHECK(gradients(f, {a, b}, true).size() == 2);
  a.set_grad({}), b.set_grad({});
}

MT_TEST("a tensor changed in place since is refused", "[linalg]") {
  Rng rng(53);
  const Tensor a = leaf(random_tensor(rng, {3, 3})), twice = a * Tensor(2.0);
  const Tensor y = linalg::solve(twice, ones({3}, Dtype::f64)).sum();
  fill_(twice, 1);
  CHECK(contains(error_of([&] { y.backward(); }), "changed in place"));
}

MT_TEST("after an interrupt pivots and orders are valid, and no NaN is overlooked", "[linalg]") {
  linalg::det(ones({1, 1}));  // opens OpenBLAS
  const int n = 600;
  const auto are_valid = [](const std::vector<int>& from_one) {
    return std::ranges::all_of(from_one, [](int i) { return i >= 1 && i <= n; });
  };
  std::vector<double> a(n * n), q(n * n), d(n, 1), e(n);
  for (int i = 0; i < n; ++i) a[i * (n + 1)] = 1;
  std::vector<int> pivots(n, -1), order(n);
  mt_interrupted = 1;
  lapack::lu(n, n, a.data(), pivots.data());
  const int info = lapack::tridiagonal_eigen(n, d.data(), e.data(), q.data(), order.data());
  a.back() = NAN;
  const bool finite = lapack::finite(a.data(), n * n);
  mt_interrupted = 0;
  CHECK(are_valid(pivots));
  CHECK(are_valid(order));
  CHECK(info != 0);
  CHECK(!finite);
}

MT_TEST("einsum agrees with matmul bit for bit where it is one", "[linalg]") {
  Rng rng(54);
  const Tensor a = random_tensor(rng, {70, 90}, Dtype::f32),
               b = random_tensor(rng, {90, 50}, Dtype::f32);
  CHECK(difference(einsum("ik,kj->ij", {a, b}), matmul(a, b)) == "");
  CHECK(einsum("ij->ji", {a}).data() == a.data());
  CHECK(einsum("ik,kj->ji", {a, b}).is_contiguous());
  CHECK(difference(tensordot(a, b, {1}, {0}), matmul(a, b)) == "");
}

}  // namespace mt::test
