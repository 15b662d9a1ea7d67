// linalg.cpp -- the module mt.linalg, and its functions that are also methods
#include "engine/linalg/linalg.h"
#include "bindings/functions/functions.h"

namespace mt::lua {
/// 'fro', 'nuc' or a number.
template <> struct Arg<linalg::Order> {
  static constexpr const char* names[] = {"fro", "nuc"};
  static constexpr Type type{kind::number, true, names, 2};
  static linalg::Order get(const Args& a, int i) {
    using Order = linalg::Order;
    if (lua_type(a.L, i) == LUA_TNUMBER) return {Order::number, a.number(i)};
    const bool given = a.given(i);
    const std::string name = given && lua_type(a.L, i) == LUA_TSTRING ? a.text(i) : a.param(i).text;
    if (name == "fro") return {Order::fro};
    if (name == "nuc") return {Order::nuc};
    if (given) a.wrong(i, "a number, 'fro' or 'nuc'");
    return {};
  }
};

namespace {

/// The triangle of a symmetric matrix that is read.
enum Triangle : bool { lower, upper };
constexpr std::array<const char*, 2> names_of(Triangle) { return {"L", "U"}; }

template <auto factor> auto pivoted(const Tensor& A, bool pivot) {
  if (!pivot)
    fail(
        "pivot=false is not supported on the CPU, as in PyTorch: rows are always exchanged; leave it out");
  return factor(A);
}

using MaybeNumber = std::optional<double>;

/// Functions of mt.linalg.
const Entry kLinalg[] = {
    {"solve(A, B, left=true)",
     "X with A X = B, or X A = B where left is false; batches broadcast; B may be a vector.\n"
     "A singular matrix is an error.",
     bind<linalg::solve>},
    {"inv(A)", "The inverses of square matrices; a singular one is an error.", bind<linalg::inv>},
    {"det(A)", "The determinants of square matrices.", bind<linalg::det>},
    {"slogdet(A)", "The sign of the determinant and the logarithm of |det|: two tensors.",
     bind<linalg::slogdet>},
    {"cholesky(A, upper=false)",
     "L with A = L L' for positive-definite A, or U with A = U' U; only that triangle is read.",
     bind<linalg::cholesky>},
    {"solve_triangular(A, B, upper, left=true, unitriangular=false)",
     "X with A X = B for triangular A; the rest of A is not read.", bind<linalg::solve_triangular>},
    {"qr(A, mode='reduced')",
     "Q, R with A = Q R; mode 'reduced', 'complete', or 'r' (then Q is empty).", bind<linalg::qr>},
    {"svd(A, full_matrices=true)",
     "U, S, Vh with A = U diag(S) Vh, S descending; gradients reach the first min(m, n) vectors.",
     bind<linalg::svd>},
    {"svdvals(A)", "The singular values, descending.", bind<linalg::svdvals>},
    {"svd_lowrank(A, q=6, niter=2, M=nil, generator=nil)",
     "U, S, V with A - M close to U diag(S) V': the first q singular values and vectors, for q much "
     "smaller than A's sides.\nA is projected at random; niter power iterations improve the result.",
     bind<linalg::svd_lowrank>},
    {"pca_lowrank(A, q=nil, center=true, niter=2, generator=nil)",
     "svd_lowrank of rows minus their mean: the columns of V are the first q principal directions (at "
     "most 6 by default).",
     bind<linalg::pca_lowrank>},
    {"eigh(A, UPLO='L')",
     "Eigenvalues, ascending, and eigenvectors of symmetric matrices, read from one triangle.",
     bind<linalg::eigh, Tensor, Triangle, const char*>},
    {"eigvalsh(A, UPLO='L')", "The eigenvalues of symmetric matrices, ascending.",
     bind<linalg::eigvalsh, Tensor, Triangle, const char*>},
    {"eig(A)",
     "wr, wi, vr, vi: the eigenvalues of square matrices as real and imaginary parts, and the "
     "vectors (columns of length 1) likewise.\nTheir phase is arbitrary: a result that "
     "depends on it, such as vr of complex ones, has no gradient.",
     bind<linalg::eig>},
    {"eigvals(A)", "wr, wi: the eigenvalues of square matrices as real and imaginary parts.",
     bind<[](const Tensor& A) {
       const linalg::Eig f = linalg::eigvals(A);
       return std::pair(f.wr, f.wi);
     }>},
    {"lu(A, pivot=true)",
     "P, L, U with A = P L U, for matrices of any shape. pivot=false is an error, as on PyTorch's CPU: "
     "rows are always exchanged.",
     bind<pivoted<linalg::lu>>},
    {"lu_factor(A, pivot=true)",
     "LU, pivots: L (without its diagonal of ones) and U in one matrix; row i was exchanged with row "
     "pivots[i], from 1. A singular matrix is an error, and so is pivot=false, as on PyTorch's CPU.",
     bind<pivoted<linalg::lu_factor>>},
    {"lu_solve(LU, pivots, B, left=true, adjoint=false)",
     "X with A X = B from lu_factor(A), or X A = B where left is false; adjoint uses A'.",
     bind<linalg::lu_solve>},
    {"solve_ex(A, B, left=true, check_errors=false)",
     "solve without an error: result, info; info (int32) is 0, or the pivot (from 1) that is 0, then "
     "the result is nan.",
     bind<linalg::solve_ex>},
    {"inv_ex(A, check_errors=false)",
     "inv without an error: inverse, info; info (int32) is 0, or the pivot (from 1) that is 0, then "
     "the inverse is nan.",
     bind<linalg::inv_ex>},
    {"matrix_exp(A)", "The exponential of square matrices, the sum of A^k / k!.",
     bind<linalg::matrix_exp>},
    {"cholesky_inverse(factor, upper=false)",
     "The inverse of the matrix whose Cholesky factor this is.", bind<linalg::cholesky_inverse>},
    {"vecdot(x, y, dim=-1)", "The dot products of vectors along dim, which broadcast.",
     bind<linalg::vecdot>},
    {"vander(x, N=nil)",
     "The powers 0 .. N - 1 of each element, in a new last dimension; N defaults to x's size.",
     bind<linalg::vander>},
    {"tensorsolve(A, B, [dims]=nil)",
     "X with A X = B for A as a matrix: its first dimensions are B's, the others X's. dims of A are "
     "moved to its end before.",
     bind<linalg::tensorsolve>},
    {"tensorinv(A, ind=2)",
     "The inverse of A as a matrix of its first ind dimensions and the others.",
     bind<linalg::tensorinv>},
    {"lstsq(A, B, rcond=nil, driver='gelsy')",
     "The X that minimises |A X - B|: solution, residuals (squared; empty without full rank), "
     "rank, singular_values.\nDrivers as LAPACK's: 'gelsy', 'gels', 'gelsd', 'gelss'.",
     bind<linalg::lstsq>},
    {"pinv(A, atol=nil, rtol=nil, hermitian=false)",
     "The Moore-Penrose inverse; singular values up to max(atol, rtol * largest) count as 0.",
     bind<[](const Tensor& A, MaybeNumber atol, MaybeNumber rtol, bool hermitian) {
       return linalg::pinv(A, {atol, rtol}, hermitian);
     }>},
    {"matrix_rank(A, atol=nil, rtol=nil, hermitian=false)",
     "The number of singular values above max(atol, rtol * largest).",
     bind<[](const Tensor& A, MaybeNumber atol, MaybeNumber rtol, bool hermitian) {
       return linalg::matrix_rank(A, {atol, rtol}, hermitian);
     }>},
    {"cond(A, p=nil)", "The condition number for the norm of order p (default 2).",
     bind<linalg::cond>},
    {"norm(A, ord=nil, [dim]=nil, keepdim=false)",
     "The norm of vectors (one dim, or 1-d) or matrices (two dims, or 2-d); of all elements "
     "without ord.\nord: a number, inf, -inf; for matrices 'fro', 'nuc', 1, -1, 2, -2, inf, -inf.",
     bind<linalg::norm>},
    {"vector_norm(x, ord=2, [dim]=nil, keepdim=false)",
     "(sum |x|^ord)^(1/ord) over dimensions or all; 0 counts, inf and -inf are max and min.",
     bind<linalg::vector_norm>},
    {"matrix_norm(A, ord='fro', [dim]=nil, keepdim=false)",
     "The norm of matrices: 'fro', 'nuc', 1, -1, 2, -2, inf, -inf; dim (-2, -1) by default.",
     bind<[](const Tensor& A, linalg::Order order, const Dims& dims, bool keepdim) {
       return linalg::matrix_norm(A, order, dims.size() > 0 ? dims : Dims{-2, -1}, keepdim);
     }>},
    {"matrix_power(A, n)", "The n-th power of square matrices; of their inverses for negative n.",
     bind<linalg::matrix_power>},
    {"cross(x, y, dim=-1)", "The cross products of vectors of 3 elements along dim.", bind<cross>},
};

/// Functions of the module that are also methods of their first argument, as in PyTorch.
const Entry kLinalgMethods[] = {
    {"det(x)", "The determinants of square matrices.", bind<linalg::det>},
    {"slogdet(x)", "The sign of the determinant and the logarithm of |det|: two tensors.",
     bind<linalg::slogdet>},
    {"logdet(x)", "The logarithm of the determinant; nan where it is negative.",
     bind<linalg::logdet>},
    {"inverse(x)", "The inverses of square matrices; a singular one is an error.",
     bind<linalg::inv>},
    {"pinverse(x, rcond=1e-15)", "The Moore-Penrose inverse.",
     bind<[](const Tensor& x, double rcond) {
       return linalg::pinv(x, {{}, rcond});
     }>},
    {"cholesky(x, upper=false)", "L with x = L L' for positive-definite x, or U with x = U' U.",
     bind<linalg::cholesky>},
    {"matrix_exp(x)", "The exponential of square matrices, the sum of x^k / k!.",
     bind<linalg::matrix_exp>},
    {"cholesky_inverse(x, upper=false)", "The inverse of the matrix whose Cholesky factor x is.",
     bind<linalg::cholesky_inverse>},
    {"cholesky_solve(x, factor, upper=false)",
     "The solution of A y = x from the Cholesky factor of A.", bind<linalg::cholesky_solve>},
};

}  // namespace

void register_linalg(Registry& c) { c.both(kLinalgMethods); }

void add_linalg(lua_State* L) { add(L, kLinalg); }

}  // namespace mt::lua
