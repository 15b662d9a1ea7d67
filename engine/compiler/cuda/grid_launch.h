// grid_launch.h -- grid kernels written in Lua on a GPU: compiles their CUDA C and launches it
#pragma once
#include "engine/compiler/kernel/grid_kernel.h"
#include "engine/gpu/nvrtc.h"

namespace mt {

/// Compiles the kernel if necessary, and queues it. A fault of its threads is raised after the next
/// synchronization.
void launch_grid_cuda(const GridCudaLaunch&, const Device&);
/// The kernel's CUDA C, compiled for compute capability `arch`.
CudaCode compile_grid(const grid::Kernel&, int arch);

}  // namespace mt
