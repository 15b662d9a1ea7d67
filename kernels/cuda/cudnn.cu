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

struct Kind {
  using Functions = Cudnn;
  using Handle = dnn::Handle;
  static constexpr const char *kName = "cuDNN", *kWanted = "cuDNN 9", *kVariable = "MTORCH_CUDNN",
                              *kUses = "convolutions";
  static constexpr const char* kLoss =
      "convolutions do not use cuDNN, as with MTORCH_CUDNN=0; install cuDNN 9, or name "
      "libcudnn.so.9 in MTORCH_CUDNN";

  static std::vector<std::string> files() {
    const std::string& own = GpuLibrary<Kind>::setting();
    if (!own.empty() && own != "1") return {own};
    std::vector<std::string> all = cudnn_files(kFile);
    all.push_back(kFile);
    return all;
  }
  static bool expected(bool) {
    return !GpuLibrary<Kind>::setting().empty() || !cudnn_files(kFile).empty();
  }
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

bool is_off() { return GpuLibrary<Kind>::setting() == "0"; }
bool is_default() { return GpuLibrary<Kind>::setting().empty(); }

}  // namespace

CudnnInUse cudnn(double work) {
  if (is_off() || (is_default() && work < kCudnnWork)) return {nullptr, nullptr};
  return gpu_library<Kind>().use();
}

void count_convolution() { gpu_library<Kind>().count(); }

const char* cudnn_words(bool open) {
  if (is_off()) return "off (MTORCH_CUDNN=0)";
  const bool large = open && is_default() && gpu_library<Kind>().use().handle;
  return gpu_library<Kind>().words(
      open, large ? ", for large convolutions (MTORCH_CUDNN=1: all, 0: none)" : "");
}

}  // namespace mt::cuda
