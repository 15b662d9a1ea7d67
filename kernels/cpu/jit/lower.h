// lower.h -- expression programs as lane programs, by the formulas of the elementwise operations
#pragma once
#include "kernels/cpu/jit/lanes.h"
#include "kernels/program.h"

namespace mt {

/// The lane program that computes what the expression program does, with the bits of the loops for
/// AVX2 and AVX-512; its operands are those of Run. `dtype`, of the operands that are no bools, is a
/// float; 16-bit floats are calculated in float32. False: it has an operation that is not written in
/// lane instructions. Where one is written for a range of its inputs only, the lane program has a guard.
bool lower(const Program&, Dtype dtype, ir::LaneProgram&);

}  // namespace mt
