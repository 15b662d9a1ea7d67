// lower.h -- lowers expression programs to lane programs, with the elementwise formulas
#pragma once
#include "kernels/cpu/jit/lanes.h"
#include "kernels/program.h"

namespace mt {

/// The lane program that computes the same as the expression program, with the bits of the loops
/// for AVX2 and AVX-512; its operands are those of Run. `dtype`, that of the non-bool operands, is
/// a float; 16-bit floats are computed in float32. Returns false if an operation is not supported.
/// If one is supported only for a range of its inputs, the lane program has a guard.
bool lower(const Program&, Dtype dtype, ir::LaneProgram&);

}  // namespace mt
