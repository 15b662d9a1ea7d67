// tree.h -- reductions by a function of two numbers, on blocks of the CPU's memory
#pragma once
#include "kernels/program.h"

namespace mt {

/// Reduces the middle dimension of x [outer, n, inner], contiguous, by a function of two numbers: in
/// lines of tree_line() elements each pair of neighbours is combined, level by level, and an element
/// without a neighbour is passed to the next level unchanged. So the order depends only on n, however
/// often lines are reduced. `out` is [outer, tree_results(), inner]. With a `gradient`, whose results
/// are the derivatives by the two numbers, `out` is the gradient of x, and `grad` that of the results.
constexpr int64_t kTreeTile = 8192, kTreeLine = 128, kTreeLongRow = 256;
struct Tree {
  const Program *program, *gradient;
  const Program* four;  // f(f(a, b), f(c, d)), for inner >= kTreeLongRow; or null
  Dtype dtype;
  int64_t outer, n, inner;
  const double* numbers;
  /// The inputs of `gradient`: 0 is the incoming gradient, 1 and 2 are the two numbers.
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
/// Runs it on the CPU, in the instruction set of the CPU's verbs.
void run_tree_on_cpu(const Tree&);

}  // namespace mt
