// lu.cpp -- LU factors as results: packed, separate, and solutions with them
//
// A = P L U. The packed factors are one recorded tensor; L, U and solutions are computed from it.

#include <numeric>

#include "engine/linalg/common.h"

namespace mt::linalg {
namespace {

/// Permutes the rows of every matrix: row i is x's row order[i].
Tensor permute_rows(const Tensor& x, const Tensor& order) {
  const Shape size =
      joined(broadcast("lu", batch_of(x), batch_of(order, 1)), {rows_of(x), columns_of(x)});
  return gather(expand(x, size), -2, expand(unsqueeze(order, -1), size));
}

/// The row order of P from its exchanges: row i of P' A is row order[i] of A; or of P A, inverted.
Tensor order_of(const Tensor& pivots, int64_t m, bool inverted) {
  const int64_t k = pivots.size(-1), count = checked_count("lu", batch_of(pivots, 1));
  const Tensor dense = contiguous(pivots);
  Tensor order = empty(joined(batch_of(pivots, 1), {m}), Dtype::i64);
  std::vector<int64_t> at(m);
  for (int64_t i = 0; i < count; ++i) {
    std::iota(at.begin(), at.end(), 0);
    for (int64_t r = 0; r < k; ++r) std::swap(at[r], at[dense.data_as<int>()[i * k + r] - 1]);
    int64_t* out = order.data_as<int64_t>() + i * m;
    for (int64_t r = 0; r < m; ++r) {
      if (inverted) out[at[r]] = r;
      else out[r] = at[r];
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

/// A = P L U in differentials of the square part; the rest, below or to the right, is a product
/// with the inverse of U or L.
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
  dx[0] = permute_rows(whole, back);
}
const NodeType kLu{"lu", lu_backward};

/// The packed factors; `regular`: throws Error if a pivot is 0.
LuFactors factor_packed(const char* name, const Tensor& a, bool regular) {
  const Lu lu = factor_columns(name, clone(mT(a.detach())));
  if (regular) check_regular(name, lu);
  const LuFactors f{contiguous(mT(lu.factors)), lu.pivots};
  if (wants_grad(a))
    record(kLu, f.packed, {&a})
        .save(0, f.packed, Node::kOutput)
        .save(1, order_of(f.pivots, rows_of(a), true), Node::kOther);
  return f;
}

}  // namespace

LuFactors lu_factor(const Tensor& a) {
  return back(factor_packed("lu_factor", matrices("lu_factor", a), true), a);
}

Plu lu(const Tensor& given) {
  const Tensor a = matrices("lu", given);
  const LuFactors f = factor_packed("lu", a, false);
  const int64_t m = rows_of(a);
  const Tensor p = permute_rows(expand(eye(m, m, a.dtype()), joined(batch_of(a), {m, m})),
                                order_of(f.pivots, m, true));
  return back(Plu{p, lower_of(f.packed), upper_of(f.packed)}, given);
}

Tensor lu_solve(const Tensor& given, const Tensor& pivots0, const Tensor& b0, bool left,
                bool adjoint) {
  const char* name = "lu_solve";
  check_together(name, given, b0);
  const Tensor packed = square_matrices(name, given), b = matrices(name, b0),
               pivots = to(pivots0, cpu_device());
  const int64_t n = rows_of(packed);
  check_integers(name, pivots, "the pivots", "pivots");
  if (pivots.shape() != joined(batch_of(packed), {n}))
    fail("{}: the factors are {}, the pivots {}; expected {}", name, packed.shape(), pivots.shape(),
         joined(batch_of(packed), {n}));
  for (int64_t i = 0; i < pivots.numel(); ++i)
    if (const int64_t p = pivots.at_integer(i); p < 1 || p > n)
      fail("{}: a pivot is {}, outside 1..{}", name, p, n);
  if ((left ? rows_of(b) : columns_of(b)) != n)
    fail("{}: the matrix is {}, the {} side {}; it needs {} {}", name, packed.shape(),
         left ? "right" : "left", b.shape(), n, left ? "rows" : "columns");
  if (!left) return back(mT(lu_solve(packed, pivots, mT(b), true, !adjoint)), given);
  const Tensor order = order_of(to(pivots, Dtype::i32), n, adjoint);
  if (adjoint) {
    const Tensor y = solve_triangular(mT(packed), b, false, true, false, name);
    return back(permute_rows(solve_triangular(mT(packed), y, true, true, true, name), order),
                given);
  }
  const Tensor y = solve_triangular(packed, permute_rows(b, order), false, true, true, name);
  return back(solve_triangular(packed, y, true, true, false, name), given);
}

}  // namespace mt::linalg
