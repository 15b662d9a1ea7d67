// normalize.h -- the normalize verb on CUDA for few, long rows (normalize_split.cu)
#pragma once
#include "kernels/device.h"

namespace mt {
inline namespace MT_ISA {

/// Normalizes with several blocks per row; false, with nothing done: rows are short or many.
bool normalize_split(const Normalize& c);

}  // namespace MT_ISA
}  // namespace mt
