// isa.h -- the interface of each instruction set's copy of the CPU kernels, for cpu.cpp
#pragma once
#include "kernels/cpu/factor_kernels.h"
#include "kernels/device.h"

namespace mt {
struct Tree;  // kernels/tree.h

#define MT_KERNELS_OF(isa)                                      \
  namespace isa {                                               \
  void fill_verbs(Verbs&);                                      \
  void run_tree(const Tree&);                                   \
  void multiply_symmetric_strip(const SymmetricStrip<float>&);  \
  void multiply_symmetric_strip(const SymmetricStrip<double>&); \
  void solve_triangle(const TriangularSystem<float>&);          \
  void solve_triangle(const TriangularSystem<double>&);         \
  }
MT_KERNELS_OF(isa_base)
MT_KERNELS_OF(isa_avx2)
MT_KERNELS_OF(isa_avx512)
MT_KERNELS_OF(isa_neon)
#undef MT_KERNELS_OF

}  // namespace mt
