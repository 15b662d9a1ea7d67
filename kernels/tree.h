// tree.h -- reductions by a function of two numbers, as blocks of the CPU's memory
#pragma once
#include "kernels/program.h"

namespace mt {

/// Reduces the middle dimension of x [outer, n, inner], contiguous, by a function of two numbers: in lines
/// of tree_line() elements neighbours become one, again and again, and one without a neighbour goes on to
/// the next level as it is. So the order depends on n alone, however often lines are reduced. `out` is
/// [outer, tree_results(), inner]. With a `gradient`, whose results are those by the two numbers, it is
/// the gradient of x, and `grad` that of the results.
constexpr int64_t kTreeTile = 8192, kTreeLine = 128, kTreeLongRow = 256;
struct Tree {
  const Program *program, *gradient;
  const Program* four;  // f(f(a, b), f(c, d)), for inner >= kTreeLongRow; or null
  Dtype dtype;
  int64_t outer, n, inner;
  const double* numbers;
  /// What inputs of `gradient` are: 0 the incoming gradient, 1 and 2 the two numbers.
  int8_t operand[3];
  const void *x, *grad;
  void* out;
};
MT_HD constexpr int64_t tree_line(int64_t n, int64_t inner) {
  return n * inner <= kTreeTile ? n : kTreeLine;
}
MT_HD constexpr int64_t tree_results(int64_t n, int64_t inner) {
  return (n + tree_line(n, inner) - 1) / tree_line(n, inner);
}
/// On the CPU, in the instruction set of its verbs.
extern void (*run_tree_on_cpu)(const Tree&);

}  // namespace mt
