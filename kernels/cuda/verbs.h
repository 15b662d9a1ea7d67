// verbs.h -- the verbs that are only implemented on GPUs
#pragma once
#include "kernels/gpu.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {

void map_numbers(const Map&, unsigned numbers);
void fill(const Copy&);
#define MT_DECLARE(result, verb, Argument) result verb(const Argument&);
MT_GPU_VERBS(MT_DECLARE)
#undef MT_DECLARE

}  // namespace MT_ISA
}  // namespace mt
