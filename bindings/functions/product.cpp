// product.cpp -- products of matrices and vectors
#include "bindings/functions/functions.h"
#include "engine/linalg/linalg.h"

namespace mt::lua {
namespace {

/// dims of tensordot: a number of dimensions, or {dims of x, dims of y}.
int tensordot_body(Args& a) {
  const Tensor &x = a.tensor(1), &y = a.tensor(2);
  Shape xs, ys;
  if (a.given(3) && lua_type(a.L, 3) == LUA_TTABLE) {
    if (lua_objlen(a.L, 3) != 2) a.wrong(3, "a number of dimensions or two lists, {of x, of y}");
    for (int side = 1; side <= 2; ++side) {
      lua_rawgeti(a.L, 3, side);
      const int list = lua_gettop(a.L);
      for (const int64_t d : a.integers(list))
        (side == 1 ? xs : ys).push(zero_based("tensordot", d));
    }
  } else {
    const int64_t n = a.integer(3);
    if (n < 0 || n > x.dim() || n > y.dim())
      fail("tensordot: {} dimensions to sum over, the tensors are {} and {}", n,
           to_string(x.shape()), to_string(y.shape()));
    for (int64_t d = 0; d < n; ++d) xs.push(x.dim() - n + d), ys.push(d);
  }
  return a.push(tensordot(x, y, xs, ys));
}

/// torch.cross: without dim the first dimension with 3 elements.
Tensor cross_of_three(const Tensor& x, const Tensor& y, std::optional<Dim> dim) {
  if (dim) return cross(x, y, *dim);
  for (int d = 0; d < x.dim(); ++d)
    if (x.size(d) == 3) return cross(x, y, d);
  fail("cross: no dimension of {} has 3 elements", to_string(x.shape()));
}

const Entry kProductFunctions[] = {
    {"einsum(equation, [operands..])",
     "Sums of products over named dimensions: einsum('bij,bjk->bik', x, y); '...' stands for "
     "dimensions that broadcast.\nThe tensors follow, or come as one list; without '->' the "
     "letters that occur once are kept, in order.",
     bind<einsum>},
    {"tensordot(x, y, dims=2, {out=})",
     "Sums over the last dims dimensions of x and the first of y, or over the pairs of "
     "{{dims of x}, {dims of y}}, whose sizes must be equal: a size of 1 is not stretched.",
     tensordot_body},
    {"cdist(x, y, p=2)",
     "The p-norms of the differences of all rows: [.. x m x d] and [.. x n x d] to [.. x m x n].\n"
     "The gradient at distance 0 is 0.",
     bind<cdist>},
};

const Entry kProductMethods[] = {
    {"matmul(x, y, {out=})",
     "The matrix product; batches broadcast; vectors as in torch.matmul; dtypes are promoted.",
     bind<matmul>},
    {"mm(x, y, {out=})", "The product of two matrices.", bind<mm>},
    {"bmm(x, y, {out=})", "The products of two batches of matrices, [b x m x k] and [b x k x n].",
     bind<bmm>},
    {"mv(x, y, {out=})", "The product of a matrix and a vector.", bind<mv>},
    {"dot(x, y, {out=})", "The sum of the products of two vectors.", bind<dot>},
    {"vdot(x, y, {out=})", "The sum of the products of two vectors.", bind<dot>},
    {"inner(x, y, {out=})", "The sums of the products over the last dimensions.", bind<inner>},
    {"outer(x, y, {out=})", "The products of all pairs of two vectors, [m] and [n] to [m x n].",
     bind<outer>},
    {"ger(x, y, {out=})", "Another name of outer.", bind<outer>},
    {"addmm(x, a, b, beta=1, alpha=1, {out=})",
     "beta * x + alpha * the product of two matrices; x broadcasts and is not read when beta is 0.",
     bind<addmm> | kInPlaceToo},
    {"addmv(x, a, b, beta=1, alpha=1, {out=})",
     "beta * x + alpha * the product of a matrix and a vector.", bind<addmv> | kInPlaceToo},
    {"baddbmm(x, a, b, beta=1, alpha=1, {out=})", "beta * x + alpha * bmm(a, b).",
     bind<baddbmm> | kInPlaceToo},
    {"addbmm(x, a, b, beta=1, alpha=1, {out=})",
     "beta * x + alpha * bmm(a, b) summed over the batch.", bind<addbmm> | kInPlaceToo},
    {"kron(x, y, {out=})", "The Kronecker product: every element of x times y; sizes multiply.",
     bind<kron>},
    {"cross(x, y, dim=nil, {out=})",
     "The cross products of vectors along dim, by default the first of 3 elements.",
     bind<cross_of_three>},
    {"trace(x)", "The sum of the diagonal of a matrix.", bind<trace>},
    {"matrix_power(x, n, {out=})",
     "The n-th power of square matrices; of their inverses for negative n.",
     bind<linalg::matrix_power>},
    {"set_float32_matmul_precision(precision)",
     "Sets how a GPU computes float32 products and convolutions: 'highest' in float32, 'high' "
     "and 'medium' with factors rounded to TF32 (11 bits), which is several times faster on "
     "an H100. On the CPU nothing changes.",
     bind<[](MatmulPrecision p) { thread_state.matmul_precision = p; }>},
    {"get_float32_matmul_precision()", "How a GPU computes float32 products.", bind<[] {
       return std::string(names_of(MatmulPrecision())[int(thread_state.matmul_precision)]);
     }>},
    {"linear(x, weight, bias=nil)", "x . weight' + bias, with weight [out x in].",
     bind<[](const Tensor& x, const Tensor& weight, const Tensor& bias) {
       check_same_dtype(x, weight);
       return linear(x, weight, bias);
     }>},
    {"linear_int8(x, weight, scale, bias=nil)",
     "x . (weight * scale)' + bias, with an int8 weight [out x in] and a scale for each of its rows; "
     "16-bit floats are computed in float32. See nn.quantize.",
     bind<linear_int8>},
};

}  // namespace

void register_product(Registry& c) {
  c.functions(kProductFunctions);
  c.both(kProductMethods);
}

}  // namespace mt::lua
