// launch.h -- loads compiled CUDA C on a GPU, and queues its launches
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/core/device.h"
#include "engine/gpu/nvrtc.h"
#include "kernels/module.h"

namespace mt {

class Tensor;

/// The numbers of blocks and threads of a launch.
struct LaunchSize {
  int64_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  int64_t shared = 0;  // bytes in addition to the kernel's static shared memory
};
/// Throws if CUDA does not support such a grid or block, also for a launch on the CPU; `name` is that of the kernel.
void check_launch(const std::string& name, const LaunchSize&);

/// An argument as it was passed by the script.
struct KernelArgument {
  const Tensor* tensor = nullptr;  // null: not a tensor
  enum Kind { other, number, boolean } kind = other;
  double value = 0;
};
/// Describes argument i, from 0, for errors.
using DescribeArgument = std::function<std::string(int i)>;

/// Loads the compiled code; recompiles the source if the driver rejects cached code. Throws "`what`
/// cannot be loaded on cuda:0: ..".
LoadedKernel load_kernel(const CudaSource&, CudaCode, const Device&, const std::string& what);

/// Throws if a block has more threads than the kernel's register use allows.
void check_threads(const std::string& name, const LoadedKernel&, const LaunchSize&);

/// The arguments of a launch, packed into words of 8 bytes.
struct KernelArguments {
  std::vector<uint64_t> words;
  std::vector<size_t> ends;  // the end of each argument in `words`
  void end() { ends.push_back(words.size()); }
  uint64_t& first_word(size_t i) { return words[i ? ends[i - 1] : 0]; }
};
/// Queues a launch; `name` must live as long as the process.
void queue_kernel(const LoadedKernel&, const char* name, const LaunchSize&, KernelArguments&,
                  const Device&);
/// A copy of the name that lives so long: the plug-in keeps the names of destroyed kernels.
const char* lasting(const std::string& name);

}  // namespace mt
