// module.h -- what stands before the text of a script's kernel; precompiled, as it is the same for all
#pragma once
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <utility>
namespace emulation {
static Words words;
void* shared() { return words.shared(); }
void barrier() { words.barrier(); }
void exchange(unsigned m, const void* v, void* a, size_t n, int f) {
  words.exchange(m, v, a, n, f);
}
int lane() { return words.lane(); }
unsigned vote(unsigned m, bool p) { return words.vote(m, p); }
}  // namespace emulation
extern "C" void mt_words(const emulation::Words* w) { emulation::words = *w; }
#define threadIdx (*emulation::words.index[0])
#define blockIdx (*emulation::words.index[1])
#define blockDim (*emulation::words.index[2])
#define gridDim (*emulation::words.index[3])
using std::max, std::min;
struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
