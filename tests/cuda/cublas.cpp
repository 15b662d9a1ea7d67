// cublas.cpp -- cuBLAS for the emulation: its products by three loops, checked as cuBLAS checks them
//
// Part of the emulated plug-in, which is its own cuBLAS where MTORCH_CUBLAS names it. Columns first;
// leading dimensions, strides and types as cuBLAS has them; c is not read where beta is 0.
//   MTORCH_EMULATED_CUBLAS=2    the first two handles cannot be made
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>

#include "kernels/math/reduced_floats.h"

#define MT_SHOWN extern "C" __attribute__((visibility("default")))

namespace {

using mt::Bfloat16, mt::Float16;
enum { kFloat = 0, kDouble = 1, kHalf = 2, kBfloat16 = 14 };
enum { kSuccess = 0, kAllocFailed = 3, kInvalidValue = 7 };
int64_t calls[5];  // single, batched, of 16-bit floats, with a beta, in TF32

/// A factor of TF32: the nearest float with 11 bits.
struct Tf32 {
  float x;
  operator float() const { return emulation::rounded_to_tf32(x); }
};

struct Product {
  bool ta, tb;
  int m, n, k;
  double alpha, beta;
  const void *a, *b;
  void* c;
  int64_t lda, ldb, ldc, a_step, b_step, c_step;
  int count;
};

template <class T, class Sum, class Out = T> void multiply(const Product& p) {
  for (int64_t e = 0; e < p.count; ++e) {
    const T* const a = static_cast<const T*>(p.a) + e * p.a_step;
    const T* const b = static_cast<const T*>(p.b) + e * p.b_step;
    Out* const c = static_cast<Out*>(p.c) + e * p.c_step;
    for (int64_t j = 0; j < p.n; ++j)
      for (int64_t i = 0; i < p.m; ++i) {
        Sum s = 0;
        for (int64_t k = 0; k < p.k; ++k)
          s += Sum(p.ta ? a[k + i * p.lda] : a[i + k * p.lda]) *
               Sum(p.tb ? b[j + k * p.ldb] : b[k + j * p.ldb]);
        Out& out = c[i + j * p.ldc];
        out = p.beta == 0 ? Out(Sum(p.alpha) * s) : Out(Sum(p.alpha) * s + Sum(p.beta) * Sum(out));
      }
  }
}

bool wrong(const Product& p) {
  return p.m < 0 || p.n < 0 || p.k < 0 || p.count < 0 || p.lda < std::max(1, p.ta ? p.k : p.m) ||
         p.ldb < std::max(1, p.tb ? p.n : p.k) || p.ldc < std::max(1, p.m) ||
         (p.count > 1 && p.c_step == 0);
}

}  // namespace

/// How many products there were: of what, see above.
MT_SHOWN int64_t emulated_cublas_calls(int which) { return calls[which]; }

MT_SHOWN int cublasCreate_v2(void** handle) {
  static int fails = [] {
    const char* const text = std::getenv("MTORCH_EMULATED_CUBLAS");
    return text ? std::atoi(text) : 0;
  }();
  if (fails > 0) return --fails, kAllocFailed;
  static int any;
  *handle = &any;
  return kSuccess;
}
MT_SHOWN int cublasDestroy_v2(void*) { return kSuccess; }
MT_SHOWN int cublasSetStream_v2(void*, void*) { return kSuccess; }
MT_SHOWN int cublasSetWorkspace_v2(void*, void* workspace, size_t) {
  return workspace ? kSuccess : kInvalidValue;
}
MT_SHOWN int cublasSetMathMode(void*, int mode) { return mode == 16 ? kSuccess : kInvalidValue; }
MT_SHOWN int cublasGetVersion_v2(void*, int* version) {
  *version = 130100;
  return kSuccess;
}

MT_SHOWN int cublasGemmStridedBatchedEx(void*, int ta, int tb, int m, int n, int k,
                                        const void* alpha, const void* a, int a_type, int lda,
                                        long long a_step, const void* b, int b_type, int ldb,
                                        long long b_step, const void* beta, void* c, int c_type,
                                        int ldc, long long c_step, int count, int compute, int) {
  const bool is_double = a_type == kDouble;
  const auto number = [&](const void* at) {
    return is_double ? *static_cast<const double*>(at) : double(*static_cast<const float*>(at));
  };
  const Product p{ta == 1, tb == 1, m,   n,   k,      number(alpha), number(beta), a,    b,
                  c,       lda,     ldb, ldc, a_step, b_step,        c_step,       count};
  const bool half = a_type == kHalf || a_type == kBfloat16;
  if (wrong(p) || b_type != a_type || !(c_type == a_type || (half && c_type == kFloat)) ||
      !(compute == (is_double ? 70 : 68) || (compute == 77 && a_type == kFloat))) {
    std::fprintf(stderr, "emulated cuBLAS: a wrong call: m %d n %d k %d ld %d %d %d\n", m, n, k,
                 lda, ldb, ldc);
    std::abort();
  }
  ++calls[count > 1 ? 1 : 0];
  calls[2] += half;
  calls[3] += p.beta != 0;
  calls[4] += compute == 77;
  emulation::start("cuBLAS", false, 1, 1, 0, [=] {
    if (a_type == kDouble) multiply<double, double>(p);
    else if (compute == 77) multiply<Tf32, float, float>(p);
    else if (a_type == kFloat) multiply<float, double>(p);  // as close to the sum as cuBLAS is
    else if (a_type == kHalf && c_type == kFloat) multiply<Float16, float, float>(p);
    else if (a_type == kHalf) multiply<Float16, float>(p);
    else if (c_type == kFloat) multiply<Bfloat16, float, float>(p);
    else multiply<Bfloat16, float>(p);
  });
  return kSuccess;
}
MT_SHOWN int cublasGemmEx(void* handle, int ta, int tb, int m, int n, int k, const void* alpha,
                          const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                          const void* beta, void* c, int c_type, int ldc, int compute,
                          int algorithm) {
  return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, a_type, lda, 0, b, b_type,
                                    ldb, 0, beta, c, c_type, ldc, 0, 1, compute, algorithm);
}
