// openblas.h -- the error if an operation needs OpenBLAS and it is not available
#pragma once
#include "engine/core/error.h"
#include "kernels/cpu/libraries/openblas.h"

namespace mt {

/// Throws an Error if OpenBLAS cannot be opened.
inline void require_openblas(const char* name) {
  if (!openblas::open()) fail("{}: this needs OpenBLAS: {}", name, openblas::why());
}

}  // namespace mt
