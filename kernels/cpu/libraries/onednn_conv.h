// onednn_conv.h -- which convolutions oneDNN computes, and in what pieces
#pragma once
#include "kernels/conv.h"

namespace mt::onednn {

/// Bytes of `scratch` that convolve() needs; 0 where own kernels are to be taken. float32 from some
/// channels and some work on: the shape alone decides.
int64_t convolution_scratch(const Conv&);
/// False, with nothing done, where own kernels are to be taken.
bool convolve(const Conv&);
/// oneDNN's kernel for this, as "jit:avx512_core"; "" where own kernels are taken.
const char* convolution_kernel(const Conv&);

}  // namespace mt::onednn
