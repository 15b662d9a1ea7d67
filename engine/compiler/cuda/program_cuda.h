// program_cuda.h -- expression programs on a GPU: translated to CUDA C, compiled and launched
#pragma once
#include <string>

#include "engine/gpu/launch.h"
#include "kernels/device.h"

namespace mt {

/// The program as a CUDA C kernel `mt_program` for operands of `ndim` dimensions, 0 if they are
/// contiguous. Empty if an operation has no device function (program_text.h).
std::string cuda_text(const Program&, Dtype, int ndim);
/// The kernel of a run: that of its program, elementwise or by rows.
std::string cuda_text(const Run&);

/// Queues a run on the GPU. Returns false if there is no kernel: then operations run one by one.
bool run_on_gpu(const Run&, const Device&);
/// call_verb, where a GPU also has the verb `run`, by run_on_gpu.
bool call_verb_or_program(const Device&, Verb, const void* argument);
/// Compiles the kernel of a run, whose memory may be missing. False: there is none.
bool prepare_on_gpu(const Run&, const Device&);

// ---- shared by the two kinds of kernels (program_rows_cuda.cpp) --------------------------------------

/// Code for the offsets of the operands at position `i`, `at0`, `at1`, ..: from the sizes and
/// strides of a `Run r` with `ndim` dimensions.
std::string offsets_text(int ndim, int operands);
/// The kernel of a text, compiled at first use and cached; null if there is no text, or no NVRTC.
const LoadedKernel* program_kernel(const std::string& text, const Device&);

/// The leading dimensions of a run and the strides of its operands, after merging dimensions.
struct RunDims {
  int64_t size[kMaxDims], strides[kMaxProgramOperands][kMaxDims], n;
  int ndim;
  RunDims(const Run&, int dims);
};
/// Append the arguments of a kernel: the operands and numbers, and the sizes and strides.
void append_operands(std::vector<uint64_t>& words, const Run&);
void append_dims(std::vector<uint64_t>& words, const Run&, const RunDims&);

/// The kernel of a run, and its arguments. A block processes some of n elements, or of n rows.
struct ProgramLaunch {
  int64_t n = 0;
  KernelArguments arguments;
  const LoadedKernel* kernel = nullptr;
  int per_block = 0, threads = 0;
  bool fits() const { return arguments.words.size() * 8 <= 4000; }  // CUDA's limit is 4096 bytes
};

/// The text, and the launch, of the kernel for a run of a program by rows; false if there is no kernel.
std::string rows_cuda_text(const Run&);
bool prepare_rows(const Run&, const Device&, ProgramLaunch&);

}  // namespace mt
