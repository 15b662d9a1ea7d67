// grid.h -- a grid kernel in the form that a device's interpreter runs: typed instructions, and one launch
//
// A value has one of three types: integer (int64), bool, and `real`, the kernel's float dtype. It
// is stored in one of two register files. A number is the same in all lanes of a tile (a scalar), or
// an affine integer: base + step[0] * l0 + step[1] * l1 + step[2] * l2 for the lane (l0, l1, l2). A
// vector has an element for each lane. Control flow is structured: the body of an instruction follows
// it.
#pragma once
#include "kernels/table.h"

namespace mt {

enum class GridType : uint8_t { none, boolean, integer, real };

/// Operations are those of kernels/table.h, and this one: conversion to the type of the result.
constexpr int16_t kConvert = -1;

union GridScalar {
  int64_t whole;
  double number;  // of float64 kernels
  float single;   // of float32 kernels
  bool truth;
};

/// A tensor of a launch, or a shared array of a block, for which the device sets `data`.
struct GridTensor {
  void* data;
  Dtype dtype;
  bool shared;
  int ndim;
  int64_t size[kMaxDims], stride[kMaxDims];
};

enum class GridCode : uint8_t {
  scalar,       // dst = op(a, b, c), scalars
  affine,       // dst = op(a, b), numbers
  vector,       // dst = op(a, b, c), vectors; an operand below 0 is the scalar ~operand
  spread,       // vector dst = number a
  compare,      // vector of bools dst = lt or le of numbers a and b
  load_scalar,  // dst = tensor[indices], all scalars
  load,         // vector dst = tensor[indices]
  store,        // tensor[indices] = a, as in `vector`
  atomic_add,   // the same, += in thread order; vector dst (or -1) is the old value
  branch,       // if a: the body up to `other`, otherwise the body up to `end`
  count,        // for scalar dst = a, b, c (a step), scalars
  count_lanes,  // for dst (the number ~a at first, or with `flag` the vector a) = a, b, c
  loop,         // repeats the body
  scope,        // runs the body once
  block,        // a basic block: it has no control flow up to `end`, and may run as machine code
  leave,        // of the loop or scope that begins at instruction a
  leave_if,     // the same, where b is true
  barrier,
  warp,    // vector dst = GridWarp `flag` of a; b: the distance or mask
  print,   // a: index of the first entry in `list`, b: their number
  assert_  // fault if a is false, a scalar or vector; `flag` is the GridFault's kind
};
enum class GridWarp : uint8_t { sum, max, min, shuffle_down, shuffle_xor };

struct GridInstruction {
  GridCode code;
  GridType type, result;  // of the operands (of Where: b and c), and of dst
  int16_t op;
  uint8_t operands, flag;
  bool masked;  // lanes that are not active keep their old dst
  int line;
  int dst, a, b, c;
  int tensor, index, indices;  // the indices are `indices` entries of the list, from `index` on
  int other, end;              // ends of bodies
};

/// An entry of a program's list: an index, or a value to print.
struct GridItem {
  enum Kind : uint8_t { number, vector, text } kind;
  GridType type;
  int at;
};

/// A program's first numbers: x, y, z of the block's position, of the position of the first thread in
/// the grid, and of a thread's positions in its block and in the grid; all from 1.
constexpr int kGridBlock = 0, kGridFirst = 3, kGridThread = 6, kGridPlace = 9, kGridNumbers = 12;

struct GridProgram {
  const GridInstruction* code;
  int count;
  const GridItem* list;
  int items;
  const char* const* texts;
  Dtype real;  // f32 or f64
  int numbers, vectors;
  int number_variables, variables;  // numbers and vectors from these on live for a statement
  const GridType* vector_type;
  int64_t number;  // the number of this program in the process, from 1
  int levels;      // the depth of nested control flow
  int tensors;
  int64_t shared_bytes;
  bool in_order;  // blocks run one after the other, because the order of their updates matters
};

enum class GridFaultKind : int {
  none,
  out_of_bounds,
  division_by_zero,
  race,
  divergent_barrier,
  uninitialised,
  no_memory
};
/// The first fault in the order of blocks; positions count from 1.
struct GridFault {
  GridFaultKind kind;
  int line, tensor, dim;
  int64_t index, tile;
  int64_t thread[3];  // in the grid
  int64_t other[3];   // of a race: the thread of the earlier access
  bool writes, other_writes;
};

/// total = blocks x threads in x, y, z, divided into tiles that run in lockstep: a tile is a block where
/// threads cooperate, and any set of threads otherwise. Lanes of a tile count along axes[0] first.
struct Grid {
  const GridProgram* program;
  const GridScalar* scalars;  // for each number of the program; the device sets the first
  const GridTensor* tensors;
  int64_t total[3], tile[3];
  int axes[3];
  bool check;   // stop at the first fault, and detect races
  bool spread;  // large enough for more than one thread
  GridFault* fault;
  MT_HD int64_t tiles(int axis) const { return (total[axis] + tile[axis] - 1) / tile[axis]; }
};
constexpr int kGridLanes = 1024;           // the most lanes of a tile
constexpr int64_t kGridShared = 48 << 10;  // bytes of shared memory

}  // namespace mt
