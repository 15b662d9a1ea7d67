// native.h -- the machine code of expression programs, compiled at first use and cached
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/program.h"

namespace mt {

class Code;

/// The code for a run of the program, where bit k of `repeated` is set if operand k is one element;
/// null if there is none, and the interpreter runs the program. Any thread may call it.
const Code* native_code(const Program&, Dtype, uint64_t repeated);
/// The size of that code in bytes, or 0.
size_t native_bytes(const Program&, Dtype, uint64_t repeated);
/// Code::run for callers that are compiled for an instruction set, so that they include no header
/// of this folder's generic code.
int64_t run_native(const Code&, void* const* data, const double* numbers, int64_t from, int64_t to);

}  // namespace mt
