// isa.h -- the interface of each instruction set's copy of the CPU kernels, for cpu.cpp
#pragma once
#include "kernels/device.h"

namespace mt {
namespace isa_base {
void fill_verbs(Verbs&);
}
namespace isa_avx2 {
void fill_verbs(Verbs&);
}
namespace isa_avx512 {
void fill_verbs(Verbs&);
}
}  // namespace mt
