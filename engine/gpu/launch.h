// launch.h -- compiled CUDA C on a GPU: loading it, and queueing its launches
#pragma once
#include <string>
#include <vector>

#include "engine/core/device.h"
#include "engine/gpu/launch_size.h"
#include "engine/gpu/nvrtc.h"
#include "kernels/module.h"

namespace mt {

/// Loads what became of the source; compiles it once more where the driver refuses what the cache
/// had. Throws "`what` cannot be loaded on cuda:0: ..".
LoadedKernel load_kernel(const CudaSource&, CudaCode, const Device&, const std::string& what);

/// Throws where a block has more threads than the kernel's registers allow.
void check_threads(const std::string& name, const LoadedKernel&, const LaunchSize&);

/// The arguments of a launch, one after the other, in words of 8 bytes.
struct KernelArguments {
  std::vector<uint64_t> words;
  std::vector<size_t> ends;  // where in `words` each ends
  void end() { ends.push_back(words.size()); }
  uint64_t& first_word(size_t i) { return words[i ? ends[i - 1] : 0]; }
};
/// `name` lives as long as the program.
void queue_kernel(const LoadedKernel&, const char* name, const LaunchSize&, KernelArguments&,
                  const Device&);
/// A copy of the name that does: the plug-in remembers names of kernels beyond their lives.
const char* lasting(const std::string& name);

}  // namespace mt
