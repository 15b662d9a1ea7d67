// program_cuda.h -- expression programs on a GPU: CUDA C from the lane instructions, compiled and launched
#pragma once
#include <string>

#include "kernels/device.h"

namespace mt {

/// The program as a kernel `mt_program` of CUDA C for operands of `ndim` dimensions, 0 for contiguous
/// ones: with the formulas of the CPU, instruction by instruction, and for what these lack with the
/// CUDA library's functions. Empty where an operation has neither.
std::string cuda_text(const Program&, Dtype, int ndim);

/// Queues a run on the GPU. False where there is no such kernel: the operations run one by one.
bool run_on_gpu(const Run&, const Device&);

}  // namespace mt
