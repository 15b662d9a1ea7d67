// program.h -- the expression program: an elementwise function of numbers as instructions for a device
//
// Straight-line code in static single assignment: instruction i defines value i from earlier
// values. Opcodes are the ids of elementwise operations (kernels/ops.h) and those of Opcode. A
// program has no dtype: its numbers have the dtype of the run, float32, float64 or an integer; its
// bools are bools. engine/compiler/program/builder.h builds programs.
#pragma once
#include "kernels/base.h"

namespace mt {

/// Instructions that are not elementwise operations.
enum Opcode : int16_t {
  kInput = -1,     // an element of tensor `which`
  kNumber = -2,    // parameter `which` of the run
  kConstant = -3,  // `constant`
  kReduce =
      -4,  // reduction `which` (kernels/reductions.h) along the row, with the parameter `constant`
};

struct Instruction {
  int16_t op;     // the id of an elementwise operation, or an Opcode
  bool is_bool;   // the value is a bool, otherwise a number
  bool is_row;    // one value for a whole row, in a program that reduces rows
  int16_t in[3];  // the values that it reads; -1: not used
  int16_t slot;   // the buffer of its value while it is live
  int32_t which;  // see Opcode; for an operation: index of its first parameter in Program::params
  int32_t line;   // of the Lua source; 0: unknown
  double constant;
};

constexpr int kMaxProgramInputs = 24, kMaxProgramOutputs = 16;
constexpr int kMaxProgramOperands = kMaxProgramInputs + kMaxProgramOutputs;
constexpr int kMaxProgramSlots = 96;

struct Program;

/// The instructions [begin, end) of a program by rows as a separate program: its inputs and results
/// are the values in `in` and `out` of the whole program.
struct Segment {
  const Program* program;
  int begin, end;
  const int16_t *in, *out;
};

/// `output[k]` is the value of result k. A program is immutable. `by_rows`: it reduces rows, the
/// lines along the last dimension of a run.
struct Program {
  const Instruction* code;
  int count, inputs, outputs, numbers, slots;
  bool by_rows;
  const int16_t* output;
  const double* params;    // of operations with parameters, kMaxParams (kernels/ops.h) for each
  uint64_t hash;           // of all the fields above: equal programs are one object
  const Segment* segment;  // of a program by rows: its elementwise parts, in order
  int segments;
};

/// For every position of `size`: out[k] = result k of the program for the elements of the inputs there.
/// Operands [0, outputs) are the results, the inputs follow; numbers have dtype `dtype`, except results
/// that are bool. An output may be exactly one of the inputs. A program by rows has its rows along the
/// last dimension, at most kLongestRow elements; operands with one element per row have stride 0 there.
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
/// The least number of elements times instructions for compiling a run, and for using several threads.
constexpr int64_t kNativeWork = 4096, kSpreadWork = 65536;
/// The number of elements of the rows that are computed together.
MT_HD constexpr int64_t tile_elements(int64_t row) { return row > kTile ? row : kTile; }
MT_HD constexpr int64_t row_scratch(const Program& p, int64_t item, int64_t row) {
  return (p.slots + p.inputs + p.outputs + 3) * (tile_elements(row) * item + 64);
}

}  // namespace mt
