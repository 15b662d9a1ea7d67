// lowrank.cpp -- the largest singular values by random projection (Halko, Martinsson and Tropp 2011, algorithm 5.1)
#include <algorithm>

#include "engine/linalg/common.h"
#include "engine/ops/random.h"

namespace mt::linalg {
/// Orthonormal columns whose span is close to that of A's first q left singular vectors.
static Tensor basis(const Tensor& a, int64_t q, int64_t niter, Generator* generator) {
  const Tensor random = randn({columns_of(a), q}, a.dtype(), a.device(), generator);
  Tensor columns = qr(matmul(a, random)).q;
  for (int64_t i = 0; i < niter; ++i) columns = qr(matmul(a, qr(matmul(mT(a), columns)).q)).q;
  return columns;
}

static LowRank low_rank(const char* name, const Tensor& a, int64_t wanted, int64_t niter,
                        Generator* generator) {
  if (wanted < 1) fail("{}: q is {}, it must be at least 1", name, wanted);
  if (niter < 0 || niter > 1000) fail("{}: niter is {}, it must be from 0 to 1000", name, niter);
  const int64_t q = std::min({wanted, rows_of(a), columns_of(a)});
  if (rows_of(a) < columns_of(a)) {
    const Tensor b = basis(mT(a), q, niter, generator);
    const Svd f = svd(matmul(a, b), false, name);
    return {f.u, f.s, matmul(b, mT(f.vh))};
  }
  const Tensor b = basis(a, q, niter, generator);
  const Svd f = svd(matmul(mT(b), a), false, name);
  return {matmul(b, f.u), f.s, mT(f.vh)};
}

LowRank svd_lowrank(const Tensor& a, int64_t q, int64_t niter, const Tensor& mean,
                    Generator* generator) {
  check_matrices("svd_lowrank", here(a));
  return low_rank("svd_lowrank", mean.defined() ? a - mean : a, q, niter, generator);
}

LowRank pca_lowrank(const Tensor& a, std::optional<int64_t> q, bool center, int64_t niter,
                    Generator* generator) {
  check_matrices("pca_lowrank", here(a));
  const int64_t most = std::min(rows_of(a), columns_of(a));
  if (q && *q > most)
    fail("pca_lowrank: q is {}, {} has at most {} components", *q, a.shape(), most);
  return low_rank("pca_lowrank", center ? a - mean(a, {-2}, true) : a,
                  q.value_or(std::min<int64_t>(6, most)), niter, generator);
}

}  // namespace mt::linalg
