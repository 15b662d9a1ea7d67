// isa.h -- the interface of each instruction set's copy of the CPU kernels, for cpu.cpp
#pragma once
#include "kernels/device.h"

namespace mt {
struct Tree;  // kernels/tree.h

namespace isa_base {
void fill_verbs(Verbs&);
void run_tree(const Tree&);
}  // namespace isa_base
namespace isa_avx2 {
void fill_verbs(Verbs&);
void run_tree(const Tree&);
}  // namespace isa_avx2
namespace isa_avx512 {
void fill_verbs(Verbs&);
void run_tree(const Tree&);
}  // namespace isa_avx512
namespace isa_neon {
void fill_verbs(Verbs&);
void run_tree(const Tree&);
}  // namespace isa_neon
}  // namespace mt
