// grid_native.h -- machine code for loops of grid kernels, with lanes in registers
#pragma once
#include "kernels/grid.h"

namespace mt {

class Code;

/// The iterations of a loop as machine code. The operands are those in `operand`, then the step of each operand per
/// iteration, and the number of iterations (jit_x64.h).
struct GridNative {
  static constexpr int kOperands = 48;
  /// active: a bool per lane, whether it continues; counter: of a loop that counts.
  enum Kind : uint8_t { written, read, scalar, memory, active, counter };
  struct Operand {
    Kind kind;
    GridType type;
    int at;  // the register of a vector or scalar; for an access its index in the body
  };
  bool complete = true;        // it sets everything that is read after the loop
  const Code* code = nullptr;  // null: the interpreter runs it
  int operands = 0;
  Operand operand[kOperands];
};

/// The maximum number of operations of a body that is compiled.
constexpr int kGridNativeLength = 256;
/// The code of a loop over integers whose body has only arithmetic and accesses at positions linear in the counter;
/// bit j of `lanes`: access j, in the order in which they are computed, has one element per lane, contiguously,
/// otherwise one element for all lanes. Integers are left to the caller, who also runs the last iteration unless the
/// code is `complete`. The code is cached for the lifetime of the process. Integers are int64 lanes in float64 kernels
/// and int32 lanes in float32 kernels.
/// Also for a loop that lanes leave one by one: it runs their iterations, and loop invariants are
/// left to the caller. The lanes of a vector in which an integer would not be exact or a division
/// by zero occurs are not modified, and stay `active`.
const GridNative& grid_native(const GridProgram&, const GridStatement&, uint64_t lanes);

}  // namespace mt
