// cudnn.h -- cuDNN 9, opened at the first large convolution; it is optional
//
// It is searched for where cuBLAS is. MTORCH_CUDNN=0 disables it, 1 uses it for small convolutions
// too, and another value is a file name and does the same. Its functions and constants are declared
// here, so that the build does not need cuDNN; tests/unit/test_cudnn.cpp compares them with cuDNN's
// header if it is installed. The emulation's cuDNN is tests/cuda/cudnn.cpp.
#pragma once
#include <cstddef>

#include "kernels/cuda/library.h"

namespace mt::cuda {

namespace dnn {
using Handle = struct DnnHandle*;
using Descriptor = struct DnnDescriptor*;  // of a tensor, a filter or a convolution
enum Type : int { kFloat = 0, kDouble = 1, kHalf = 2, kBfloat16 = 9 };
/// The math types of a convolution. kDefault allows float32 to be rounded to TF32; kFma does not.
enum Math : int { kDefault = 0, kTensor = 1, kTensorConverting = 2, kFma = 3 };
constexpr int kSuccess = 0, kNchw = 0, kNhwc = 1, kCrossCorrelation = 1, kDeterministic = 1;
/// An algorithm that cuDNN proposes.
struct Proposal {
  int algorithm, status;
  float ms;
  size_t workspace;
  int determinism, math, reserved[3];
};
}  // namespace dnn

/// The functions that are used, with their names in the library. Those of the three parts of a
/// convolution are in the order of ConvPart: they take the two input tensors, in the order x, w, y,
/// and then the output.
struct Cudnn : LibraryFunctions {
  using LibraryFunctions::LibraryFunctions;
  size_t (*version)() = find("cudnnGetVersion");
  const char* (*text)(int status) = find("cudnnGetErrorString");
  int (*create)(dnn::Handle*) = find("cudnnCreate");
  int (*destroy)(dnn::Handle) = find("cudnnDestroy");
  int (*set_stream)(dnn::Handle, void* stream) = find("cudnnSetStream");
  int (*create_tensor)(dnn::Descriptor*) = find("cudnnCreateTensorDescriptor");
  int (*create_filter)(dnn::Descriptor*) = find("cudnnCreateFilterDescriptor");
  int (*create_conv)(dnn::Descriptor*) = find("cudnnCreateConvolutionDescriptor");
  int (*destroy_tensor)(dnn::Descriptor) = find("cudnnDestroyTensorDescriptor");
  int (*destroy_filter)(dnn::Descriptor) = find("cudnnDestroyFilterDescriptor");
  int (*destroy_conv)(dnn::Descriptor) = find("cudnnDestroyConvolutionDescriptor");
  int (*set_tensor)(dnn::Descriptor, int format, int type, int n, int c, int h,
                    int w) = find("cudnnSetTensor4dDescriptor");
  int (*set_filter)(dnn::Descriptor, int type, int format, int k, int c, int h,
                    int w) = find("cudnnSetFilter4dDescriptor");
  int (*set_conv)(dnn::Descriptor, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                  int dilation_w, int mode, int compute) = find("cudnnSetConvolution2dDescriptor");
  int (*set_groups)(dnn::Descriptor, int) = find("cudnnSetConvolutionGroupCount");
  int (*set_math)(dnn::Descriptor, int) = find("cudnnSetConvolutionMathType");
  int (*propose[3])(dnn::Handle, dnn::Descriptor, dnn::Descriptor, dnn::Descriptor conv,
                    dnn::Descriptor result, int room, int* count,
                    dnn::Proposal*) = {find("cudnnGetConvolutionForwardAlgorithm_v7"),
                                       find("cudnnGetConvolutionBackwardDataAlgorithm_v7"),
                                       find("cudnnGetConvolutionBackwardFilterAlgorithm_v7")};
  int (*run[3])(dnn::Handle, const void* alpha, dnn::Descriptor, const void*, dnn::Descriptor,
                const void*, dnn::Descriptor conv, int algorithm, void* workspace, size_t bytes,
                const void* beta, dnn::Descriptor, void* result) = {
      find("cudnnConvolutionForward"), find("cudnnConvolutionBackwardData"),
      find("cudnnConvolutionBackwardFilter")};
  /// Whether the library has them all, and is version 9.
  bool suits() const { return complete() && version() / 10000 == 9; }
};
constexpr const char* kCudnnName = "libcudnn.so.9";
/// The files with that name, including pip's.
inline std::vector<std::string> cudnn_files(const char* name = kCudnnName) {
  return library_files(name, {"cudnn"});
}

/// The minimum number of multiplications for cuDNN if MTORCH_CUDNN is not set: loading takes a
/// second. It depends only on the shape, so that bits do not depend on earlier calls.
#ifdef __CUDACC__
constexpr double kCudnnWork = 1 << 28;
#else  // so that small tests reach it
constexpr double kCudnnWork = 1 << 12;
#endif

/// The handle of the current GPU, on the stream of the plug-in, for a convolution of `work`
/// multiplications; null if `work` is too small, or cuDNN is off or missing.
using CudnnInUse = InUse<Cudnn, dnn::Handle>;
CudnnInUse cudnn(double work);
/// "cuDNN 9.19.0, /usr/local/cuda/lib64/libcudnn.so.9, 12 convolutions", or why it is not used;
/// `open` opens it first.
const char* cudnn_words(bool open);
/// Counts the convolutions for that text.
void count_convolution();

}  // namespace mt::cuda
