// verbs.h -- the verbs that only GPUs have
#pragma once
#include "kernels/gpu.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {

void map_numbers(const Map&, unsigned numbers);
void fill(const Copy&);

}  // namespace MT_ISA
}  // namespace mt
