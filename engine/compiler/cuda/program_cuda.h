// program_cuda.h -- expression programs on a GPU: translated to CUDA C, compiled and launched
#pragma once
#include <string>

#include "engine/gpu/launch.h"
#include "kernels/device.h"

namespace mt {

/// The program as a CUDA C kernel `mt_program` for operands of `ndim` dimensions, 0 if they are
/// contiguous. Empty if an operation has no device function (OperationText, program_text.h).
std::string cuda_text(const Program&, Dtype, int ndim);
/// The kernel of a run: that of its program, elementwise or by rows.
std::string cuda_text(const Run&);

/// Queues a run on the GPU. Returns false if there is no kernel: then operations run one by one.
bool run_on_gpu(const Run&, const Device&);
/// call_verb, where a GPU also has the verb `run`, by run_on_gpu.
bool call_verb_or_program(const Device&, Verb, const void* argument);
/// Compiles the kernel of a run, whose pointers may be null. False if there is no kernel.
bool prepare_on_gpu(const Run&, const Device&);

}  // namespace mt
