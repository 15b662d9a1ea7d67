// cublas.h -- cuBLAS, opened at the first large product; it is optional
//
// Its functions and constants are declared here, so that the build does not need cuBLAS, and the
// emulation runs the same code (its cuBLAS is tests/cuda/cublas.cpp).
#pragma once
#include <type_traits>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/library.h"
#include "kernels/math/reduced_floats.h"

namespace mt::cuda {

namespace blas {
using Handle = struct BlasHandle*;
enum Operation : int { kPlain = 0, kTransposed = 1 };
enum Type : int { kFloat = 0, kDouble = 1, kHalf = 2, kBfloat16 = 14 };
enum Compute : int { kInFloat = 68, kInDouble = 70, kInTf32 = 77 };
constexpr int kSuccess = 0, kDefaultAlgorithm = -1;
constexpr int kMathMode = 16;  // no reduced precision in split-k reductions
}  // namespace blas

/// The functions that are used, with their names in the library.
struct Cublas : LibraryFunctions {
  using LibraryFunctions::LibraryFunctions;
  int (*create)(blas::Handle*) = find("cublasCreate_v2");
  int (*destroy)(blas::Handle) = find("cublasDestroy_v2");
  int (*set_stream)(blas::Handle, cudaStream_t) = find("cublasSetStream_v2");
  int (*set_workspace)(blas::Handle, void*, size_t) = find("cublasSetWorkspace_v2");
  int (*set_math_mode)(blas::Handle, int) = find("cublasSetMathMode");
  int (*version)(blas::Handle, int*) = find("cublasGetVersion_v2");
  int (*gemm_ex)(blas::Handle, int, int, int m, int n, int k, const void* alpha, const void* a,
                 int a_type, int lda, const void* b, int b_type, int ldb, const void* beta, void* c,
                 int c_type, int ldc, int compute, int algorithm) = find("cublasGemmEx");
  int (*gemm_ex_batched)(blas::Handle, int, int, int m, int n, int k, const void* alpha,
                         const void* a, int a_type, int lda, long long a_step, const void* b,
                         int b_type, int ldb, long long b_step, const void* beta, void* c,
                         int c_type, int ldc, long long c_step, int count, int compute,
                         int algorithm) = find("cublasGemmStridedBatchedEx");
  /// Whether the library has them all.
  bool suits() const { return complete(); }
};

/// The handle of the current GPU, on the stream of the plug-in, and its library; null without
/// cuBLAS. Its own workspace makes the bits independent of earlier calls.
using CublasInUse = InUse<Cublas, blas::Handle>;
CublasInUse cublas();
/// "cuBLAS 13.1.0, /usr/local/cuda/lib64/libcublas.so.13", or why not; `open` opens it.
const char* cublas_words(bool open);

/// cuBLAS's data type for T.
template <class T>
constexpr blas::Type kBlasType = std::is_same_v<T, double>    ? blas::kDouble
                                 : std::is_same_v<T, float>   ? blas::kFloat
                                 : std::is_same_v<T, Float16> ? blas::kHalf
                                                              : blas::kBfloat16;
/// `entries` products of row-major matrices, `step` apart: c (m x n) = a (m x k) . b (k x n), or c
/// += a . b. A transposed one has the shape (k x m) or (n x k); ld is its row stride. If the
/// operands are 16-bit floats, c may be float32; their sums are in float32.
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
  bool tf32;  // float32 may be rounded to TF32
};
/// Returns whether the product was queued.
bool multiply(const CublasInUse& blas, const BlasProduct& p);

/// The minimum number of multiplications, of all entries together and of each: loading cuBLAS takes
/// a second, and very small products are faster without it.
#ifdef __CUDACC__
constexpr double kCublasWork = 1 << 20, kCublasEntry = 4096;
#else  // so that small tests reach it
constexpr double kCublasWork = 1, kCublasEntry = 1;
#endif

}  // namespace mt::cuda
