// onednn_conv.h -- the choice of convolutions that oneDNN computes, and of their pieces
#pragma once
#include "kernels/conv.h"

namespace mt::onednn {

/// The bytes of `scratch` that convolve() needs; 0 if own kernels shall be used. oneDNN takes
/// float32, and bfloat16 where that is faster, with enough channels and work: the answer depends only
/// on the shape, the dtype and whether there is a bias. Subnormal bfloat16 operands and results are 0.
int64_t convolution_scratch(const Conv&);
/// Returns false, with nothing done, if own kernels shall be used.
bool convolve(const Conv&);
/// The name of oneDNN's kernel, such as "jit:avx512_core"; "" if own kernels are used.
const char* convolution_kernel(const Conv&);

}  // namespace mt::onednn
