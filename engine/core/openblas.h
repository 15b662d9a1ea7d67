// openblas.h -- the sentence where an operation needs OpenBLAS and there is none
#pragma once
#include "engine/core/error.h"
#include "kernels/cpu/libraries/openblas.h"

namespace mt {

/// Throws Error where OpenBLAS cannot be opened.
inline void require_openblas(const char* name) {
  if (!openblas::open()) fail("{}: this needs OpenBLAS: {}", name, openblas::why());
}

/// Calls a verb of the CPU; throws Error where it left its result undone for want of OpenBLAS.
void with_openblas(const char* name, const auto& verb) {
  const int before = openblas::skipped_calls();
  verb();
  if (openblas::skipped_calls() != before) require_openblas(name);
}

}  // namespace mt
