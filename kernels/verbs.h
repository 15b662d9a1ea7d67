// verbs.h -- the verbs that each backend defines: an instruction set of the CPU, CUDA
#pragma once
#include "kernels/device.h"

namespace mt {
inline namespace MT_ISA {

#define MT_DECLARE(result, verb, Argument) result verb(const Argument&);
MT_VERBS(MT_DECLARE)
MT_CPU_VERBS(MT_DECLARE)
#undef MT_DECLARE

}  // namespace MT_ISA
}  // namespace mt
