// program.h -- the expression program: what a function of numbers computes, as instructions for a device
//
// Straight-line code in static single assignment: instruction i defines value i, from values before
// it. Opcodes are the ids of elementwise operations (kernels/ops.h) and those of Opcode. A program
// knows no dtype: its numbers have that of a run, float32 or float64 or an integer; its bools are
// bools. Programs are made by engine/compile/builder.h.
#pragma once
#include "kernels/base.h"

namespace mt {

/// What instructions do beside elementwise operations.
enum Opcode : int16_t {
  kInput = -1,     // an element of tensor `which`
  kNumber = -2,    // parameter `which` of the run
  kConstant = -3,  // `constant`
};

struct Instruction {
  int16_t op;     // the id of an elementwise operation, or an Opcode
  bool is_bool;   // the value is a bool, else a number
  int16_t in[3];  // the values that it reads; -1: none
  int16_t slot;   // the buffer of its value, while it is needed
  int32_t which;  // see Opcode; of an operation: where its parameters begin in Program::params
  int32_t line;   // of the Lua source; 0: unknown
  double constant;
};

constexpr int kMaxProgramInputs = 24, kMaxProgramOutputs = 16;
constexpr int kMaxProgramOperands = kMaxProgramInputs + kMaxProgramOutputs;
constexpr int kMaxProgramSlots = 96;

/// `output[k]` is the value of result k. Nothing in it changes once it has been made.
struct Program {
  const Instruction* code;
  int count, inputs, outputs, numbers, slots;
  const int16_t* output;
  const double* params;  // of operations with parameters, kMaxParams (kernels/ops.h) for each
  uint64_t hash;         // of all above: equal programs are one object
};

/// For every position of `size`: out[k] = result k of the program for the inputs' elements there.
/// Operands [0, outputs) are the results, then come the inputs; numbers have dtype `dtype`, except
/// results that are bool. An output may be exactly one of the inputs.
struct Run {
  const Program* program;
  Dtype dtype;
  int ndim;
  int64_t size[kMaxDims];
  const double* numbers;
  void* data[kMaxProgramOperands];
  bool is_bool[kMaxProgramOperands];
  int64_t stride[kMaxProgramOperands][kMaxDims];
};

}  // namespace mt
