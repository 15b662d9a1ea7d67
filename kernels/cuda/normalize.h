// normalize.h -- the normalize verb on CUDA for few, long rows (normalize_split.cu)
#pragma once
#include "kernels/device.h"

namespace mt {
inline namespace MT_ISA {

/// Normalises by several blocks for each row; false: does nothing, for rows are short or many.
bool normalize_split(const Normalize& c);

}  // namespace MT_ISA
}  // namespace mt
