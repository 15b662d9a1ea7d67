// isa.cpp -- the verbs of one instruction set, gathered in its table
#include "kernels/tree.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {

void run_tree(const Tree&);

void fill_verbs(Verbs& verbs) {
  run_tree_on_cpu = run_tree;
#define MT_FILL(result, verb, Argument) verbs.verb = mt::verb;
  MT_VERBS(MT_FILL)
  MT_CPU_VERBS(MT_FILL)
#undef MT_FILL
}

}  // namespace MT_ISA
}  // namespace mt
