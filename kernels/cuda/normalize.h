// normalize.h -- the normalize verb on CUDA for few, long rows (normalize_split.cu)
#pragma once
#include "kernels/device.h"

namespace mt {
inline namespace MT_ISA {

/// Normalizes with several blocks per row; does nothing and returns false for short or many rows.
bool normalize_split(const Normalize& c);

}  // namespace MT_ISA
}  // namespace mt
