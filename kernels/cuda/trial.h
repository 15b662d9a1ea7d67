// trial.h -- ways of moving memory that are to be measured: MTORCH_TRIAL names some; goes when one is chosen
//
// t: each thread takes one turn where there are many; h: 128 threads a block; s: copies are stored
// past the caches; o: scatter, sort and products go the ways that they went before.
#pragma once
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/cuda.h"

namespace mt::cuda {

static const char* const trials = std::getenv("MTORCH_TRIAL");
inline bool tried(char way) { return trials && std::strchr(trials, way); }
template <class... P, class... A>
void launch_tried(const char* name, void (*kernel)(P...), int64_t n, const A&... a) {
  const int threads = tried('h') ? 128 : kThreads;
  const bool one_turn = tried('t') && n > int64_t(1) << 20;
  const unsigned all = unsigned((n + threads - 1) / threads);
  launch(name, kernel, one_turn ? all : blocks_for(n, threads), threads, a...);
}

}  // namespace mt::cuda
