// cudnn.cu -- finds cuDNN where it is asked for, opens it, and makes a handle for each GPU
#include "kernels/cuda/cudnn.h"

#include "kernels/cuda/opened.h"

namespace mt::cuda {
namespace {

#ifdef __CUDACC__
constexpr bool kSearch = true;
#else
constexpr bool kSearch = false;  // in the emulation: where MTORCH_CUDNN names it
#endif

/// Empty where cuDNN is not asked for.
const std::string& wish() {
  static const std::string text = [] {
    const std::string s = setting("MTORCH_CUDNN");
    return s == "0" ? std::string() : s;
  }();
  return text;
}

struct Kind {
  using Functions = Cudnn;
  using Handle = dnn::Handle;
  static constexpr const char *kName = "cuDNN", *kWanted = "cuDNN 9";
  static constexpr const char* kLoss =
      "convolutions on the GPU are done without, as if MTORCH_CUDNN were not set; install cuDNN 9, "
      "or name libcudnn.so.9 in MTORCH_CUDNN";

  static std::vector<std::string> files() {
    if (wish() != "1") return {wish()};
    std::vector<std::string> all;
    if (kSearch) all = cudnn_files(), all.push_back(kCudnnName);
    return all;
  }
  static bool expected(bool) { return true; }
  static bool functions_of(void* library, Cudnn& lib) { return cuda::functions_of(library, lib); }
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

Opened<Kind>& opened() {
  static Opened<Kind> lib;
  return lib;
}

struct OfGpu {
  uint64_t convolutions = 0;
  std::string words;
};
OfGpu& of_gpu() {
  static OfGpu all[kMostGpus];
  return all[current_device()];
}

/// What the doctor says where cuDNN is not asked for: nothing has been opened.
std::string unasked() {
  const std::vector<std::string> files = kSearch ? cudnn_files() : std::vector<std::string>();
  return files.empty()
             ? std::string("not asked for (MTORCH_CUDNN=1), and libcudnn.so.9 was not found")
             : "not asked for; MTORCH_CUDNN=1 does convolutions by " + files[0];
}

}  // namespace

CudnnInUse cudnn() { return wish().empty() ? CudnnInUse{nullptr, nullptr} : opened().use(); }

void count_convolution() { ++of_gpu().convolutions; }

const char* cudnn_words(bool open) {
  OfGpu& g = of_gpu();
  if (wish().empty()) {
    if (g.words.empty()) g.words = unasked();
    return g.words.c_str();
  }
  if (open) cudnn();
  g.words = opened().words();
  if (g.convolutions > 0) g.words += ", " + std::to_string(g.convolutions) + " convolutions";
  return g.words.c_str();
}

}  // namespace mt::cuda
