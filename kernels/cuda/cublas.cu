// cublas.cu -- finds cuBLAS, opens it, and creates a handle for each GPU
#include "kernels/cuda/cublas.h"

#include "kernels/cuda/gpu_library.h"

namespace mt::cuda {
namespace {

constexpr size_t kWorkspace = size_t(32) << 20;  // the recommended size for Hopper
#ifdef __CUDACC__
constexpr bool kExpected = true;
#else
constexpr bool kExpected = false;  // the emulation uses it only if MTORCH_CUBLAS is set
#endif

struct Kind {
  using Functions = Cublas;
  using Handle = blas::Handle;
  static constexpr const char *kName = "cuBLAS", *kWanted = "cuBLAS of CUDA 12 or 13",
                              *kVariable = "MTORCH_CUBLAS", *kUses = "";
  static constexpr const char* kLoss =
      "large products on the GPU are 10 to 50 times slower without it; install CUDA's cuBLAS, "
      "or name libcublas.so.13 or .12 in MTORCH_CUBLAS";

  /// Returns only MTORCH_CUBLAS if it is set; otherwise, for each version that the driver supports,
  /// newest first, its files and the name for the dynamic linker.
  static std::vector<std::string> files() {
    if (const std::string& own = GpuLibrary<Kind>::setting(); !own.empty()) return {own};
    std::vector<std::string> all;
    int driver = 0;
    cudaDriverGetVersion(&driver);
    for (const int major : {13, 12}) {
      if (!kExpected || major > driver / 1000) continue;
      const std::string name = "libcublas.so." + std::to_string(major);
      for (const std::string& file : library_files(name, {"cu13", "cublas"})) all.push_back(file);
      all.push_back(name);
    }
    return all;
  }
  static bool expected(bool any) { return kExpected || any; }
  static blas::Handle handle_of(const Cublas& lib, std::string& why) {
    blas::Handle handle = nullptr;
    void* workspace = nullptr;
    int status = lib.create(&handle);
    if (status != blas::kSuccess) {
      why = "its status is " + std::to_string(status);
      return nullptr;
    }
    if (cudaMalloc(&workspace, kWorkspace) != cudaSuccess) {
      cudaGetLastError();
      why = "no memory is left";
    } else {
      // Setting the stream resets the workspace, so this order is required.
      status = lib.set_stream(handle, stream());
      if (status == blas::kSuccess) status = lib.set_workspace(handle, workspace, kWorkspace);
      if (status == blas::kSuccess) status = lib.set_math_mode(handle, blas::kMathMode);
      if (status == blas::kSuccess) return handle;
      why = "its status is " + std::to_string(status);
    }
    if (workspace) cudaFree(workspace);
    lib.destroy(handle);
    return nullptr;
  }
  static std::string version_of(const Cublas& lib, blas::Handle handle) {
    int v = 0;
    lib.version(handle, &v);
    return version_text(v);
  }
};

}  // namespace

CublasInUse cublas() { return gpu_library<Kind>().use(); }

const char* cublas_words(bool open) { return gpu_library<Kind>().words(open); }

bool multiply(const CublasInUse& blas, const BlasProduct& p) {
  if (capturing()) keep(&p, sizeof p);
  const bool wide = p.type == blas::kDouble;
  const Factor one(wide, 1), beta(wide, p.accumulate);
  const bool tf32 = p.tf32 && p.type == blas::kFloat;
  const int sum = wide ? blas::kInDouble : tf32 ? blas::kInTf32 : blas::kInFloat;
  const int any = blas::kDefaultAlgorithm;
  const auto op = [](const BlasProduct::Side& s) {
    return s.transposed ? blas::kTransposed : blas::kPlain;
  };
  const int m = int(p.m), n = int(p.n), k = int(p.k);
  // cuBLAS's matrices are column-major: c^T = b^T . a^T.
  return (p.entries == 1
              ? blas.library->gemm_ex(blas.handle, op(p.b), op(p.a), n, m, k, &one, p.b.at, p.type,
                                      int(p.b.ld), p.a.at, p.type, int(p.a.ld), &beta, p.c,
                                      p.c_type, int(p.ldc), sum, any)
              : blas.library->gemm_ex_batched(
                    blas.handle, op(p.b), op(p.a), n, m, k, &one, p.b.at, p.type, int(p.b.ld),
                    p.b.step, p.a.at, p.type, int(p.a.ld), p.a.step, &beta, p.c, p.c_type,
                    int(p.ldc), p.step, int(p.entries), sum, any)) == blas::kSuccess;
}

}  // namespace mt::cuda
