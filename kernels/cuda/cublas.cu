// cublas.cu -- finds cuBLAS, opens it, and makes a handle for each GPU
#include "kernels/cuda/cublas.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cuda/state.h"

namespace mt::cuda {
namespace {

constexpr size_t kWorkspace = size_t(32) << 20;  // what Hopper asks for
#ifdef __CUDACC__
constexpr bool kExpected = true;
#else
constexpr bool kExpected = false;  // in the emulation: where MTORCH_CUBLAS names it
#endif

/// The values of a variable with ':' between, each followed by `below`.
void add(std::vector<std::string>& folders, const char* variable, const char* below) {
  const char* const value = std::getenv(variable);
  for (std::string rest = value ? value : ""; !rest.empty();) {
    const size_t end = rest.find(':');
    if (end != 0) folders.push_back(rest.substr(0, end) + below);
    rest = end == rest.npos ? "" : rest.substr(end + 1);
  }
}

/// Files and names to try, in this order: MTORCH_CUBLAS alone; else for each version that the driver
/// runs, newest first: the places where NVRTC is looked for, pip's folders, the dynamic linker's.
std::vector<std::string> candidates() {
  if (const char* const own = std::getenv("MTORCH_CUBLAS"); own && *own) return {own};
  if (!kExpected) return {};
  std::vector<std::string> folders, all;
  add(folders, "LD_LIBRARY_PATH", "");
  add(folders, "CUDA_HOME", "/lib64");
  add(folders, "CUDA_PATH", "/lib64");
  for (const char* f : {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"})
    folders.push_back(f);
  add(folders, "CONDA_PREFIX", "/lib");
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    for (const char* below : {"/lib/python3*/site-packages/nvidia/cu13/lib",
                              "/lib/python3*/site-packages/nvidia/cublas/lib"})
      add(folders, variable, below);
  int driver = 0;
  cudaDriverGetVersion(&driver);
  for (const int major : {13, 12}) {
    if (major > driver / 1000) continue;
    const std::string name = "libcublas.so." + std::to_string(major);
    for (const std::string& folder : folders) {
      glob_t found{};
      if (glob((folder + "/" + name).c_str(), 0, nullptr, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; ++i) all.push_back(found.gl_pathv[i]);
      globfree(&found);
    }
    all.push_back(name);
  }
  return all;
}

template <class F> bool get(void* library, const char* name, F& to) {
  to = reinterpret_cast<F>(dlsym(library, name));
  return to != nullptr;
}
bool open(const std::string& path, Cublas& lib, std::string& why) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const said = dlerror();
    // The linker's own search says nothing that a file's does not.
    if (why.empty() || path.find('/') != path.npos) why = said ? said : path;
    return false;
  }
  if (get(library, "cublasCreate_v2", lib.create) && get(library, "cublasDestroy_v2", lib.destroy) &&
      get(library, "cublasSetStream_v2", lib.set_stream) &&
      get(library, "cublasSetWorkspace_v2", lib.set_workspace) &&
      get(library, "cublasSetMathMode", lib.set_math_mode) &&
      get(library, "cublasGetVersion_v2", lib.version) &&
      get(library, "cublasGemmEx", lib.gemm_ex) &&
      get(library, "cublasGemmStridedBatchedEx", lib.gemm_ex_batched))
    return true;
  why = path + " is no cuBLAS of CUDA 12 or 13";
  return false;
}

struct Library {
  std::vector<std::string> paths = candidates();
  Cublas functions[16];
  bool opened[16] = {}, refused[16] = {};
  std::string trouble;  // of the last one
  bool told = false;

  size_t size() const { return paths.size() < 16 ? paths.size() : 16; }
  const Cublas* at(size_t i) {
    if (!opened[i] && !refused[i]) {
      opened[i] = open(paths[i], functions[i], trouble);
      refused[i] = !opened[i];
    }
    return opened[i] ? &functions[i] : nullptr;
  }
};
Library& library() {
  static Library lib;
  return lib;
}

struct OfGpu {
  CublasInUse use{nullptr, nullptr};
  std::string words = "cuBLAS: not asked for yet";
  uint64_t asked = 0;
};
OfGpu& of_gpu() {
  static OfGpu all[kMostGpus];
  return all[current_device()];
}

/// A handle with its workspace, or null: then the status, or -1 where there is no memory.
blas::Handle handle_of(const Cublas& lib, int* status) {
  blas::Handle handle = nullptr;
  void* workspace = nullptr;
  if ((*status = lib.create(&handle)) != blas::kSuccess) return nullptr;
  if (cudaMalloc(&workspace, kWorkspace) != cudaSuccess) {
    cudaGetLastError();
    *status = -1;
  } else {
    // Choosing a stream takes the workspace away: this order.
    *status = lib.set_stream(handle, stream());
    if (*status == blas::kSuccess) *status = lib.set_workspace(handle, workspace, kWorkspace);
    if (*status == blas::kSuccess) *status = lib.set_math_mode(handle, blas::kMathMode);
  }
  if (*status == blas::kSuccess) return handle;
  if (workspace) cudaFree(workspace);
  lib.destroy(handle);
  return nullptr;
}

void try_all(OfGpu& g) {
  Library& lib = library();
  for (size_t i = 0; i < lib.size(); ++i) {
    const Cublas* const functions = lib.at(i);
    if (!functions) continue;
    int status = 0;
    blas::Handle handle = handle_of(*functions, &status);
    if (!handle) {  // the pool keeps all freed memory: give it back, once
      trim();
      handle = handle_of(*functions, &status);
    }
    if (!handle) {
      lib.trouble = lib.paths[i] + " does not start " +
                    (status == -1 ? "(no memory is left)"
                                  : "(its status is " + std::to_string(status) + ")");
      continue;
    }
    g.use = {functions, handle};
    int v = 0;
    functions->version(handle, &v);
    g.words = "cuBLAS " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
              std::to_string(v % 100) + ", " + lib.paths[i];
    return;
  }
  g.words = "no cuBLAS (" + (lib.trouble.empty() ? "it was not found" : lib.trouble) +
            "): large products on the GPU are 10 to 50 times slower without; install CUDA's cuBLAS, "
            "or name libcublas.so.13 or .12 in MTORCH_CUBLAS";
  if (lib.told || (!kExpected && lib.size() == 0)) return;
  lib.told = true;
  std::fprintf(stderr, "mtorch: %s\n", g.words.c_str());
}

}  // namespace

CublasInUse cublas() {
  OfGpu& g = of_gpu();
  if (g.use.handle || capturing() || stopped()) return g.use;  // it is made outside of recordings
  // Memory may come back: the 1st, 2nd, 4th, 8th .. product asks again.
  const uint64_t n = ++g.asked;
  if ((n & (n - 1)) == 0) try_all(g);
  return g.use;
}

bool multiply(const CublasInUse& blas, const BlasProduct& p) {
  if (capturing()) keep(&p, sizeof p);
  const bool wide = p.type == blas::kDouble;
  const double numbers[2] = {1, p.accumulate ? 1.0 : 0.0};
  const float floats[2] = {1, p.accumulate ? 1.0f : 0.0f};
  const void* const one = wide ? static_cast<const void*>(numbers) : floats;
  const void* const beta = wide ? static_cast<const void*>(numbers + 1) : floats + 1;
  const int sum = wide ? blas::kInDouble : blas::kInFloat, any = blas::kDefaultAlgorithm;
  const auto op = [](const BlasProduct::Side& s) {
    return s.transposed ? blas::kTransposed : blas::kPlain;
  };
  const int m = int(p.m), n = int(p.n), k = int(p.k);
  // Its matrices lie by columns: c^T = b^T . a^T.
  return (p.entries == 1
              ? blas.library->gemm_ex(blas.handle, op(p.b), op(p.a), n, m, k, one, p.b.at, p.type,
                                      int(p.b.ld), p.a.at, p.type, int(p.a.ld), beta, p.c, p.c_type,
                                      int(p.ldc), sum, any)
              : blas.library->gemm_ex_batched(blas.handle, op(p.b), op(p.a), n, m, k, one, p.b.at,
                                              p.type, int(p.b.ld), p.b.step, p.a.at, p.type,
                                              int(p.a.ld), p.a.step, beta, p.c, p.c_type,
                                              int(p.ldc), p.step, int(p.entries), sum, any)) ==
         blas::kSuccess;
}

const char* cublas_words(bool open) {
  if (open) cublas();
  return of_gpu().words.c_str();
}

}  // namespace mt::cuda
