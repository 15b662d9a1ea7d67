// cublas.h -- cuBLAS, opened when the first large product is asked for; never needed
//
// Its functions and numbers are declared here, so that building needs no cuBLAS, and the emulation
// has the same code (its cuBLAS is tests/cuda/cublas.cpp).
#pragma once
#include <type_traits>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/library.h"
#include "kernels/math/half.h"

namespace mt::cuda {

namespace blas {
using Handle = struct BlasHandle*;
enum Operation : int { kPlain = 0, kTransposed = 1 };
enum Type : int { kFloat = 0, kDouble = 1, kHalf = 2, kBfloat16 = 14 };
enum Compute : int { kInFloat = 68, kInDouble = 70, kInTf32 = 77 };
constexpr int kSuccess = 0, kDefaultAlgorithm = -1;
constexpr int kMathMode = 16;  // no reduced precision where partial sums meet
}  // namespace blas

/// The functions in use, by the names of the library.
struct Cublas {
  int (*create)(blas::Handle*) = nullptr;
  int (*destroy)(blas::Handle) = nullptr;
  int (*set_stream)(blas::Handle, cudaStream_t) = nullptr;
  int (*set_workspace)(blas::Handle, void*, size_t) = nullptr;
  int (*set_math_mode)(blas::Handle, int) = nullptr;
  int (*version)(blas::Handle, int*) = nullptr;
  int (*gemm_ex)(blas::Handle, int, int, int m, int n, int k, const void* alpha, const void* a,
                 int a_type, int lda, const void* b, int b_type, int ldb, const void* beta, void* c,
                 int c_type, int ldc, int compute, int algorithm) = nullptr;
  int (*gemm_ex_batched)(blas::Handle, int, int, int m, int n, int k, const void* alpha,
                         const void* a, int a_type, int lda, long long a_step, const void* b,
                         int b_type, int ldb, long long b_step, const void* beta, void* c,
                         int c_type, int ldc, long long c_step, int count, int compute,
                         int algorithm) = nullptr;
};

/// The handle of the GPU in use, on the plug-in's stream, and its library; null where there is none.
/// A workspace of its own makes the bits independent of what ran before.
using CublasInUse = InUse<Cublas, blas::Handle>;
CublasInUse cublas();
/// "cuBLAS 13.1.0, /usr/local/cuda/lib64/libcublas.so.13", or why there is none; opens it if asked to.
const char* cublas_words(bool open);

/// How cuBLAS calls T.
template <class T>
constexpr blas::Type kBlasType = std::is_same_v<T, double>    ? blas::kDouble
                                 : std::is_same_v<T, float>   ? blas::kFloat
                                 : std::is_same_v<T, Float16> ? blas::kHalf
                                                              : blas::kBfloat16;
/// `entries` products of matrices that lie by rows, `step` apart: c (m x n) = a (m x k) . b (k x n),
/// or is added to. A transposed one lies as (k x m) or (n x k); ld is the distance of its rows. c of
/// 16-bit floats may be float32; they are summed in float32.
struct BlasProduct {
  struct Side {
    const void* at;
    int64_t ld, step;
    bool transposed;
  };
  Side a, b;
  void* c;
  int64_t ldc, step;
  int64_t m, n, k, entries;
  blas::Type type, c_type;
  bool accumulate;
  bool tf32;  // float32 may be rounded to that
};
/// Whether it has been queued.
bool multiply(const CublasInUse& blas, const BlasProduct& p);

/// From how many multiplications on a product is worth it, all entries together and each: loading
/// takes a second, and very small ones are faster without.
#ifdef __CUDACC__
constexpr double kCublasWork = 1 << 20, kCublasEntry = 4096;
#else  // small tests reach it
constexpr double kCublasWork = 1, kCublasEntry = 1;
#endif

}  // namespace mt::cuda
