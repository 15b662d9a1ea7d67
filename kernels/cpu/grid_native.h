// grid_native.h -- machine code for loops of grid kernels: all turns of the lanes in registers
#pragma once
#include "kernels/grid.h"

namespace mt {

class Code;

/// A loop's turns as machine code. Operands are, in this order: what `operand` says, how far each moves
/// on with a turn, the number of turns (jit_x64.h).
struct GridLoopCode {
  static constexpr int kOperands = 24;
  enum Kind : uint8_t { carried, fixed, scalar, memory };
  struct Operand {
    Kind kind;
    int at;  // a vector that is written, one that is read, a scalar, a load: the place in the body, from 0
  };
  const Code* code = nullptr;  // null: the interpreter runs it
  int operands = 0;
  Operand operand[kOperands];
};

/// Instructions of a loop that can be machine code, at most.
constexpr int kGridLoopLength = 48;
/// Whether the body of the loop at instruction `at` has nothing but what grid_loop_code takes.
bool grid_loop_fits(const GridProgram&, int at);
/// The code of the loop at instruction `at` of a program that counts whole numbers, whose body has only
/// arithmetic and loads at places linear in the counter; bit j of `lanes`: the load at instruction
/// at + 1 + j has an element for each lane, next to each other, else one for all. The whole numbers of
/// the body are left to the caller, who runs the last turn too. Kept for the process.
const GridLoopCode& grid_loop_code(const GridProgram&, int at, uint64_t lanes);

}  // namespace mt
