// grid_threads.h -- machine code that runs the threads of a grid kernel one after the other
//
// Lanes in lockstep (kernels/cpu/interpret/grid.cpp) are slow where loops store, where their iterations
// differ between threads, and where there are few threads. This code is scalar, with branches and loops.
#pragma once
#include <vector>

#include "kernels/grid.h"

namespace mt {

/// What the code reads and writes. Positions count from 1.
struct ThreadFrame {
  static constexpr int kSlots = 160, kLaneSlots = 48;
  static constexpr int kLaneBytes = 128;  // 16 integers
  const GridTensor* tensors;
  const GridScalar* scalars;
  const void* interrupted;  // an int
  int64_t block[3], thread[3],
      place[3];  // along axes[0], `place` is set at the end, and `thread` unused
  int64_t before[3],
      end[3];          // the places before the first thread of a tile, and after the last one
  char* own;           // kept variables of the threads of a block, an array for each
  int64_t fault;       // the number of the value at fault (grid_value), or -1
  int64_t dim, index;  // of an access out of bounds
  char* data[4];       // arguments of a loop
  GridScalar slots[kSlots];
  alignas(64) char lanes[kLaneSlots][kLaneBytes];  // vectors
};
/// What the code may rely on for a dimension of a tensor. Bit k: number k of the launch is not larger than its size;
/// the last bit: the size is at least 256.
constexpr int kSizeFacts = 7;
inline uint8_t size_facts(const Grid& g, int tensor, int d) {
  const int64_t size = g.tensors[tensor].size[d];
  const int numbers = g.program->numbers - kGridNumbers;
  unsigned facts = unsigned(size > 255) << kSizeFacts;
  for (int k = 0; k < kSizeFacts && k < numbers; ++k)
    facts |= unsigned(g.scalars[kGridNumbers + k].whole <= size) << k;
  return uint8_t(facts);
}
/// The loop over elements that the code calls for an operation without instructions; null: there is none.
using ThreadLoop = void (*)(char* const* data, int64_t n, const double*, int one);
using FindLoop = ThreadLoop(int op, Dtype);

struct ThreadCode {
  void (*run)(ThreadFrame*) = nullptr;  // null: there is no code, or lanes are faster
  bool calls_often = false;             // loops, for operations in its own loops
  bool by_block = false;  // it runs a block, with barriers; otherwise a row of threads
  bool clears = false;    // the kept variables must be 0
  bool by_place = false;  // threads do not read their positions in blocks
  bool by_lanes = false;  // neighbouring threads are lanes of vectors in some statements
  int64_t kept = 0;       // bytes of the variables that keep their values at barriers
};
/// Position-independent code, of which the facts are stored; empty for kernels that cannot be compiled: those with
/// divergent barriers or prints.
std::vector<uint8_t> emit_threads(const Grid&, FindLoop*, ThreadCode&);

/// The code for launches with these tensors and axes, cached for the lifetime of the process.
const ThreadCode& thread_code(const Grid&, FindLoop*);
/// A value of the program by its number.
const GridValue* grid_value(const GridProgram&, int64_t number);

}  // namespace mt
