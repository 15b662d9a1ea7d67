// common.h -- what the files of linalg share: checks, the walk over a batch, packed results
#pragma once
#include <string>
#include <vector>

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/core/openblas.h"
#include "engine/core/step_listener.h"
#include "engine/linalg/linalg.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/pool/parallel.h"
#include "kernels/math/lapack.h"

namespace mt::linalg {

inline int64_t rows_of(const Tensor& x) { return x.size(-2); }
inline int64_t columns_of(const Tensor& x) { return x.size(-1); }
inline Tensor mT(const Tensor& x) { return transpose(x, -2, -1); }

/// LAPACK is on the CPU: matrices of another device go there, and the results go back.
inline bool away(const Tensor& x) { return !is_cpu(x.device()); }
inline bool away(const Tensor& x, const Tensor& y) { return away(x) && &x.device() == &y.device(); }
inline Tensor here(const Tensor& x) { return to(x, cpu_device()); }
inline Tensor back(const Tensor& result, const Tensor& x) {
  return result.defined() ? to(result, x.device()) : result;
}
/// The tensors of a struct of up to four.
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
/// x beside matrices: with two more dimensions of size 1.
inline Tensor for_matrices(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }

/// Refuses what LAPACK cannot take: other devices and dtypes, vectors, sizes beyond 32 bits.
void check_matrices(const char* name, const Tensor&);
void check_square(const char* name, const Tensor&);
/// Beyond it workspaces that grow with the square of a side overflow.
void check_workspace(const char* name, int64_t side);

/// The sizes before the last `n`.
inline Shape batch_of(const Tensor& x, int n = 2) { return x.shape().first(x.dim() - n); }

/// "the matrix", or "matrix (2, 1) of the batch".
std::string which(const Shape& batch, int64_t i);

/// A tensor of U beside those of floats.
template <class U> struct As { const Tensor& tensor; };
/// Where entry i of n begins.
template <class T> T* entry_of(const Tensor& x, int64_t i, int64_t n) {
  return x.data_as<T>() + i * (x.numel() / n);
}
template <class T, class U> U* entry_of(const As<U>& x, int64_t i, int64_t n) {
  return entry_of<U>(x.tensor, i, n);
}

/// Calls body(where its entry of each tensor begins..) for every matrix of the batch; the values that
/// are not 0 (LAPACK's info) come back. `work`: elements touched by each. Throws where memory was short
/// or OpenBLAS is missing.
template <class Body, class... X>
std::vector<int> each(const char* name, const Shape& batch, double work, const Body& body,
                      const Tensor& x, const X&... more) {
  const int64_t n = checked_count(name, batch);
  std::vector<int> info(n, 0);
  if (n > 0) require_openblas(name);
  const auto run = [&]<class T>(T, int64_t i) {
    return body(entry_of<T>(x, i, n), entry_of<T>(more, i, n)...);
  };
  parallel(n, double(n) * work > 1e5,
           [&](int64_t i) { info[i] = x.dtype() == Dtype::f64 ? run(0.0, i) : run(0.0f, i); });
  check_interrupt();
  for (int value : info)
    if (value == lapack::kNoMemory) fail("{}: there is no memory for the work", name);
  return info;
}
/// The first matrix whose info is not 0, or -1.
int64_t first_failed(const std::vector<int>& info);
/// Refuses a batch of iterations of which one failed; info below 0: the matrix was not finite.
void check_converged(const char* name, const Shape& batch, const std::vector<int>& info);

/// LU factors in the place of matrices, [.. x columns x rows]: by columns, as LAPACK's. NaN everywhere
/// where a matrix is not finite: LAPACK may read beyond it while looking for pivots.
struct Lu {
  Tensor factors, pivots;
  std::vector<int> info;
};
Lu factor_columns(const char* name, const Tensor& matrices);
/// Refuses factors with a pivot that is 0.
void check_regular(const char* name, const Lu&);

/// 1 / x, and 0 where x is 0: for differences of values whose vectors are not unique.
Tensor reciprocal_or_zero(const Tensor& x);

/// Several results as one tensor, so that one node has them all: their elements joined in the last
/// dimension.
Tensor pack(const Shape& batch, const TensorList& parts);
/// Takes the next part of a packed tensor, of this shape behind the batch.
struct Unpack {
  const Tensor& packed;
  int64_t at = 0;
  Tensor next(const Shape& shape);
};

}  // namespace mt::linalg
