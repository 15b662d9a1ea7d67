// wav.h -- WAV (RIFF): sound as a tensor [channels x frames]
#pragma once
#include <string>

#include "engine/core/tensor.h"

namespace mt {

struct Sound {
  Tensor samples;  // float32 [channels x frames], -1..1 for integer files
  int64_t rate;    // frames per second
};

/// A WAV file in memory: PCM with 8 (unsigned), 16, 24 and 32 bits, and floats with 32 and 64.
/// Throws Error for other and corrupt files.
Sound parse_wav(const void* data, size_t size);

/// A WAV file of samples [channels x frames]: uint8, int16, int32 unchanged, float32 as floats, or
/// with `bits` (8, 16, 24, 32) as integers, clamped to -1..1. Contiguous, on the CPU.
std::string write_wav(const Tensor& samples, int64_t rate, int bits);

}  // namespace mt
