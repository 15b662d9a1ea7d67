// grid_kernel.h -- a grid kernel written in Lua: built for the types of a launch, checked, launched
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "engine/compiler/kernel/grid_ir.h"
#include "engine/core/tensor.h"
#include "engine/gpu/launch.h"
#include "engine/gpu/nvrtc.h"

namespace mt {

/// A launch for a GPU.
struct GridCudaLaunch {
  const grid::Kernel& kernel;
  const LaunchSize& size;
  const std::vector<mt::Tensor>& tensors;  // shared arrays are undefined
  const std::vector<GridTensor>& views;    // of its tensors
  const std::vector<GridScalar>& scalars;  // its numbers
  std::shared_ptr<void>& compiled;         // cached with the kernel
  std::function<void(const GridFault&)> raise;
};

/// Compiles the kernel if necessary, and queues it. A fault of its threads is raised after the next
/// synchronization.
void launch_grid_cuda(const GridCudaLaunch&, const Device&);
/// The kernel's CUDA C, and that compiled for compute capability `arch`.
namespace grid {
std::string cuda_text(const Kernel&);
}
CudaCode compile_grid(const grid::Kernel&, int arch);

class GridKernel {
 public:
  /// `lua_numbers`: numbers are Lua's instead of integers and floats; `tangents`: the kernel writes derivatives.
  explicit GridKernel(bool check, bool lua_numbers = false,
                      std::vector<grid::Tangent> tangents = {});
  GridKernel(const GridKernel&) = delete;
  GridKernel& operator=(const GridKernel&) = delete;
  ~GridKernel();
  /// The kernel as it was built for the types of the last launch.
  const grid::Kernel& last() const;
  /// The reason why the last launch could not be built.
  const grid::GridMisfit& misfit() const { return misfit_; }
  /// Checks everything, then runs the kernel on the device of its tensors.
  void launch(grid::CaptureResolver&, const LaunchSize&, const std::vector<KernelArgument>&,
              const DescribeArgument&);
  /// How the last launch ran, in one line.
  std::string path() const;

 private:
  struct Variant;
  struct Run;
  std::shared_ptr<Variant> variant_for(grid::CaptureResolver&, const std::vector<KernelArgument>&,
                                       const DescribeArgument&);
  const bool check_, lua_numbers_;
  grid::GridMisfit misfit_;
  const std::vector<grid::Tangent> tangents_;
  std::vector<std::shared_ptr<Variant>> variants_;  // the most recently used first
};

}  // namespace mt
