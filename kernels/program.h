// program.h -- the expression program: what a function of numbers computes, as instructions for a device
//
// Straight-line code in static single assignment: instruction i defines value i, from values before
// it. Opcodes are the ids of elementwise operations (kernels/ops.h) and those of Opcode. A program
// knows no dtype: its numbers have that of a run, float32 or float64 or an integer; its bools are
// bools. Programs are made by engine/compiler/program/builder.h.
#pragma once
#include "kernels/base.h"

namespace mt {

/// What instructions do beside elementwise operations.
enum Opcode : int16_t {
  kInput = -1,     // an element of tensor `which`
  kNumber = -2,    // parameter `which` of the run
  kConstant = -3,  // `constant`
  kReduce =
      -4,  // reduction `which` (kernels/reductions.h) along the row, with the parameter `constant`
};

struct Instruction {
  int16_t op;     // the id of an elementwise operation, or an Opcode
  bool is_bool;   // the value is a bool, else a number
  bool is_row;    // one value for a whole row, in a program that reduces rows
  int16_t in[3];  // the values that it reads; -1: none
  int16_t slot;   // the buffer of its value, while it is needed
  int32_t which;  // see Opcode; of an operation: where its parameters begin in Program::params
  int32_t line;   // of the Lua source; 0: unknown
  double constant;
};

constexpr int kMaxProgramInputs = 24, kMaxProgramOutputs = 16;
constexpr int kMaxProgramOperands = kMaxProgramInputs + kMaxProgramOutputs;
constexpr int kMaxProgramSlots = 96;

struct Program;

/// The instructions [begin, end) of a program by rows, one after the other, as a program of its own:
/// its inputs and results are the values in `in` and `out` of the whole.
struct Segment {
  const Program* program;
  int begin, end;
  const int16_t *in, *out;
};

/// `output[k]` is the value of result k. Nothing in it changes once it has been made. `by_rows`: it
/// reduces rows, the lines along the last dimension of a run.
struct Program {
  const Instruction* code;
  int count, inputs, outputs, numbers, slots;
  bool by_rows;
  const int16_t* output;
  const double* params;    // of operations with parameters, kMaxParams (kernels/ops.h) for each
  uint64_t hash;           // of all above: equal programs are one object
  const Segment* segment;  // of a program by rows: its elementwise parts, in order
  int segments;
};

/// For every position of `size`: out[k] = result k of the program for the inputs' elements there.
/// Operands [0, outputs) are the results, then come the inputs; numbers have dtype `dtype`, except
/// results that are bool. An output may be exactly one of the inputs. A program by rows has them along
/// the last dimension, at most kLongestRow elements; operands of one element a row have stride 0 there.
constexpr int64_t kLongestRow = 16384, kTile = 2048;
struct Run {
  const Program* program;
  Dtype dtype;
  int ndim;
  int64_t size[kMaxDims];
  const double* numbers;
  void* data[kMaxProgramOperands];
  bool is_bool[kMaxProgramOperands];
  int64_t stride[kMaxProgramOperands][kMaxDims];
  char* scratch;  // of a program by rows: row_scratch() bytes for each thread, 64-byte aligned
};
/// Elements times instructions of a run from which it is worth compiling, and spreading over threads.
constexpr int64_t kNativeWork = 4096, kSpreadWork = 65536;
/// Elements of the rows that are calculated together.
MT_HD constexpr int64_t tile_elements(int64_t row) { return row > kTile ? row : kTile; }
MT_HD constexpr int64_t row_scratch(const Program& p, int64_t item, int64_t row) {
  return (p.slots + p.inputs + p.outputs + 3) * (tile_elements(row) * item + 64);
}

}  // namespace mt
