// openblas.h -- the error if an operation needs OpenBLAS and it is not available
#pragma once
#include "engine/core/error.h"
#include "kernels/cpu/libraries/openblas.h"

namespace mt {

/// Throws an Error if OpenBLAS cannot be opened.
inline void require_openblas(const char* name) {
  if (!openblas::open()) fail("{}: this needs OpenBLAS: {}", name, openblas::why());
}

/// Calls a verb of the CPU; throws an Error if it skipped its work because OpenBLAS is missing.
void with_openblas(const char* name, const auto& verb) {
  const int before = openblas::skipped_calls();
  verb();
  if (openblas::skipped_calls() != before) require_openblas(name);
}

}  // namespace mt
