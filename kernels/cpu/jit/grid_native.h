// grid_native.h -- machine code for loops and basic blocks of grid kernels: what lanes do in registers
#pragma once
#include "kernels/grid.h"

namespace mt {

class Code;

/// A block, or a loop's turns, as machine code. Operands are what `operand` says; of a loop then how far
/// each moves on with a turn, and the number of turns (jit_x64.h).
struct GridNative {
  static constexpr int kOperands = 48;
  /// active: a bool for each lane, whether it goes on; counter: of a loop that counts.
  enum Kind : uint8_t { written, read, scalar, memory, active, counter };
  struct Operand {
    Kind kind;
    GridType type;
    int at;  // a vector that is written, one that is read, a scalar; an access: which of the body, from 0
  };
  bool in_place = false;       // a vector is both written and read
  const Code* code = nullptr;  // null: the interpreter runs it
  int operands = 0;
  Operand operand[kOperands];
};

/// Instructions of a body that can be machine code, at most.
constexpr int kGridNativeLength = 256;
/// Whether the body of the loop or block at instruction `at` has nothing but what grid_native takes.
bool grid_native_fits(const GridProgram&, int at);
/// The code of the block at instruction `at` of a program, or of the loop that counts whole numbers, whose
/// body has only arithmetic and accesses at places linear in the counter; bit j of `lanes`: that
/// access j, from 0, has an element for each lane, next to each other, else one for all. The whole
/// numbers of the body, in a block all scalars and what is made of positions alone, are left to the caller,
/// who runs the last turn too. Kept for the process.
/// Whole numbers are int64 lanes of float64 kernels, int32 lanes of float32 ones; the code of a block stops
/// before a vector where one does not fit.
/// Or of a loop that lanes leave one by one: their turns, with what does not change from turn to turn left
/// to the caller. The lanes of a vector where a whole number would not be exact or a division by zero are
/// not touched, and stay `active`.
const GridNative& grid_native(const GridProgram&, int at, uint64_t lanes);

}  // namespace mt
