// program_cuda.h -- expression programs on a GPU: as kernels of CUDA C, compiled and launched
#pragma once
#include <string>

#include "engine/gpu/launch.h"
#include "kernels/device.h"

namespace mt {

/// The program as a kernel `mt_program` of CUDA C for operands of `ndim` dimensions, 0 for contiguous
/// ones. Empty where an operation has no function (program_text.h).
std::string cuda_text(const Program&, Dtype, int ndim);
/// The kernel of a run: the same, or that of its program by rows.
std::string cuda_text(const Run&);

/// Queues a run on the GPU. False where there is no such kernel: the operations run one by one.
bool run_on_gpu(const Run&, const Device&);
/// Compiles the kernel of an elementwise run, whose memory need not be there yet. False: there is none.
bool prepare_on_gpu(const Run&, const Device&);

// ---- what the two kinds of kernels share (program_rows_cuda.cpp) --------------------------------------

/// Where the operands' elements of position `i` lie, `at0`, `at1`, ..: from the sizes and strides of a
/// `Run r` of `ndim` dimensions.
std::string offsets_text(int ndim, int operands);
/// The kernel of a text, compiled at first use and kept; null: there is no text, or no NVRTC.
const LoadedKernel* program_kernel(const std::string& text, const Device&);

/// The first dimensions of a run, and how its operands lie in them, without what can be joined.
struct RunDims {
  int64_t size[kMaxDims], strides[kMaxProgramOperands][kMaxDims], n;
  int ndim;
  RunDims(const Run&, int dims);
};
/// What a kernel's arguments consist of: the operands and numbers, sizes and strides.
void append_operands(std::vector<uint64_t>& words, const Run&);
void append_dims(std::vector<uint64_t>& words, const Run&, const RunDims&);

/// A run of a program by rows, in its kernel's text and arguments.
std::string rows_cuda_text(const Run&);
bool run_rows_on_gpu(const Run&, const Device&);

}  // namespace mt
