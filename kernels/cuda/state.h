// state.h -- the state of the plug-in for each GPU, shared by plugin.cu, memory.cu and graph.cu
#pragma once
#include <vector>

#include "kernels/cuda/cuda.h"

namespace mt::cuda {

constexpr int kRing = 64;  // the number of kernel names that are kept

/// Steps of 512 bytes up to 8 KiB, then four per power of two.
struct SizeClass {
  int index;
  size_t bytes;
};
SizeClass class_of(size_t bytes);
constexpr size_t kSmallBlock = size_t(1) << 20, kMaxKept = size_t(64) << 20;
constexpr int kSmallClasses = 64;  // at least those up to kSmallBlock

struct Graph;
struct Pinned;

struct State {
  bool open = false;
  cudaStream_t stream = nullptr;
  cudaMemPool_t pool = nullptr;
  bool has_pools = true;        // else memory comes from cudaMalloc, which synchronizes
  bool reads_pageable = false;  // the GPU reads host memory itself, after the call
  bool has_mma = false;         // its tensor cores support kernels/cuda/mma.h
  int processors = 1;
  char name[16], model[256];

  const char* ring[kRing] = {};
  int64_t launches = 0, waited = 0;  // kernels launched, and how many of them are synchronized
  int64_t allocations = 0, copies = 0, waits = 0;
  int64_t allocated = 0, peak = 0;

  char error[1024], lost[1024];
  bool has_error = false;      // `error` has not been taken
  bool out_of_memory = false;  // an allocation failed: nothing is launched until the error is taken
  bool device_lost = false;

  BadIndex* found = nullptr;  // in the GPU's memory
  BadIndex* seen = nullptr;   // page-locked: the part of it that has been read
  BadIndex wrong{};           // not reported yet
  uint64_t checks = 0;
  bool unsettled = false;  // bounds checks were launched whose result has not been read

  // Freed blocks of up to kSmallBlock bytes, which are reused for the next request of their size
  // class without a driver call. The order of the stream makes that safe.
  std::vector<void*> kept[kSmallClasses];
  size_t kept_bytes = 0;
  Pinned* pinned = nullptr;    // all page-locked memory, used and idle
  Graph* graphs = nullptr;     // all graphs that hold memory
  Graph* recording = nullptr;  // the one being captured
};

/// The state of the calling thread's current GPU.
State& state();
bool synchronous();
void wait();

// memory.cu
void* allocate(size_t bytes);
void release(void* data, size_t bytes);
void trim();
GpuUse use();
void reset_peak();
void* pin(size_t bytes);
void unpin(void*);

// graph.cu
void* event();
void event_destroy(void*);
void event_record(void*);
void event_wait(void*);
bool event_done(void*);
float event_ms(void* first, void* second);
bool begin_capture();
void* end_capture(bool keep);
double* graph_numbers(int64_t n);
void write_numbers(double* to, const double* from, int64_t n);
void replay(void* graph, const Replay&);
void destroy_graph(void* graph);
/// Memory from the arena of the graph that is being captured, or null. `fresh`: no kernel of the
/// graph has written to it before.
void* arena_take(size_t bytes, bool fresh = false);
/// Whether the memory belongs to a graph: it is in its arena, or its kernels use it.
bool graph_gives(void* data, size_t bytes, bool pinned);
/// The size of all arenas in bytes.
int64_t arena_bytes();

}  // namespace mt::cuda
