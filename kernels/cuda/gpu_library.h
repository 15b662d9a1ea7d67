// gpu_library.h -- a library that is loaded at first use, with one handle per GPU
#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/cuda/library.h"
#include "kernels/cuda/state.h"

namespace mt::cuda {

/// Formats NVIDIA's version numbers as text.
inline std::string version_text(int v) {
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

/// Kind defines the properties of a library:
///   Functions, Handle          LibraryFunctions with suits(): whether this is the library
///   kName, kWanted             "cuBLAS", "cuBLAS of CUDA 12 or 13"
///   kVariable, kUses           "MTORCH_CUBLAS"; what count() counts
///   kLoss                      the consequence of its absence, and the remedy
///   files()                    what to try, in order
///   expected(files)            whether a missing library is reported
///   handle_of(f, why)          a handle for the current GPU, or null
///   version_of(f, handle)      "13.1.0"
template <class Kind> class GpuLibrary {
 public:
  using Functions = typename Kind::Functions;
  using Use = InUse<Functions, typename Kind::Handle>;

  /// The library and handle for the current GPU; handles are created outside of graph capture.
  Use use() {
    OfGpu& g = gpus_[current_device()];
    if (g.use.handle || capturing() || stopped()) return g.use;
    // Memory may be free later: the 1st, 2nd, 4th, 8th .. call tries again.
    const uint64_t n = ++g.asked;
    if ((n & (n - 1)) == 0) try_all(g);
    return g.use;
  }
  /// "cuDNN 9.19.0, /usr/local/cuda/lib64/libcudnn.so.9, 12 convolutions", or why it is not used;
  /// `open` opens it first, and `more` follows the path.
  const char* words(bool open, const char* more = "") {
    if (open) use();
    OfGpu& g = gpus_[current_device()];
    g.shown = g.words + more;
    if (g.uses > 0) g.shown += ", " + std::to_string(g.uses) + " " + Kind::kUses;
    return g.shown.c_str();
  }
  void count() { ++gpus_[current_device()].uses; }
  /// The value of the variable: "" if it is not set, "0" if the library is not to be used.
  static const std::string& setting() {
    static const std::string text = cuda::setting(Kind::kVariable);
    return text;
  }

 private:
  struct OfGpu {
    Use use{nullptr, nullptr};
    std::string words = std::string(Kind::kName) + ": not asked for yet", shown = {};
    uint64_t asked = 0, uses = 0;
  };
  struct File {
    std::string path;
    Functions functions{};
    bool tried = false, good = false;
  };

  static std::vector<File> all_files() {
    std::vector<File> all;
    for (const std::string& path : Kind::files()) all.push_back({path});
    return all;
  }
  bool open(File& file) {
    if (file.tried) return file.good;
    file.tried = true;
    const DynamicLibrary library({file.path.c_str()});
    if (!library) {
      // The error of the linker's own search adds nothing to that of a file.
      if (reason_.empty() || file.path.find('/') != file.path.npos) reason_ = library.error();
      return false;
    }
    file.functions = Functions(library);
    file.good = file.functions.suits();
    if (!file.good) reason_ = file.path + " is not " + Kind::kWanted;
    return file.good;
  }
  void try_all(OfGpu& g) {
    for (File& file : files_) {
      if (!open(file)) continue;
      std::string why;
      auto handle = Kind::handle_of(file.functions, why);
      if (!handle) {  // the pool may hold free memory: return it, once
        trim();
        handle = Kind::handle_of(file.functions, why);
      }
      if (handle) {
        g.use = {&file.functions, handle};
        g.words = std::string(Kind::kName) + " " + Kind::version_of(file.functions, handle) + ", " +
                  file.path;
        return;
      }
      reason_ = file.path + " does not start (" + why + ")";
    }
    g.words = std::string("no ") + Kind::kName + " (" +
              (reason_.empty() ? "it was not found" : reason_) + "): " + Kind::kLoss;
    if (reported_ || !Kind::expected(!files_.empty())) return;
    reported_ = true;
    std::fprintf(stderr, "mtorch: %s\n", g.words.c_str());
  }

  std::vector<File> files_ = all_files();
  OfGpu gpus_[kMaxGpus];
  std::string reason_;  // of the last failed file
  bool reported_ = false;
};

/// The library that Kind describes; it is opened at the first use().
template <class Kind> GpuLibrary<Kind>& gpu_library() {
  static GpuLibrary<Kind> library;
  return library;
}

}  // namespace mt::cuda
