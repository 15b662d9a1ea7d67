// grid_launch.h -- grid kernels written in Lua on a GPU: compiled from their CUDA C, launched
#pragma once
#include "engine/compiler/kernel/grid_kernel.h"
#include "engine/gpu/nvrtc.h"

namespace mt {

/// Compiles the kernel where that was not done, and queues it. What its threads report is raised once somebody
/// has waited.
void launch_grid_cuda(const GridCudaLaunch&, const Device&);
/// The kernel's CUDA C, compiled for compute capability `arch`.
CudaCode compile_grid(const grid::Kernel&, int arch);

}  // namespace mt
