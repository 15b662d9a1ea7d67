// nvrtc.h -- CUDA C to code for a GPU, by NVIDIA's compiler library, opened when it is first needed
#pragma once
#include <string>
#include <vector>

#include "engine/gpu/disk_cache.h"

namespace mt {

/// Where a part of a text stands: what messages call the file, and the line in it.
struct CudaOrigin {
  int first = 1;  // the text's line, counted from 1, with which the part begins
  std::string place;
  int line = 1;
};
/// A kernel as text.
struct CudaSource {
  std::string text;
  std::string defines;               // what stands before it: lines of #define
  std::string name;                  // which kernel of the text: "conv2d_k", "scale<float>"
  std::vector<CudaOrigin> origins;   // of its parts, in order
  std::vector<std::string> options;  // of NVRTC, but for the architecture
};
/// What becomes of it.
struct CudaCode {
  std::string image;   // a cubin, or PTX for a GPU that is newer than NVRTC
  std::string symbol;  // the kernel's name in it
  std::string
      signature;    // its parameters, as the compiler sees them: "(float*, float const*, int)"
  std::string log;  // what the compiler said; nothing when the code came from the cache
  bool cached = false;
  double milliseconds = 0;
};

/// Compiles for compute capability `arch`, 90 for 9.0. Throws Error: NVRTC is not there, or what the
/// compiler said, at the lines of the file that the text stands in.
CudaCode compile_cuda(const CudaSource&, int arch, const DiskCache& = code_cache());
/// Why NVRTC cannot be used; empty when it can, which is not known before it has been opened.
std::string nvrtc_unavailable_reason();

}  // namespace mt
