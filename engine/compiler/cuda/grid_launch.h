// grid_launch.h -- grid kernels written in Lua on a GPU: their CUDA C, compiled and launched
#pragma once
#include "engine/compiler/kernel/grid_kernel.h"
#include "engine/gpu/nvrtc.h"

namespace mt {

namespace grid {
/// The text. Its kernel, cuda_name, takes the tensors of a launch as {data, sizes, strides}, its numbers, and
/// an address for the first fields of a GridFault as int64: kind, line, tensor, dim, index, thread.
std::string cuda_text(const Kernel&);
std::string cuda_name(const Kernel&);
constexpr int kCudaFault = 8;  // integers
}  // namespace grid

/// Compiles the kernel if necessary, and queues it. A fault of its threads is raised after the next
/// synchronization.
void launch_grid_cuda(const GridCudaLaunch&, const Device&);
/// The kernel's CUDA C, compiled for compute capability `arch`.
CudaCode compile_grid(const grid::Kernel&, int arch);

}  // namespace mt
