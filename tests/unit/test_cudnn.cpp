// test_cudnn.cpp -- what is declared of cuDNN, against its own header and library where they are
#include "kernels/cuda/cudnn.h"

#include "tests/unit/catch.h"

#if __has_include(<cudnn.h>) && __has_include(<cuda_runtime_api.h>)
#include <cudnn.h>

#include <type_traits>

namespace {

using namespace mt::cuda;

/// Whether values are passed alike: pointers, or numbers of one size.
template <class Ours, class Theirs>
constexpr bool kAlike = std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                        sizeof(Ours) == sizeof(Theirs) &&
                        (std::is_enum_v<Theirs>
                             ? std::is_same_v<Ours, int>
                             : std::is_pointer_v<Ours> || std::is_same_v<Ours, Theirs>);
template <class Ours, class Theirs> struct Calls : std::false_type {};
template <class R, class... A, class S, class... B> struct Calls<R (*)(A...), S (*)(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) == sizeof...(B)) return kAlike<R, S> && (kAlike<A, B> && ...);
    else return false;
  }();
};
#define SAME_CALL(ours, theirs) \
  static_assert(Calls<std::remove_cvref_t<decltype(Cudnn().ours)>, decltype(&theirs)>::value)

SAME_CALL(version, cudnnGetVersion);
SAME_CALL(text, cudnnGetErrorString);
SAME_CALL(create, cudnnCreate);
SAME_CALL(destroy, cudnnDestroy);
SAME_CALL(set_stream, cudnnSetStream);
SAME_CALL(create_tensor, cudnnCreateTensorDescriptor);
SAME_CALL(create_filter, cudnnCreateFilterDescriptor);
SAME_CALL(create_conv, cudnnCreateConvolutionDescriptor);
SAME_CALL(destroy_tensor, cudnnDestroyTensorDescriptor);
SAME_CALL(destroy_filter, cudnnDestroyFilterDescriptor);
SAME_CALL(destroy_conv, cudnnDestroyConvolutionDescriptor);
SAME_CALL(set_tensor, cudnnSetTensor4dDescriptor);
SAME_CALL(set_filter, cudnnSetFilter4dDescriptor);
SAME_CALL(set_conv, cudnnSetConvolution2dDescriptor);
SAME_CALL(set_groups, cudnnSetConvolutionGroupCount);
SAME_CALL(set_math, cudnnSetConvolutionMathType);
SAME_CALL(propose[0], cudnnGetConvolutionForwardAlgorithm_v7);
SAME_CALL(propose[0], cudnnGetConvolutionBackwardDataAlgorithm_v7);
SAME_CALL(propose[0], cudnnGetConvolutionBackwardFilterAlgorithm_v7);
SAME_CALL(run[0], cudnnConvolutionForward);
SAME_CALL(run[0], cudnnConvolutionBackwardData);
SAME_CALL(run[0], cudnnConvolutionBackwardFilter);

static_assert(CUDNN_MAJOR == 9);
static_assert(dnn::kFloat == int(CUDNN_DATA_FLOAT) && dnn::kDouble == int(CUDNN_DATA_DOUBLE) &&
              dnn::kHalf == int(CUDNN_DATA_HALF) && dnn::kBfloat16 == int(CUDNN_DATA_BFLOAT16));
static_assert(dnn::kDefault == int(CUDNN_DEFAULT_MATH) &&
              dnn::kTensor == int(CUDNN_TENSOR_OP_MATH) &&
              dnn::kTensorConverting == int(CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) &&
              dnn::kFma == int(CUDNN_FMA_MATH));
static_assert(dnn::kSuccess == int(CUDNN_STATUS_SUCCESS) && dnn::kNchw == int(CUDNN_TENSOR_NCHW) &&
              dnn::kNhwc == int(CUDNN_TENSOR_NHWC) &&
              dnn::kCrossCorrelation == int(CUDNN_CROSS_CORRELATION) &&
              dnn::kDeterministic == int(CUDNN_DETERMINISTIC));
// Algorithms with higher numbers than these transform tiles, or change their bits from run to run.
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_DIRECT == 3 && CUDNN_CONVOLUTION_FWD_ALGO_FFT == 4 &&
              CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 == 1 && CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 == 1);

template <class Theirs>
constexpr bool kProposal = sizeof(dnn::Proposal) == sizeof(Theirs) &&
                           offsetof(dnn::Proposal, algorithm) == offsetof(Theirs, algo) &&
                           offsetof(dnn::Proposal, status) == offsetof(Theirs, status) &&
                           offsetof(dnn::Proposal, workspace) == offsetof(Theirs, memory) &&
                           offsetof(dnn::Proposal, determinism) == offsetof(Theirs, determinism) &&
                           offsetof(dnn::Proposal, math) == offsetof(Theirs, mathType);
static_assert(kProposal<cudnnConvolutionFwdAlgoPerf_t> &&
              kProposal<cudnnConvolutionBwdDataAlgoPerf_t> &&
              kProposal<cudnnConvolutionBwdFilterAlgoPerf_t>);

constexpr bool kCompared = true;

}  // namespace
#else
namespace {
constexpr bool kCompared = false;
}
#endif

TEST_CASE("the declarations of cuDNN are those of its header", "[cudnn]") {
  if (!kCompared) WARN("skipped: there was no cudnn.h (with CUDA's headers) when this was built");
  SUCCEED("compared by the compiler");
}

TEST_CASE("the library of cuDNN has every function in use, and takes our sizes", "[cudnn]") {
  using namespace mt::cuda;
  const std::string own = setting("MTORCH_CUDNN");
  const auto files =
      own.empty() || own == "0" || own == "1" ? cudnn_files() : std::vector<std::string>{own};
  if (files.empty()) {
    WARN("skipped: libcudnn.so.9 was not found; MTORCH_CUDNN may name it");
    return;
  }
  const mt::DynamicLibrary library({files[0].c_str()});
  INFO(files[0] << " " << library.error());
  REQUIRE(library);
  const Cudnn lib(library);
  REQUIRE(lib.suits());
  CHECK(lib.text(dnn::kSuccess) == std::string("CUDNN_STATUS_SUCCESS"));
  // Descriptors need no GPU.
  dnn::Descriptor x = nullptr, w = nullptr, conv = nullptr;
  REQUIRE(lib.create_tensor(&x) == dnn::kSuccess);
  REQUIRE(lib.create_filter(&w) == dnn::kSuccess);
  REQUIRE(lib.create_conv(&conv) == dnn::kSuccess);
  for (const int type : {dnn::kFloat, dnn::kDouble, dnn::kHalf, dnn::kBfloat16}) {
    CHECK(lib.set_tensor(x, dnn::kNchw, type, 2, 6, 8, 9) == dnn::kSuccess);
    CHECK(lib.set_filter(w, type, dnn::kNchw, 4, 3, 2, 3) == dnn::kSuccess);
  }
  for (const int type : {dnn::kHalf, dnn::kBfloat16}) {
    CHECK(lib.set_tensor(x, dnn::kNhwc, type, 2, 16, 8, 9) == dnn::kSuccess);
    CHECK(lib.set_filter(w, type, dnn::kNhwc, 8, 16, 2, 3) == dnn::kSuccess);
  }
  CHECK(lib.set_tensor(x, dnn::kNchw, dnn::kFloat, 2, -6, 8, 9) != dnn::kSuccess);
  CHECK(lib.set_conv(conv, 1, 0, 2, 1, 1, 3, dnn::kCrossCorrelation, dnn::kFloat) == dnn::kSuccess);
  CHECK(lib.set_groups(conv, 2) == dnn::kSuccess);
  for (const int math : {dnn::kDefault, dnn::kTensor, dnn::kFma})
    CHECK(lib.set_math(conv, math) == dnn::kSuccess);
  lib.destroy_tensor(x), lib.destroy_filter(w), lib.destroy_conv(conv);
}
