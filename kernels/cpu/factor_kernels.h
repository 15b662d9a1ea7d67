// factor_kernels.h -- loops of factorizations that OpenBLAS does not have, or does not vectorise
#pragma once

namespace mt {

/// Columns of the lower triangle, below the diagonal: adds A x to y and A' v to dots. A has rows x columns elements,
/// column-major.
template <class T> struct SymmetricStrip {
  int rows, columns;
  const T* a;
  int ld;
  const T *x, *v;
  T *y, *dots;
};
/// T X = B, column-major, with at most kMaxUnknowns unknowns; X replaces B. The unknown k multiplies
/// a[k * column_step + r * row_step] in equation r.
template <class T> struct TriangularSystem {
  static constexpr int kMaxUnknowns = 64;
  int unknowns, columns;
  bool backward;  // the last unknown is computed first
  bool unit;      // the diagonal is 1 and not read
  const T* a;
  int row_step, column_step;
  T* b;
  int ld;
};
/// They run in the instruction set of the CPU's verbs.
void multiply_symmetric_strip_on_cpu(const SymmetricStrip<float>&);
void multiply_symmetric_strip_on_cpu(const SymmetricStrip<double>&);
void solve_triangle_on_cpu(const TriangularSystem<float>&);
void solve_triangle_on_cpu(const TriangularSystem<double>&);

}  // namespace mt
