// grid.h -- a grid kernel as a device's interpreter runs it: typed instructions, and one launch of them
//
// A value has one of three types: whole numbers (int64), bools, and `real`, the kernel's float dtype. It
// lives in one of three files. A scalar is the same in all lanes of a tile. An affine whole number is
// base + step[0] * l0 + step[1] * l1 + step[2] * l2 for the lane (l0, l1, l2). A vector has an element
// for each lane. Control flow is structured: an instruction that has a body is followed by it.
#pragma once
#include "kernels/base.h"

namespace mt {

enum class GridType : uint8_t { none, boolean, integer, real };

/// What is calculated, and with how many operands.
// clang-format off
#define MT_GRID_OPS(V) \
  V(neg, 1) V(abs, 1) V(sqrt, 1) V(exp, 1) V(log, 1) V(log10, 1) V(sin, 1) V(cos, 1) V(tan, 1) V(asin, 1) \
  V(acos, 1) V(atan, 1) V(sinh, 1) V(cosh, 1) V(tanh, 1) V(floor, 1) V(ceil, 1) V(to_real, 1) V(copy, 1) \
  V(logical_not, 1) V(add, 2) V(sub, 2) V(mul, 2) V(div, 2) V(floor_div, 2) V(mod, 2) V(pow, 2) V(min, 2) \
  V(max, 2) V(atan2, 2) V(fmod, 2) V(lt, 2) V(le, 2) V(eq, 2) V(ne, 2) V(logical_and, 2) V(logical_or, 2) \
  V(mul_add, 3) V(select, 3)
// clang-format on
#define MT_GRID_NAME(name, arity) name,
enum class GridOp : uint8_t { MT_GRID_OPS(MT_GRID_NAME) count };
#undef MT_GRID_NAME
#define MT_GRID_ARITY(name, arity) arity,
constexpr int kGridArity[] = {MT_GRID_OPS(MT_GRID_ARITY)};
#undef MT_GRID_ARITY

union GridScalar {
  int64_t whole;
  double number;  // of float64 kernels
  float single;   // of float32 kernels
  bool truth;
};

/// The tensors of a launch, then the shared arrays of a block, whose `data` the device sets.
struct GridTensor {
  void* data;
  Dtype dtype;
  int ndim;
  int64_t size[kMaxDims], stride[kMaxDims];
};

enum class GridCode : uint8_t {
  scalar,       // dst = op(a, b, c), scalars
  affine,       // dst = op(a, b), affine; an operand below 0 is the scalar ~operand
  vector,       // dst = op(a, b, c), vectors; an operand below 0 is the scalar ~operand
  spread,       // vector dst = affine a
  compare,      // vector of bools dst = lt or le of affine a and b, as in `affine`
  load_scalar,  // dst = tensor[indices], all scalars
  load,         // vector dst = tensor[indices]
  store,        // tensor[indices] = a, as in `vector`
  atomic_add,   // the same, += in thread order; vector dst (or -1) is what was there
  branch,       // if a: the body up to `other`, else the rest up to `end`
  count,        // for scalar dst = a, b, c (a step), scalars
  count_lanes,  // for dst (affine where a is one, as in `affine`; `flag`: a vector) = a, b, c
  loop,         // the body again and again
  scope,        // the body once
  block,  // a basic block: what follows up to `end` has no control flow, and may run as machine code
  leave,     // of the loop or scope that begins at instruction a
  leave_if,  // .. where b
  barrier,
  warp,    // vector dst = GridWarp `flag` of a; b: the distance or mask
  print,   // a: first of `list`, b: how many
  assert_  // fault: a is false, a scalar or vector; `flag` is the GridFault's kind
};
enum class GridWarp : uint8_t { sum, max, min, shuffle_down, shuffle_xor };

struct GridInstruction {
  GridCode code;
  GridOp op;
  GridType
      type;  // of the operands; of `to_real` integer, of `floor` real, of `select` that of b and c
  uint8_t flag;
  bool masked;         // lanes that are not active keep what dst was
  bool adds_products;  // of `count`: the body does nothing else
  int line;
  int dst, a, b, c;
  int tensor, index, indices;  // the indices are `indices` entries of the list, from `index` on
  int other, end;              // of bodies
};

/// An entry of a program's list: an index, or a thing to print.
struct GridItem {
  enum Kind : uint8_t { scalar, affine, vector, text } kind;
  GridType type;
  int at;
};

/// What a program finds in its first scalars and affines: x, y, z of the block's position, the first
/// thread's place in the grid, and the thread's position in its block and in the grid; all from 1.
constexpr int kGridBlock = 0, kGridFirst = 3, kGridThread = 0, kGridPlace = 3;

struct GridProgram {
  const GridInstruction* code;
  int count;
  const GridItem* list;
  int items;
  const char* const* texts;
  Dtype real;  // f32 or f64
  int scalars, affines, vectors;
  const GridType* vector_type;
  int variables;        // vectors below it are the kernel's variables, others last for a statement
  int64_t number;       // of this program in the process, from 1
  int levels;           // of control flow, one in another
  int tensors, shared;  // tensors of a launch; shared arrays, which follow them
  int64_t shared_bytes;
  bool in_order;  // blocks run one after the other: what they do to the same elements depends on it
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
/// What went wrong first, in the order of blocks; positions count from 1.
struct GridFault {
  GridFaultKind kind;
  int line, tensor, dim;
  int64_t index, tile;
  int64_t thread[3];  // in the grid
  int64_t other[3];   // of a race: the thread that was there before
  bool writes, other_writes;
};

/// total = blocks x threads in x, y, z, cut into tiles that run in lockstep: blocks, where threads work
/// together, else any. Lanes of a tile are numbered along axes[0] first.
struct Grid {
  const GridProgram* program;
  const GridScalar* scalars;  // as many as the program has; the first are set by the device
  const GridTensor* tensors;
  int64_t total[3], tile[3];
  int axes[3];
  bool check;   // stop at the first fault, look for races
  bool spread;  // worth more than one thread
  GridFault* fault;
  MT_HD int64_t tiles(int axis) const { return (total[axis] + tile[axis] - 1) / tile[axis]; }
};
constexpr int kGridLanes = 1024;           // of a tile, at most
constexpr int64_t kGridShared = 48 << 10;  // bytes of shared memory

}  // namespace mt
