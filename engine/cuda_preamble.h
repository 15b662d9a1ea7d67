// cuda_preamble.h -- what a kernel's text may use without writing it: tensors with their shape
#pragma once

namespace mt {

/// Stands before a text that names mt::tensor1 .. mt::tensor4: m[row][col] or m(row, col), m.size(0),
/// positions from 0 as in C, any strides.
constexpr char kCudaTensors[] = R"(namespace mt {
template <class T, int N> struct tensor_part {
  T* at;
  const long long *size_, *stride_;
  __device__ decltype(auto) operator[](long long i) const {
    if constexpr (N == 1) return (at[i * stride_[0]]);
    else return tensor_part<T, N - 1>{at + i * stride_[0], size_ + 1, stride_ + 1};
  }
};
template <class T, int N> struct tensor_of {
  T* data;
  long long size_[N], stride_[N];
  __device__ long long size(int d) const { return size_[d]; }
  __device__ long long stride(int d) const { return stride_[d]; }
  __device__ static constexpr int dim() { return N; }
  __device__ decltype(auto) operator[](long long i) const {
    return tensor_part<T, N>{data, size_, stride_}[i];
  }
  template <class... I> __device__ T& operator()(I... i) const {
    static_assert(sizeof...(I) == N, "one position for each dimension");
    const long long at[] = {(long long)i...};
    long long offset = 0;
    for (int d = 0; d < N; ++d) offset += at[d] * stride_[d];
    return data[offset];
  }
};
template <class T> struct tensor1 : tensor_of<T, 1> {};
template <class T> struct tensor2 : tensor_of<T, 2> {};
template <class T> struct tensor3 : tensor_of<T, 3> {};
template <class T> struct tensor4 : tensor_of<T, 4> {};
}  // namespace mt
)";

/// What a text written for the host's compiler includes: NVRTC knows the GPU's part of it by itself.
constexpr const char* kCudaHeaders[][2] = {
    {"torch/extension.h", ""},
    {"torch/torch.h", ""},
    {"torch/types.h", ""},
    {"ATen/ATen.h", ""},
    {"ATen/cuda/CUDAContext.h", ""},
    {"c10/cuda/CUDAException.h", ""},
    {"c10/cuda/CUDAStream.h", ""},
    {"c10/cuda/CUDAGuard.h", ""},
    {"cuda.h", ""},
    {"cuda_runtime.h", ""},
    {"cuda_runtime_api.h", ""},
    {"device_launch_parameters.h", ""},
    {"stdio.h", ""},
    {"cstdio", ""},
    {"stdlib.h", ""},
    {"cstdlib", ""},
    {"iostream", ""},
    {"vector", ""},
    {"math.h", ""},
    {"cmath",
     "namespace std {\n"
     "using ::abs; using ::fabs; using ::sqrt; using ::cbrt; using ::exp; using ::exp2; using ::expm1;\n"
     "using ::log; using ::log2; using ::log10; using ::log1p; using ::pow; using ::sin; using ::cos;\n"
     "using ::tan; using ::asin; using ::acos; using ::atan; using ::atan2; using ::sinh; using ::cosh;\n"
     "using ::tanh; using ::erf; using ::floor; using ::ceil; using ::round; using ::trunc; using ::fmod;\n"
     "using ::fmin; using ::fmax; using ::fma; using ::hypot; using ::isnan; using ::isinf;\n"
     "}\n"}};

}  // namespace mt
