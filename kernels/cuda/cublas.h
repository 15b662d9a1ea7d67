// cublas.h -- cuBLAS, opened when the first large product is asked for; never needed
#pragma once
#if defined(__CUDACC__) && __has_include(<cublas_v2.h>)
#define MT_CUBLAS
#include <cublas_v2.h>
#include <dlfcn.h>

#include <initializer_list>

#include "kernels/cuda/cuda.h"

namespace mt::cuda {

/// The functions in use, by the names of the library, and a handle for each GPU.
struct Cublas {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  // Written out: the header has each of these for C and, overloaded, for C++.
  cublasStatus_t (*gemm_ex)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                            const void*, const void*, cudaDataType, int, const void*, cudaDataType,
                            int, const void*, void*, cudaDataType, int, cublasComputeType_t,
                            cublasGemmAlgo_t) = nullptr;
  cublasStatus_t (*gemm_ex_batched)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                    int, const void*, const void*, cudaDataType, int, long long,
                                    const void*, cudaDataType, int, long long, const void*, void*,
                                    cudaDataType, int, long long, int, cublasComputeType_t,
                                    cublasGemmAlgo_t) = nullptr;
  bool found = false;

  Cublas() {
    void* library = nullptr;
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so",
                             "/usr/local/cuda/lib64/libcublas.so.13",
                             "/usr/local/cuda/lib64/libcublas.so.12"})
      if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    found = library && get(library, "cublasCreate_v2", create) &&
            get(library, "cublasSetStream_v2", set_stream) &&
            get(library, "cublasSetWorkspace_v2", set_workspace) &&
            get(library, "cublasSetMathMode", set_math_mode) &&
            get(library, "cublasGemmEx", gemm_ex) &&
            get(library, "cublasGemmStridedBatchedEx", gemm_ex_batched);
  }
  template <class F> static bool get(void* library, const char* name, F& to) {
    to = reinterpret_cast<F>(dlsym(library, name));
    return to != nullptr;
  }
};
inline const Cublas& cublas() {
  static const Cublas library;
  return library;
}

/// The handle of the GPU in use, on the plug-in's stream, or null. A workspace of its own makes the
/// bits independent of what ran before; TF32 stays off.
inline cublasHandle_t cublas_handle() {
  constexpr int kMost = 8;
  constexpr size_t kWorkspace = size_t(32) << 20;  // what Hopper asks for
  struct State { bool tried = false; cublasHandle_t handle = nullptr; };
  static State states[kMost];
  int device = 0;
  const Cublas& lib = cublas();
  if (!lib.found || cudaGetDevice(&device) != cudaSuccess || device >= kMost) return nullptr;
  State& s = states[device];
  if (s.tried) return s.handle;
  if (capturing()) return nullptr;  // it is made outside of recordings
  s.tried = true;
  cublasHandle_t handle = nullptr;
  void* workspace = nullptr;
  if (lib.create(&handle) != CUBLAS_STATUS_SUCCESS) return nullptr;
  if (cudaMalloc(&workspace, kWorkspace) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  // Choosing a stream takes the workspace away: this order.
  if (lib.set_stream(handle, stream()) == CUBLAS_STATUS_SUCCESS &&
      lib.set_workspace(handle, workspace, kWorkspace) == CUBLAS_STATUS_SUCCESS &&
      lib.set_math_mode(handle, cublasMath_t(CUBLAS_DEFAULT_MATH |
                                             CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)) ==
          CUBLAS_STATUS_SUCCESS)
    s.handle = handle;
  return s.handle;
}

}  // namespace mt::cuda
#endif
