// native.h -- the machine code of expression programs, made at first use and kept
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/program.h"

namespace mt {

class Code;

/// The code for a run of the program where the operands in `repeated` (bits) are one element; null
/// where there is none: the interpreter runs it. May be called by any thread.
const Code* native_code(const Program&, Dtype, uint64_t repeated);
/// The bytes of that code, or 0.
size_t native_bytes(const Program&, Dtype, uint64_t repeated);
/// Code::run for callers that are compiled for an instruction set: from there on no header of this
/// folder's generic code is seen.
int64_t run_native(const Code&, void* const* data, const double* numbers, int64_t from, int64_t to);

}  // namespace mt
