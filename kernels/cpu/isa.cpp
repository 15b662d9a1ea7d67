// isa.cpp -- fills the table of verbs of one instruction set
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {

void fill_verbs(Verbs& verbs) {
#define MT_FILL(result, verb, Argument) verbs.verb = mt::verb;
  MT_VERBS(MT_FILL)
#ifdef MT_WITH_COMPILER
  MT_CPU_VERBS(MT_FILL)
#else
  verbs.weighted_gather = mt::weighted_gather;
  verbs.fft = mt::fft;
#endif
#undef MT_FILL
}

}  // namespace MT_ISA
}  // namespace mt
