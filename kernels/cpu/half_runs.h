// half_runs.h -- contiguous 16-bit floats to float32 and back
#pragma once
#include "kernels/base.h"
#include "kernels/cpu/parallel.h"

namespace mt {
inline namespace MT_ISA {

inline void widen_run(Dtype from, float* out, const void* in, int64_t n) {
  const uint16_t* const h = static_cast<const uint16_t*>(in);
  if (from == Dtype::f16) {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = float_of_f16(h[i]);
  } else {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = float_of_bf16(h[i]);
  }
}
inline void narrow_run(Dtype to, void* out, const float* in, int64_t n) {
  uint16_t* const h = static_cast<uint16_t*>(out);
  if (to == Dtype::f16) {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) h[i] = f16_of_float(in[i]);
  } else {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) h[i] = bf16_of_float(in[i]);
  }
}

}  // namespace MT_ISA
}  // namespace mt
