// common.cpp -- common parts of linalg: checks, names for messages, functions with several results
#include "engine/linalg/common.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/autograd/function.h"

namespace mt::linalg {

Tensor matrices(const char* name, const Tensor& x) {
  if (x.dim() < 2) fail("{}: a matrix, or a batch of them, is needed, got {}", name, x.shape());
  if (!is_float(x.dtype()) || is_reduced_float(x.dtype()))
    fail("{}: {} matrices are not supported; use x:float()", name, x.dtype());
  if (rows_of(x) > lapack::kMaxSide || columns_of(x) > lapack::kMaxSide)
    fail("{}: {} is too large for LAPACK; a side has at most {} elements", name, x.shape(),
         lapack::kMaxSide);
  return to(x, cpu_device());
}

Tensor square_matrices(const char* name, const Tensor& x) {
  const Tensor a = matrices(name, x);
  if (rows_of(x) != columns_of(x)) fail("{}: square matrices are needed, got {}", name, x.shape());
  return a;
}

void check_workspace(const char* name, int64_t side) {
  if (side > lapack::kMaxSquare)
    fail("{}: a matrix of {} rows and columns is too large for LAPACK; at most {}", name, side,
         lapack::kMaxSquare);
}

System system_of(const char* name, const Tensor& a0, const Tensor& b0, bool left, bool vectors,
                 bool square) {
  const Dtype dtype = promote(a0.dtype(), b0.dtype());
  System s{(square ? square_matrices : matrices)(name, to(a0, dtype)), to(b0, dtype), false};
  check_together(name, a0, b0);
  s.vector = vectors && (b0.dim() == 1 || b0.shape() == batch_of(a0, 1));
  if (s.vector) s.b = unsqueeze(s.b, -1);
  const int64_t n = rows_of(s.a);
  if (s.b.dim() < 2 || (left ? rows_of(s.b) : columns_of(s.b)) != n)
    fail("{}: the matrix is {}, the {} side {}; it needs {} {}", name, a0.shape(),
         left ? "right" : "left", b0.shape(), n, left ? "rows" : "columns");
  s.b = matrices(name, s.b);
  const Shape batch = broadcast(name, batch_of(s.a), batch_of(s.b));
  s.a = expand(s.a, joined(batch, {n, columns_of(s.a)}));
  s.b = expand(s.b, joined(batch, {rows_of(s.b), columns_of(s.b)}));
  if (!left) s.a = mT(s.a), s.b = mT(s.b);
  return s;
}

std::string which(const Shape& batch, int64_t i) {
  if (batch.size() == 0) return "the matrix";
  Shape index = batch;
  for (int d = batch.size() - 1; d >= 0; --d)
    index[d] = i % batch[d] + message_base(), i /= batch[d];
  if (batch.size() == 1) return fmt::format("matrix {} of the batch", index[0]);
  return fmt::format("matrix ({}) of the batch", fmt::join(index.begin(), index.end(), ", "));
}

int64_t first_failed(const std::vector<int>& info) {
  for (size_t i = 0; i < info.size(); ++i)
    if (info[i] != 0) return int64_t(i);
  return -1;
}

void check_converged(const char* name, const Shape& batch, const std::vector<int>& info) {
  const int64_t i = first_failed(info);
  if (i < 0) return;
  if (info[i] < 0) fail("{}: {} has NaN or infinite elements", name, which(batch, i));
  fail("{}: the iteration for {} did not converge", name, which(batch, i));
}

Lu factor_columns(const char* name, const Tensor& matrices) {
  const int64_t m = columns_of(matrices), n = rows_of(matrices), k = std::min(m, n);
  const Shape batch = batch_of(matrices);
  Lu lu{matrices, empty(joined(batch, {k}), Dtype::i32), {}};
  const auto run = [&]<class T>(T* one, int* pivots) {
    if (lapack::finite(one, m * n)) return lapack::lu(int(m), int(n), one, pivots);
    std::fill_n(one, m * n, std::numeric_limits<T>::quiet_NaN());
    std::iota(pivots, pivots + k, 1);
    return 0;
  };
  lu.info = each(name, batch, double(m) * double(n), run, matrices, As<int>{lu.pivots});
  return lu;
}

void check_regular(const char* name, const Lu& lu) {
  if (const int64_t i = first_failed(lu.info); i >= 0)
    fail("{}: {} is singular (pivot {} is 0)", name, which(batch_of(lu.factors), i),
         lu.info[i] - 1 + message_base());
}

Tensor reciprocal_or_zero(const Tensor& x) {
  const Tensor is_zero = eq(x, 0.0);
  return where(is_zero, 0.0, reciprocal(where(is_zero, 1.0, x)));
}

TensorList record_results(const char* name, const Tensor& a, const TensorList& results,
                          Tensor (*gradient)(const TensorList& saved, const TensorList& grads),
                          bool saves_input) {
  if (!wants_grad(a)) return results;
  TensorList save = results;
  if (saves_input) save.push_back(a);
  return record_function(name, {a}, results, {}, save, [=](const TensorList& g) -> TensorList {
    return {gradient(saved_tensors(), g)};
  });
}

}  // namespace mt::linalg
