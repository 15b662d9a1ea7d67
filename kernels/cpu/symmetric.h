// symmetric.h -- both products of a strip of a symmetric matrix, in one pass over its elements
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
/// Runs it in the instruction set of the CPU's verbs.
void symmetric_strip_on_cpu(const SymmetricStrip<float>&);
void symmetric_strip_on_cpu(const SymmetricStrip<double>&);

}  // namespace mt
