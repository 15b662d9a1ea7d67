// lu.cpp -- LU factors as results: packed, apart, and what is solved with them
//
// A = P L U. The packed factors are one recorded tensor; L, U and solutions are composed of it.
#include <limits>
#include <numeric>

#include "engine/core/host.h"
#include "engine/linalg/common.h"

namespace mt::linalg {
namespace {

/// The rows of every matrix in another order: row i is x's row order[i].
Tensor rows_in(const Tensor& x, const Tensor& order) {
  const Shape size =
      with(broadcast("lu", batch_of(x), batch_of(order, 1)), rows_of(x), columns_of(x));
  return gather(expand(x, size), -2, expand(unsqueeze(order, -1), size));
}

/// How P orders m rows, from its exchanges: row i of P' A is row order[i] of A; or of P A, inverted.
Tensor order_of(const Tensor& pivots, int64_t m, bool inverted) {
  const int64_t k = pivots.size(pivots.dim() - 1), count = checked_count("lu", batch_of(pivots, 1));
  const Tensor dense = contiguous(pivots);
  Tensor order = empty(with(batch_of(pivots, 1), m), Dtype::i64);
  std::vector<int64_t> at(static_cast<size_t>(m));
  for (int64_t i = 0; i < count; ++i) {
    std::iota(at.begin(), at.end(), 0);
    for (int64_t r = 0; r < k; ++r)
      std::swap(at[size_t(r)], at[size_t(dense.data_as<int>()[i * k + r] - 1)]);
    int64_t* out = order.data_as<int64_t>() + i * m;
    for (int64_t r = 0; r < m; ++r) {
      if (inverted) out[at[size_t(r)]] = r;
      else out[r] = at[size_t(r)];
    }
  }
  return order;
}

Tensor lower_of(const Tensor& packed) {
  const int64_t m = rows_of(packed), k = std::min(m, columns_of(packed));
  return tril(slice(packed, -1, 0, k), -1) + eye(m, k, packed.dtype());
}
Tensor upper_of(const Tensor& packed) {
  return triu(slice(packed, -2, 0, std::min(rows_of(packed), columns_of(packed))));
}

/// A = P L U in differentials of the square part; what is beyond it, below or to the right, is a
/// product with the inverse of U or L.
void lu_backward(Node& node, const Tensor& g, Tensor* dx) {
  const char* name = "lu's gradient";
  const Tensor packed = node.get(0), back = node.get(1);
  const int64_t m = rows_of(packed), n = columns_of(packed), k = std::min(m, n);
  const auto square = [=](const Tensor& x) { return slice(slice(x, -2, 0, k), -1, 0, k); };
  const Tensor l = lower_of(packed), u = upper_of(packed), l1 = square(l), u1 = square(u);
  Tensor gl = tril(square(g), -1), gu = triu(square(g)), below, right;
  if (n > m) {
    right = solve_triangular(mT(l1), slice(g, -1, k, n - k), true, true, true, name);
    gl = gl - tril(matmul(right, mT(slice(u, -1, k, n - k))), -1);
  }
  if (m > n) {
    below = solve_triangular(mT(u1), slice(g, -2, k, m - k), false, false, false, name);
    gu = gu - triu(matmul(mT(slice(l, -2, k, m - k)), below));
  }
  const Tensor inner = tril(matmul(mT(l1), gl), -1) + triu(matmul(gu, mT(u1)));
  Tensor whole = solve_triangular(mT(l1), inner, true, true, true, name);
  whole = solve_triangular(mT(u1), whole, false, false, false, name);
  if (n > m) whole = cat({whole, right}, -1);
  if (m > n) whole = cat({whole, below}, -2);
  dx[0] = rows_in(whole, back);
}
const NodeType kLu{"lu", lu_backward};

/// The packed factors; `info` of each matrix: 0, or the pivot that is 0, from 1.
LuFactors factored(const char* name, const Tensor& a, std::vector<int>& info) {
  check_matrices(name, a);
  const int64_t m = rows_of(a), n = columns_of(a), k = std::min(m, n);
  const Shape batch = batch_of(a);
  LuFactors f;
  f.pivots = empty(with(batch, k), Dtype::i32);
  {
    NoGrad off;
    const Tensor work = clone(mT(a.detach()));  // by columns
    info = each(name, batch, a.dtype(), double(m) * double(n), [&](auto zero, int64_t i) {
      using T = decltype(zero);
      T* one = work.data_as<T>() + i * m * n;
      int* pivots = f.pivots.data_as<int>() + i * k;
      if (lapack::finite(one, m * n)) return lapack::lu(int(m), int(n), one, pivots);
      for (int64_t e = 0; e < m * n; ++e) one[e] = std::numeric_limits<T>::quiet_NaN();
      for (int64_t r = 0; r < k; ++r) pivots[r] = int(r + 1);
      return 0;
    });
    f.packed = contiguous(mT(work));
  }
  if (wants_grad(a)) {
    Node& node = record(kLu, f.packed, {&a});
    node.save(0, f.packed, Node::kOutput);
    node.save(1, order_of(f.pivots, m, true), Node::kOther);
  }
  return f;
}

}  // namespace

LuFactors lu_factor(const Tensor& a) {
  if (const Device* d = away(a)) {
    const LuFactors f = lu_factor(here(a));
    return {to(f.packed, *d), to(f.pivots, *d)};
  }
  std::vector<int> info;
  const LuFactors f = factored("lu_factor", a, info);
  if (const int64_t i = first_failed(info); i >= 0)
    fail("lu_factor: {} is singular (pivot {} is 0)", which(batch_of(a), i),
         info[size_t(i)] - 1 + host.index_base);
  return f;
}

Plu lu(const Tensor& a) {
  if (const Device* d = away(a)) {
    const Plu f = lu(here(a));
    return {to(f.p, *d), to(f.l, *d), to(f.u, *d)};
  }
  std::vector<int> info;
  const LuFactors f = factored("lu", a, info);
  const int64_t m = rows_of(a);
  Tensor p;
  {
    NoGrad off;
    p = rows_in(expand(eye(m, m, a.dtype()), with(batch_of(a), m, m)), order_of(f.pivots, m, true));
  }
  return {p, lower_of(f.packed), upper_of(f.packed)};
}

Tensor lu_solve(const Tensor& packed, const Tensor& pivots, const Tensor& b, bool left,
                bool adjoint) {
  const char* name = "lu_solve";
  if (const Device* d = away(packed, b))
    return to(lu_solve(here(packed), here(pivots), here(b), left, adjoint), *d);
  check_square(name, packed);
  check_matrices(name, b);
  const int64_t n = rows_of(packed);
  if (is_float(pivots.dtype()) || pivots.dtype() == Dtype::b8)
    fail("{}: the pivots are {}; they must be integers", name, dtype_name(pivots.dtype()));
  if (!(pivots.shape() == with(batch_of(packed), n)))
    fail("{}: the factors are {}, the pivots {}; expected {}", name, to_string(packed.shape()),
         to_string(pivots.shape()), to_string(with(batch_of(packed), n)));
  for (int64_t i = 0; i < pivots.numel(); ++i)
    if (const int64_t p = pivots.at_integer(i); p < 1 || p > n)
      fail("{}: a pivot is {}, outside 1..{}", name, p, n);
  if ((left ? rows_of(b) : columns_of(b)) != n)
    fail("{}: the matrix is {}, the {} side {}; it needs {} {}", name, to_string(packed.shape()),
         left ? "right" : "left", to_string(b.shape()), n, left ? "rows" : "columns");
  if (!left) return mT(lu_solve(packed, pivots, mT(b), true, !adjoint));
  const Tensor order = order_of(to(pivots, Dtype::i32), n, adjoint);
  if (adjoint) {
    const Tensor y = solve_triangular(mT(packed), b, false, true, false, name);
    return rows_in(solve_triangular(mT(packed), y, true, true, true, name), order);
  }
  const Tensor y = solve_triangular(packed, rows_in(b, order), false, true, true, name);
  return solve_triangular(packed, y, true, true, false, name);
}

}  // namespace mt::linalg
