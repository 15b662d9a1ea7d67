// load.h -- side by side elements from memory at once
#pragma once
#include "kernels/cuda/cuda.h"

namespace mt::cuda {

/// A group from memory by one load. (Of a plain copy nvcc makes a load for each element.)
template <class G> __device__ G load_group(const void* from) {
  G g;
#ifdef __CUDACC__
  const auto as = [&](auto word) {
    static_assert(sizeof word == sizeof g);
    word = *static_cast<const decltype(word)*>(from);
    memcpy(&g, &word, sizeof g);
  };
  if constexpr (sizeof g == 16) as(uint4{});
  else if constexpr (sizeof g == 8) as(uint2{});
  else if constexpr (sizeof g == 4) as(uint32_t{});
  else as(uint16_t{});
#else
  memcpy(&g, from, sizeof g);
#endif
  return g;
}

}  // namespace mt::cuda
