// nvrtc.h -- compiles CUDA C with NVRTC, NVIDIA's compiler library, which is opened at first use
#pragma once
#include <string>
#include <vector>

#include "engine/gpu/disk_cache.h"

namespace mt {

/// The origin of a part of a text: the file name in messages, and the line in the file.
struct CudaOrigin {
  int first = 1;  // the first line of the part in the text, counted from 1
  std::string place;
  int line = 1;
};
/// A kernel as text.
struct CudaSource {
  std::string text;
  std::string defines;               // prepended to it: lines of #define
  std::string name;                  // the kernel in the text: "conv2d_k", "scale<float>"
  std::vector<CudaOrigin> origins;   // of its parts, in order
  std::vector<std::string> options;  // for NVRTC, without the architecture
};
/// The result of compiling a CudaSource.
struct CudaCode {
  std::string image;      // a cubin, or PTX for a GPU that is newer than NVRTC
  std::string symbol;     // the name of the kernel in it
  std::string signature;  // its parameters, as the compiler prints them: "(float*, int)"
  std::string log;        // the output of the compiler; empty if the code came from the cache
  bool cached = false;
  double milliseconds = 0;
};

/// Compiles for compute capability `arch`, 90 for 9.0. Throws an Error if NVRTC is missing, or with
/// the errors of the compiler and the lines of the file that has the text.
CudaCode compile_cuda(const CudaSource&, int arch, const DiskCache& = code_cache());
/// The reason why NVRTC cannot be used; empty if it can, which is known only after it was opened.
std::string nvrtc_unavailable_reason();

}  // namespace mt
