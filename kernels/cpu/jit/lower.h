// lower.h -- lowers expression programs to lane programs, with the elementwise formulas
#pragma once
#include "kernels/cpu/jit/lanes.h"
#include "kernels/program.h"

namespace mt {

namespace ir {
/// Records an operation of kernels/table.h on lanes of T, or if its last input is a bool on `bools`, with
/// its parameters. Returns -1 if it is not supported; may add a guard.
template <class T>
int32_t record_operation(int op, bool bools, const int32_t* in, const double* params);
}  // namespace ir

/// The lane program that computes the same as the expression program, with the bits of the loops
/// for AVX2 and AVX-512; its operands are those of Run. `dtype`, that of the non-bool operands, is
/// float32 or float64. Returns false if an operation is not supported. If one is supported only for a
/// range of its inputs, the lane program has a guard.
bool lower(const Program&, Dtype dtype, ir::LaneProgram&);

}  // namespace mt
