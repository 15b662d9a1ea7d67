// program.h -- the common part of the interpreters of expression programs: steps, numbers, runs by rows
#pragma once
#include "kernels/cpu/simd/blocks.h"
#include "kernels/cpu/verbs/elementwise.h"
#include "kernels/program.h"

namespace mt {
inline namespace MT_ISA {

/// An instruction that is prepared for a run.
struct PreparedStep {
  ElementwiseLoop loop;  // null: an input, a number or a constant
  const double* params;
  int one;         // the index of the input that is a single number, or -1
  bool takes_one;  // the loop has a special case for an input of one element
};

inline bool is_single(const Instruction& c) { return c.op == kNumber || c.op == kConstant; }

inline void run_step(const Program& p, const PreparedStep* step, int i, char* const* value,
                     int64_t n) {
  const Instruction& c = p.code[i];
  char* const data[] = {value[i], value[c.in[0]], c.in[1] < 0 ? nullptr : value[c.in[1]],
                        c.in[2] < 0 ? nullptr : value[c.in[2]]};
  step[i].loop(data, n, step[i].params, step[i].one);
}

/// An operation reads a single number directly if its loop supports it; others read copies of it.
void prepare(const Run&, PreparedStep*);
/// Fills the buffers of numbers and constants for blocks of n elements.
void fill_singles(const Run&, char* const* value, int64_t n);
/// The results, as a bit mask, that may be written before all inputs of their block have been read:
/// those that are computed, differ from all other results, and share no memory with an input.
unsigned find_direct_outputs(const Run&);
/// Reduces `rows` contiguous rows of n <= kLongestRow elements each: the loop of a reduction, with
/// the bits of the reduce verb. `param` is the parameter of the reduction.
using RowReduction = void (*)(const char* x, int64_t n, int64_t rows, char* out,
                              const double* param);
RowReduction row_reduction(int reduction, Dtype);
/// Runs a program row by row.
void run_by_rows(const Run&);

}  // namespace MT_ISA
}  // namespace mt
