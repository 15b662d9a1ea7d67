// common.h -- common parts of linalg: checks, the loop over a batch, functions with several results
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/linalg/linalg.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/math/lapack.h"

namespace mt::linalg {

inline int64_t rows_of(const Tensor& x) { return x.size(-2); }
inline int64_t columns_of(const Tensor& x) { return x.size(-1); }
inline Tensor mT(const Tensor& x) { return transpose(x, -2, -1); }

/// Copies results from the CPU, where LAPACK runs, to x's device.
inline Tensor back(const Tensor& result, const Tensor& x) {
  return result.defined() ? to(result, x.device()) : result;
}
/// The same for the tensors of a struct, up to four.
template <class R> R back(const R& r, const Tensor& x) {
  const auto all = [&](const auto&... t) -> R { return {back(t, x)...}; };
  if constexpr (requires { R{{}, {}, {}, {}}; }) {
    const auto& [a, b, c, d] = r;
    return all(a, b, c, d);
  } else if constexpr (requires { R{{}, {}, {}}; }) {
    const auto& [a, b, c] = r;
    return all(a, b, c);
  } else {
    const auto& [a, b] = r;
    return all(a, b);
  }
}
/// Views x with two more dimensions of size 1, to broadcast with matrices.
inline Tensor for_matrices(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }

/// The matrices on the CPU. Throws Error for dtypes, vectors and sizes (over 32 bits) that LAPACK lacks.
Tensor matrices(const char* name, const Tensor&);
Tensor square_matrices(const char* name, const Tensor&);
/// Above this size, workspaces that grow with the square of a side overflow.
void check_workspace(const char* name, int64_t side);

/// The shape without its last `n` sizes.
inline Shape batch_of(const Tensor& x, int n = 2) { return x.shape().first(x.dim() - n); }

/// The operands of A X = B, or of X A = B unless `left`, which is transposed: on the CPU, one dtype, one batch, and B
/// as a matrix. `vectors`: B may be a vector. `square`: A must be square.
struct System {
  Tensor a, b;
  bool vector;
};
System system_of(const char* name, const Tensor& a, const Tensor& b, bool left, bool vectors,
                 bool square = true);

/// "the matrix", or "matrix (2, 1) of the batch".
std::string which(const Shape& batch, int64_t i);

/// Wraps a tensor whose elements are of type U, for `each`, where the others are floats.
template <class U> struct As { const Tensor& tensor; };
/// The n equal parts of a tensor's elements.
template <class T> struct Entries {
  T* const first;
  const int64_t size;
  Entries(const Tensor& x, int64_t n) : first(x.data_as<T>()), size(x.numel() / n) {}
  T* operator[](int64_t i) const { return first + i * size; }
};
template <class T> Entries<T> entries_of(const Tensor& x, int64_t n) { return {x, n}; }
template <class T, class U> Entries<U> entries_of(const As<U>& x, int64_t n) {
  return {x.tensor, n};
}

/// Calls body(pointers to its entry of each tensor..) for every matrix of the batch, and returns
/// LAPACK's info of each. `work`: elements processed for each. Throws Error if memory is exhausted
/// or OpenBLAS is missing.
template <class Body, class... X>
std::vector<int> each(const char* name, const Shape& batch, double work, const Body& body,
                      const Tensor& x, const X&... more) {
  const int64_t n = checked_count(name, batch);
  std::vector<int> info(n, 0);
  if (n == 0) return info;
  require_openblas(name);
  const auto run = [&](const auto&... entries) {
    parallel(n, double(n) * work > 1e5, [&](int64_t i) { info[i] = body(entries[i]...); });
  };
  if (x.dtype() == Dtype::f64) run(entries_of<double>(x, n), entries_of<double>(more, n)...);
  else run(entries_of<float>(x, n), entries_of<float>(more, n)...);
  check_interrupt();
  if (std::ranges::find(info, lapack::kNoMemory) != info.end()) {
    make_room();  // for the next call: the matrices of this one have changed
    fail("{}: there is not enough memory for the workspace", name);
  }
  return info;
}
/// The index of the first matrix whose info is not 0, or -1.
int64_t first_failed(const std::vector<int>& info);
/// Throws Error if LAPACK's info is not 0; below 0 the matrix was not finite.
void check_converged(const char* name, const Shape& batch, const std::vector<int>& info);

/// LU factors that replace matrices, [.. x columns x rows]: column-major as in LAPACK. Matrices
/// that are not finite become NaN, because LAPACK may read out of bounds when it searches pivots.
struct Lu {
  Tensor factors, pivots;
  std::vector<int> info;
};
Lu factor_columns(const char* name, const Tensor& matrices);
/// Throws Error if a pivot is 0.
void check_regular(const char* name, const Lu&);

/// 1 / x, or 0 where x is 0: for differences of eigenvalues whose vectors are not unique.
Tensor reciprocal_or_zero(const Tensor& x);

/// Records a function of `a` with several results. Its gradient is that of a, given the results
/// (followed by a, if it is saved: it must not change then), and the gradients of the results.
TensorList record_results(const char* name, const Tensor& a, const TensorList& results,
                          Tensor (*gradient)(const TensorList& saved, const TensorList& grads),
                          bool saves_input = false);

}  // namespace mt::linalg
