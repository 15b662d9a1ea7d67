// product.cpp -- products of matrices and vectors
#include "bindings/functions/functions.h"
#include "engine/linalg/distance.h"
#include "engine/linalg/linalg.h"
#include "engine/ops/ops.h"

namespace mt::lua {
namespace {

template <Tensor (*product)(const Tensor&, const Tensor&)> int of_two(Args& a) {
  return a.push(product(a.tensor(1), a.tensor(2)));
}
template <Tensor (*add)(const Tensor&, const Tensor&, const Tensor&, double, double)>
int added(Args& a) {
  return push_or_write(a,
                       add(a.tensor(1), a.tensor(2), a.tensor(3), a.number(4, 1), a.number(5, 1)));
}

int einsum_body(Args& a) {
  const std::string equation = a.text(1);
  if (a.count() == 2 && lua_type(a.L, 2) == LUA_TTABLE)
    return a.push(einsum(equation, a.tensors(2)));
  std::vector<Tensor> operands;
  for (int i = 2; i <= a.count(); ++i) operands.push_back(a.tensor(i));
  return a.push(einsum(equation, operands));
}

/// dims of tensordot: a count of dimensions, or {dims of x, dims of y}.
int tensordot_body(Args& a) {
  const Tensor &x = a.tensor(1), &y = a.tensor(2);
  Shape xs, ys;
  if (a.given(3) && lua_type(a.L, 3) == LUA_TTABLE) {
    if (lua_objlen(a.L, 3) != 2) a.wrong(3, "a number of dimensions or two lists, {of x, of y}");
    for (int side = 1; side <= 2; ++side) {
      lua_rawgeti(a.L, 3, side);
      const int list = lua_gettop(a.L);
      for (int64_t d : a.integers(list)) {
        if (d == 0)
          fail("tensordot: 0 is not a position; positions count from 1, and from -1 at the end");
        (side == 1 ? xs : ys).push(d > 0 ? d - 1 : d);
      }
    }
  } else {
    const int64_t n = a.integer(3, 2);
    if (n < 0 || n > x.dim() || n > y.dim())
      fail("tensordot: {} dimensions to sum over, the tensors are {} and {}", n,
           to_string(x.shape()), to_string(y.shape()));
    for (int64_t d = 0; d < n; ++d) xs.push(x.dim() - n + d), ys.push(d);
  }
  return a.push(tensordot(x, y, xs, ys));
}

/// torch.cross: without dim the first dimension of 3 elements.
int cross_body(Args& a) {
  const Tensor &x = a.tensor(1), &y = a.tensor(2);
  if (a.given(3)) return a.push(cross(x, y, a.position(3)));
  for (int d = 0; d < x.dim(); ++d)
    if (x.size(d) == 3) return a.push(cross(x, y, d));
  fail("cross: no dimension of {} has 3 elements", to_string(x.shape()));
}

const Entry kFunctions[] = {
    {"einsum(equation, ..)",
     "Sums of products over named dimensions: einsum('bij,bjk->bik', x, y); '...' stands for "
     "dimensions that broadcast.\nThe tensors follow, or come as one list; without '->' the "
     "letters "
     "that occur once are kept, in order.",
     einsum_body},
    {"tensordot(x, y, dims=2, {out=})",
     "Sums over the last dims dimensions of x and the first of y, or over the pairs of "
     "{{dims of x}, {dims of y}}, whose sizes must be equal: a size of 1 is not stretched.",
     tensordot_body},
    {"cdist(x, y, p=2)",
     "The p-norms of the differences of all rows: [.. x m x d] and [.. x n x d] to [.. x m x n].\n"
     "The gradient at distance 0 is 0.",
     [](Args& a) { return a.push(cdist(a.tensor(1), a.tensor(2), a.number(3, 2))); }},
};

/// Functions of the module that are methods of their first argument too.
const Entry kMethods[] = {
    {"matmul(x, y, {out=})",
     "The matrix product; batches broadcast; vectors as in torch.matmul; dtypes are promoted.",
     [](Args& a) { return a.push(matmul(a.tensor(1), a.tensor(2))); }},
    {"mm(x, y, {out=})", "The product of two matrices.", of_two<mm>},
    {"bmm(x, y, {out=})", "The products of two batches of matrices, [b x m x k] and [b x k x n].",
     of_two<bmm>},
    {"mv(x, y, {out=})", "The product of a matrix and a vector.", of_two<mv>},
    {"dot(x, y, {out=})", "The sum of the products of two vectors.",
     [](Args& a) { return a.push(dot(a.tensor(1), a.tensor(2))); }},
    {"vdot(x, y, {out=})", "The sum of the products of two vectors.",
     [](Args& a) { return a.push(dot(a.tensor(1), a.tensor(2), "vdot")); }},
    {"inner(x, y, {out=})", "The sums of the products over the last dimensions.", of_two<inner>},
    {"outer(x, y, {out=})", "The products of all pairs of two vectors, [m] and [n] to [m x n].",
     [](Args& a) { return a.push(outer(a.tensor(1), a.tensor(2))); }},
    {"ger(x, y, {out=})", "Another name of outer.",
     [](Args& a) { return a.push(outer(a.tensor(1), a.tensor(2), "ger")); }},
    {"addmm(x, a, b, beta=1, alpha=1, {out=})",
     "beta * x + alpha * the product of two matrices; x broadcasts and is not read when beta is 0.",
     added<addmm>},
    {"addmv(x, a, b, beta=1, alpha=1, {out=})",
     "beta * x + alpha * the product of a matrix and a vector.", added<addmv>},
    {"baddbmm(x, a, b, beta=1, alpha=1, {out=})", "beta * x + alpha * bmm(a, b).", added<baddbmm>},
    {"addbmm(x, a, b, beta=1, alpha=1, {out=})",
     "beta * x + alpha * bmm(a, b) summed over the batch.", added<addbmm>},
    {"addmm_(x, a, b, beta=1, alpha=1)", "addmm, written into x.", added<addmm>, -1, true},
    {"addmv_(x, a, b, beta=1, alpha=1)", "addmv, written into x.", added<addmv>, -1, true},
    {"baddbmm_(x, a, b, beta=1, alpha=1)", "baddbmm, written into x.", added<baddbmm>, -1, true},
    {"addbmm_(x, a, b, beta=1, alpha=1)", "addbmm, written into x.", added<addbmm>, -1, true},
    {"kron(x, y, {out=})", "The Kronecker product: every element of x times y; sizes multiply.",
     of_two<kron>},
    {"cross(x, y, dim=nil, {out=})",
     "The cross products of vectors along dim, by default the first of 3 elements.", cross_body},
    {"trace(x)", "The sum of the diagonal of a matrix.",
     [](Args& a) { return a.push(trace(a.tensor(1))); }},
    {"matrix_power(x, n, {out=})",
     "The n-th power of square matrices; of their inverses for negative n.",
     [](Args& a) { return a.push(linalg::matrix_power(a.tensor(1), a.integer(2))); }},
    {"linear(x, weight, bias=nil)", "x . weight' + bias, with weight [out x in].",
     [](Args& a) {
       return a.push(linear(a.tensor(1), a.tensor(2), a.given(3) ? a.tensor(3) : Tensor()));
     }},
};

}  // namespace

void register_product(Registry& c) {
  c.functions(kFunctions);
  c.add_with_method(kMethods);
}

}  // namespace mt::lua
