// grid_cuda.h -- translates a typed grid kernel to CUDA C, with the lines of its Lua source
#pragma once
#include <string>

#include "engine/compiler/kernel/grid_ir.h"

namespace mt::grid {

/// The text. Its kernel, cuda_name, takes the tensors of a launch as {data, sizes, strides}, its numbers, and
/// an address for the first fields of a GridFault as int64: kind, line, tensor, dim, index, thread.
std::string cuda_text(const Kernel&);
std::string cuda_name(const Kernel&);
constexpr int kCudaFault = 8;  // integers

}  // namespace mt::grid
