// linalg.cpp -- the module mt.linalg, and those of its functions that are methods too
#include "engine/linalg/linalg.h"
#include "bindings/functions/functions.h"
#include "engine/ops/ops.h"

namespace mt::lua {
namespace {

template <class... Results> int push_all(const Args& a, const Results&... results) {
  (a.push(results), ...);
  return int(sizeof...(results));
}

linalg::Order order(const Args& a, int i) {
  if (!a.given(i)) return {};
  if (lua_type(a.L, i) == LUA_TNUMBER) return {linalg::Order::number, a.number(i)};
  const std::string name = lua_type(a.L, i) == LUA_TSTRING ? a.text(i) : "";
  if (name == "fro") return {linalg::Order::fro};
  if (name == "nuc") return {linalg::Order::nuc};
  a.wrong(i, "a number, 'fro' or 'nuc'");
}

std::optional<double> maybe(const Args& a, int i) {
  return a.given(i) ? std::optional<double>(a.number(i)) : std::nullopt;
}

/// 'L' or 'U': which triangle.
bool upper_of(const Args& a, int i) {
  if (!a.given(i)) return false;
  const std::string which = a.text(i);
  if (which != "L" && which != "U") a.wrong(i, "'L' or 'U'");
  return which == "U";
}

int slogdet_body(Args& a) {
  const linalg::Slogdet s = linalg::slogdet(a.tensor(1));
  return push_all(a, s.sign, s.logabsdet);
}
int inv_body(Args& a) {
  return a.push(linalg::inv(a.tensor(1), signature_of(a.entry()).name.c_str()));
}
int pinv_body(Args& a) {
  return a.push(linalg::pinv(a.tensor(1), {maybe(a, 2), maybe(a, 3)}, a.boolean(4, false)));
}
int cholesky_body(Args& a) { return a.push(linalg::cholesky(a.tensor(1), a.boolean(2, false))); }

int matrix_exp_body(Args& a) { return a.push(linalg::matrix_exp(a.tensor(1))); }
int cholesky_inverse_body(Args& a) {
  return a.push(linalg::cholesky_inverse(a.tensor(1), a.boolean(2, false)));
}

void check_pivot(const Args& a) {
  if (!a.boolean(2, true))
    fail(
        "{}: pivot=false is not there, as on PyTorch's CPU: rows are always exchanged; leave it out",
        signature_of(a.entry()).name);
}

/// Functions of mt.linalg.
const Entry kLinalg[] = {
    {"solve(A, B, left=true)",
     "X with A X = B, or X A = B where left is false; batches broadcast; B may be a vector.\n"
     "A singular matrix is an error.",
     [](Args& a) { return a.push(linalg::solve(a.tensor(1), a.tensor(2), a.boolean(3, true))); }},
    {"inv(A)", "The inverses of square matrices; a singular one is an error.", inv_body},
    {"det(A)", "The determinants of square matrices.",
     [](Args& a) { return a.push(linalg::det(a.tensor(1))); }},
    {"slogdet(A)", "The sign of the determinant and the logarithm of its size: two tensors.",
     slogdet_body},
    {"cholesky(A, upper=false)",
     "L with A = L L' for positive-definite A, or U with A = U' U; only that triangle is read.",
     cholesky_body},
    {"solve_triangular(A, B, upper, left=true, unitriangular=false)",
     "X with A X = B for triangular A; the rest of A is not read.",
     [](Args& a) {
       if (lua_type(a.L, 3) != LUA_TBOOLEAN) a.wrong(3, "true or false");
       return a.push(linalg::solve_triangular(a.tensor(1), a.tensor(2), a.boolean(3, false),
                                              a.boolean(4, true), a.boolean(5, false)));
     }},
    {"qr(A, mode='reduced')",
     "Q, R with A = Q R; mode 'reduced', 'complete', or 'r' (then Q is empty).",
     [](Args& a) {
       const linalg::Qr f = linalg::qr(a.tensor(1), a.given(2) ? a.text(2) : "reduced");
       return push_all(a, f.q, f.r);
     }},
    {"svd(A, full_matrices=true)",
     "U, S, Vh with A = U diag(S) Vh, S descending; gradients reach the first min(m, n) vectors.",
     [](Args& a) {
       const linalg::Svd f = linalg::svd(a.tensor(1), a.boolean(2, true));
       return push_all(a, f.u, f.s, f.vh);
     }},
    {"svdvals(A)", "The singular values, descending.",
     [](Args& a) { return a.push(linalg::svdvals(a.tensor(1))); }},
    {"eigh(A, UPLO='L')",
     "Eigenvalues, ascending, and eigenvectors of symmetric matrices, read from one triangle.",
     [](Args& a) {
       const linalg::Eigh f = linalg::eigh(a.tensor(1), upper_of(a, 2));
       return push_all(a, f.values, f.vectors);
     }},
    {"eigvalsh(A, UPLO='L')", "The eigenvalues of symmetric matrices, ascending.",
     [](Args& a) { return a.push(linalg::eigvalsh(a.tensor(1), upper_of(a, 2))); }},
    {"eig(A)",
     "wr, wi, vr, vi: the eigenvalues of square matrices as real and imaginary parts, and the "
     "vectors (columns of length 1) likewise.\nTheir phase is free: what depends on it, as vr alone "
     "for complex ones, has no gradient and says so.",
     [](Args& a) {
       const linalg::Eig f = linalg::eig(a.tensor(1));
       return push_all(a, f.wr, f.wi, f.vr, f.vi);
     }},
    {"eigvals(A)", "wr, wi: the eigenvalues of square matrices as real and imaginary parts.",
     [](Args& a) {
       const linalg::Eig f = linalg::eigvals(a.tensor(1));
       return push_all(a, f.wr, f.wi);
     }},
    {"lu(A, pivot=true)",
     "P, L, U with A = P L U, for matrices of any shape. pivot=false is an error, as on PyTorch's CPU: "
     "rows are always exchanged.",
     [](Args& a) {
       check_pivot(a);
       const linalg::Plu f = linalg::lu(a.tensor(1));
       return push_all(a, f.p, f.l, f.u);
     }},
    {"lu_factor(A, pivot=true)",
     "LU, pivots: L (without its diagonal of ones) and U in one matrix; row i was exchanged with row "
     "pivots[i], from 1. A singular matrix is an error, and so is pivot=false, as on PyTorch's CPU.",
     [](Args& a) {
       check_pivot(a);
       const linalg::LuFactors f = linalg::lu_factor(a.tensor(1));
       return push_all(a, f.packed, f.pivots);
     }},
    {"lu_solve(LU, pivots, B, left=true, adjoint=false)",
     "X with A X = B from lu_factor(A), or X A = B where left is false; adjoint: A' for A.",
     [](Args& a) {
       return a.push(linalg::lu_solve(a.tensor(1), a.tensor(2), a.tensor(3), a.boolean(4, true),
                                      a.boolean(5, false)));
     }},
    {"solve_ex(A, B, left=true, check_errors=false)",
     "solve without an error: result, info; info (int32) is 0, or the pivot (from 1) that is 0, then "
     "the result is nan.",
     [](Args& a) {
       const linalg::Checked c =
           linalg::solve_ex(a.tensor(1), a.tensor(2), a.boolean(3, true), a.boolean(4, false));
       return push_all(a, c.result, c.info);
     }},
    {"inv_ex(A, check_errors=false)",
     "inv without an error: inverse, info; info (int32) is 0, or the pivot (from 1) that is 0, then "
     "the inverse is nan.",
     [](Args& a) {
       const linalg::Checked c = linalg::inv_ex(a.tensor(1), a.boolean(2, false));
       return push_all(a, c.result, c.info);
     }},
    {"matrix_exp(A)", "The exponential of square matrices, the sum of A^k / k!.", matrix_exp_body},
    {"cholesky_inverse(factor, upper=false)",
     "The inverse of the matrix whose Cholesky factor this is.", cholesky_inverse_body},
    {"vecdot(x, y, dim=-1)", "The products of vectors along dim, which broadcast.",
     [](Args& a) {
       return a.push(linalg::vecdot(a.tensor(1), a.tensor(2), a.given(3) ? a.position(3) : -1));
     }},
    {"vander(x, N=nil)",
     "The powers 0 .. N - 1 of each element, in a new last dimension; N: as many as x has.",
     [](Args& a) {
       return a.push(
           linalg::vander(a.tensor(1), a.given(2) ? std::optional(a.integer(2)) : std::nullopt));
     }},
    {"tensorsolve(A, B, [dims]=nil)",
     "X with A X = B for A as a matrix: its first dimensions are B's, the others X's; dims of A go "
     "last before.",
     [](Args& a) { return a.push(linalg::tensorsolve(a.tensor(1), a.tensor(2), a.dims(3))); }},
    {"tensorinv(A, ind=2)",
     "The inverse of A as a matrix of its first ind dimensions and the others.",
     [](Args& a) { return a.push(linalg::tensorinv(a.tensor(1), a.integer(2, 2))); }},
    {"lstsq(A, B, rcond=nil, driver='gelsy')",
     "The X of least |A X - B|: solution, residuals (squared; empty without full rank), rank, "
     "singular_values.\nDrivers as LAPACK's: 'gelsy', 'gels', 'gelsd', 'gelss'.",
     [](Args& a) {
       const linalg::Lstsq s =
           linalg::lstsq(a.tensor(1), a.tensor(2), maybe(a, 3), a.given(4) ? a.text(4) : "gelsy");
       return push_all(a, s.solution, s.residuals, s.rank, s.singular_values);
     }},
    {"pinv(A, atol=nil, rtol=nil, hermitian=false)",
     "The Moore-Penrose inverse; singular values up to max(atol, rtol * largest) count as 0.",
     pinv_body},
    {"matrix_rank(A, atol=nil, rtol=nil, hermitian=false)",
     "How many singular values lie above max(atol, rtol * largest).",
     [](Args& a) {
       return a.push(
           linalg::matrix_rank(a.tensor(1), {maybe(a, 2), maybe(a, 3)}, a.boolean(4, false)));
     }},
    {"cond(A, p=nil)", "The condition: the norm of order p (default 2) times the inverse's.",
     [](Args& a) { return a.push(linalg::cond(a.tensor(1), order(a, 2))); }},
    {"norm(A, ord=nil, [dim]=nil, keepdim=false)",
     "The norm of vectors (one dim, or 1-d) or matrices (two dims, or 2-d); of all elements "
     "without ord.\nord: a number, inf, -inf; for matrices 'fro', 'nuc', 1, -1, 2, -2, inf, -inf.",
     [](Args& a) {
       return a.push(linalg::norm(a.tensor(1), order(a, 2), a.dims(3), a.boolean(4, false)));
     }},
    {"vector_norm(x, ord=2, [dim]=nil, keepdim=false)",
     "(sum |x|^ord)^(1/ord) over dimensions or all; 0 counts, inf and -inf are max and min.",
     [](Args& a) {
       return a.push(
           linalg::vector_norm(a.tensor(1), a.number(2, 2), a.dims(3), a.boolean(4, false)));
     }},
    {"matrix_norm(A, ord='fro', [dim]=nil, keepdim=false)",
     "The norm of matrices: 'fro', 'nuc', 1, -1, 2, -2, inf, -inf; dim (-2, -1) by default.",
     [](Args& a) {
       return a.push(linalg::matrix_norm(
           a.tensor(1), a.given(2) ? order(a, 2) : linalg::Order{linalg::Order::fro},
           a.given(3) ? a.dims(3) : Shape{-2, -1}, a.boolean(4, false)));
     }},
    {"matrix_power(A, n)", "The n-th power of square matrices; of their inverses for negative n.",
     [](Args& a) { return a.push(linalg::matrix_power(a.tensor(1), a.integer(2))); }},
    {"multi_dot([tensors])", "The product of a list of matrices in the cheapest order.",
     [](Args& a) { return a.push(multi_dot(a.tensors(1))); }},
    {"cross(x, y, dim=-1)", "The cross products of vectors of 3 elements along dim.",
     [](Args& a) {
       return a.push(cross(a.tensor(1), a.tensor(2), a.given(3) ? a.position(3) : -1));
     }},
};

/// Functions of the module that are methods of their first argument too, as in PyTorch.
const Entry kMethods[] = {
    {"det(x)", "The determinants of square matrices.",
     [](Args& a) { return a.push(linalg::det(a.tensor(1))); }},
    {"slogdet(x)", "The sign of the determinant and the logarithm of its size: two tensors.",
     slogdet_body},
    {"logdet(x)", "The logarithm of the determinant; nan where it is negative.",
     [](Args& a) { return a.push(linalg::logdet(a.tensor(1))); }},
    {"inverse(x)", "The inverses of square matrices; a singular one is an error.", inv_body},
    {"pinverse(x, rcond=1e-15)", "The Moore-Penrose inverse.",
     [](Args& a) {
       return a.push(linalg::pinv(a.tensor(1), {{}, a.number(2, 1e-15)}));
     }},
    {"cholesky(x, upper=false)", "L with x = L L' for positive-definite x, or U with x = U' U.",
     cholesky_body},
    {"matrix_exp(x)", "The exponential of square matrices, the sum of x^k / k!.", matrix_exp_body},
    {"cholesky_inverse(x, upper=false)", "The inverse of the matrix whose Cholesky factor x is.",
     cholesky_inverse_body},
    {"cholesky_solve(x, factor, upper=false)",
     "The solution of A y = x from the Cholesky factor of A.",
     [](Args& a) {
       return a.push(linalg::cholesky_solve(a.tensor(1), a.tensor(2), a.boolean(3, false)));
     }},
};

}  // namespace

void register_linalg(Registry& c) { c.add_with_method(kMethods); }

void push_linalg(lua_State* L) {
  lua_newtable(L);
  add(L, kLinalg);
}

}  // namespace mt::lua
