// cudnn.cu -- finds cuDNN, opens it, and creates a handle for each GPU
#include "kernels/cuda/cudnn.h"

#include "kernels/cuda/gpu_library.h"

namespace mt::cuda {
namespace {

#ifdef __CUDACC__
constexpr const char* kFile = kCudnnName;
#else
constexpr const char* kFile = "libcudnn_emulated.so.9";
#endif

const std::string& cudnn_setting() {
  static const std::string text = setting("MTORCH_CUDNN");
  return text;
}
bool is_off() { return cudnn_setting() == "0"; }
bool is_default() { return cudnn_setting().empty(); }

struct Kind {
  using Functions = Cudnn;
  using Handle = dnn::Handle;
  static constexpr const char *kName = "cuDNN", *kWanted = "cuDNN 9";
  static constexpr const char* kLoss =
      "convolutions do not use cuDNN, as with MTORCH_CUDNN=0; install cuDNN 9, or name "
      "libcudnn.so.9 in MTORCH_CUDNN";

  static std::vector<std::string> files() {
    if (!is_default() && cudnn_setting() != "1") return {cudnn_setting()};
    std::vector<std::string> all = cudnn_files(kFile);
    all.push_back(kFile);
    return all;
  }
  static bool expected(bool) { return !is_default() || !cudnn_files(kFile).empty(); }
  static dnn::Handle handle_of(const Cudnn& lib, std::string& why) {
    dnn::Handle handle = nullptr;
    int status = lib.create(&handle);
    if (status == dnn::kSuccess) {
      status = lib.set_stream(handle, stream());
      if (status == dnn::kSuccess) return handle;
      lib.destroy(handle);
    }
    why = lib.text(status);
    return nullptr;
  }
  static std::string version_of(const Cudnn& lib, dnn::Handle) {
    return version_text(int(lib.version()));
  }
};

struct OfGpu {
  uint64_t convolutions = 0;
  std::string words;
};
OfGpu& of_gpu() {
  static OfGpu all[kMaxGpus];
  return all[current_device()];
}

}  // namespace

CudnnInUse cudnn(double work) {
  if (is_off() || (is_default() && work < kCudnnWork)) return {nullptr, nullptr};
  return gpu_library<Kind>().use();
}

void count_convolution() { ++of_gpu().convolutions; }

const char* cudnn_words(bool open) {
  OfGpu& g = of_gpu();
  if (is_off()) return "off (MTORCH_CUDNN=0)";
  if (open) gpu_library<Kind>().use();
  g.words = gpu_library<Kind>().words();
  if (open && is_default() && gpu_library<Kind>().use().handle)
    g.words += ", for large convolutions (MTORCH_CUDNN=1: all, 0: none)";
  if (g.convolutions > 0) g.words += ", " + std::to_string(g.convolutions) + " convolutions";
  return g.words.c_str();
}

}  // namespace mt::cuda
