// cuda_preamble.h -- the built-in prologue of a kernel's text: tensor accessors with their shape
#pragma once

namespace mt {

/// This is prepended to a text that uses mt::tensor1 .. mt::tensor4, which have m[row][col] or
/// m(row, col), m.size(0), indices from 0 as in C, and any strides.
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

/// Integers of 64 bits are `long long`, as in CUDA's own headers.
constexpr char kCudaIntegers[] = R"(#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT64_MAX 9223372036854775807ll
#define UINT64_MAX 18446744073709551615ull
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
}
)";
constexpr char kCudaLimits[] = R"(#pragma once
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295u
#define LONG_MIN (-9223372036854775807l - 1)
#define LONG_MAX 9223372036854775807l
#define ULONG_MAX 18446744073709551615ul
#define LLONG_MIN (-9223372036854775807ll - 1)
#define LLONG_MAX 9223372036854775807ll
#define ULLONG_MAX 18446744073709551615ull
)";
constexpr char kCudaFloats[] = R"(#pragma once
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN 1.17549435e-38f
#define FLT_MAX 3.402823466e+38f
#define FLT_EPSILON 1.192092896e-7f
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN 2.2250738585072014e-308
#define DBL_MAX 1.7976931348623157e+308
#define DBL_EPSILON 2.2204460492503131e-16
)";
constexpr char kCudaAlgorithms[] = R"(#pragma once
namespace std {
using ::min; using ::max;
template <class T> __host__ __device__ constexpr void swap(T& a, T& b) { T c = a; a = b; b = c; }
template <class T> __host__ __device__ constexpr const T& clamp(const T& x, const T& low, const T& high) {
  return x < low ? low : high < x ? high : x;
}
}
)";
constexpr char kCudaTraits[] = R"(#pragma once
namespace std {
template <class T, T v> struct integral_constant { static constexpr T value = v; };
template <bool b> using bool_constant = integral_constant<bool, b>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;
template <class, class> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
template <class T, class U> constexpr bool is_same_v = is_same<T, U>::value;
template <bool, class T, class> struct conditional { using type = T; };
template <class T, class U> struct conditional<false, T, U> { using type = U; };
template <bool b, class T, class U> using conditional_t = typename conditional<b, T, U>::type;
template <bool, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool b, class T = void> using enable_if_t = typename enable_if<b, T>::type;
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T&> { using type = T; };
template <class T> struct remove_reference<T&&> { using type = T; };
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> struct remove_cv { using type = T; };
template <class T> struct remove_cv<const T> { using type = T; };
template <class T> struct remove_cv<volatile T> { using type = T; };
template <class T> struct remove_cv<const volatile T> { using type = T; };
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> struct is_floating_point
    : bool_constant<is_same_v<remove_cv_t<T>, float> || is_same_v<remove_cv_t<T>, double>> {};
template <class T> constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> struct is_integral {
  template <class U, class... V> static constexpr bool one_of = (is_same_v<U, V> || ...);
  static constexpr bool value =
      one_of<remove_cv_t<T>, bool, char, signed char, unsigned char, short, unsigned short, int,
             unsigned int, long, unsigned long, long long, unsigned long long>;
};
template <class T> constexpr bool is_integral_v = is_integral<T>::value;
}
)";

/// Headers that a text for the host compiler includes: NVRTC has the GPU part of these built in.
constexpr const char* kCudaEmptyHeaders =
    "torch/extension.h torch/torch.h torch/types.h ATen/ATen.h ATen/cuda/CUDAContext.h "
    "c10/cuda/CUDAException.h c10/cuda/CUDAStream.h c10/cuda/CUDAGuard.h cuda.h cuda_runtime.h "
    "cuda_runtime_api.h device_launch_parameters.h stdio.h cstdio stdlib.h cstdlib iostream vector "
    "math.h assert.h cassert string string.h cstring";
/// The others with their texts.
constexpr const char* kCudaHeaders[][2] = {
    {"stdint.h", kCudaIntegers},
    {"cstdint", kCudaIntegers},
    {"limits.h", kCudaLimits},
    {"climits", kCudaLimits},
    {"float.h", kCudaFloats},
    {"cfloat", kCudaFloats},
    {"algorithm", kCudaAlgorithms},
    {"type_traits", kCudaTraits},
    {"cmath",
     "namespace std {\n"
     "using ::abs; using ::fabs; using ::sqrt; using ::cbrt; using ::exp; using ::exp2; using ::expm1;\n"
     "using ::log; using ::log2; using ::log10; using ::log1p; using ::pow; using ::sin; using ::cos;\n"
     "using ::tan; using ::asin; using ::acos; using ::atan; using ::atan2; using ::sinh; using ::cosh;\n"
     "using ::tanh; using ::erf; using ::floor; using ::ceil; using ::round; using ::trunc; using ::fmod;\n"
     "using ::fmin; using ::fmax; using ::fma; using ::hypot; using ::isnan; using ::isinf;\n"
     "}\n"}};

}  // namespace mt
