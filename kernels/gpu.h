// gpu.h -- what a GPU can do beside the verbs: operands by value, errors that come late, memory,
// events, graphs
//
// Every device that is not the CPU is a `Gpu`; the plug-in fills it. Work is queued and done later:
// errors are asynchronous: reported at the next synchronisation (Device::take_error, Gpu::take_bad_index).
#pragma once
#include "kernels/device.h"

namespace mt {

/// What the engine and the plug-in must agree about.
constexpr uint32_t kGpuAbi = kDeviceAbi << 8 | 6;
constexpr int kMaxGpus = 16;  // of a machine

/// Bytes, except `allocations` and what follows, which count since the start.
struct GpuUse {
  int64_t allocated, peak;  // in tensors
  int64_t reserved;         // taken from the driver, in use or kept for reuse
  int64_t free, total;      // of the GPU
  int64_t allocations, launches, copies, waits;
};

/// What the driver says of a GPU. Memory in bytes.
struct GpuProperties {
  int major, minor;  // compute capability
  int multi_processor_count, warp_size, max_threads_per_block, max_threads_per_multi_processor,
      regs_per_multiprocessor;
  int64_t total_memory, shared_memory_per_block, l2_cache_size;
};

/// The first verb that met a position which is not there, by its number, and the smallest and the
/// largest of its wrong positions.
struct BadIndex {
  uint64_t check;  // 0: none
  int64_t low, high;
};

/// What a replay of a graph does not share with the run that was captured: the place in the stream
/// of random numbers, from where the captured offsets began.
struct Replay {
  uint64_t seed, offset;
};

/// The functions behind those of Gpu with the same names.
struct GpuVerbs {
  /// As `map`; data[k] is one element in the CPU's memory where bit k of `numbers` is set, and has
  /// been read when the call returns.
  void (*map_numbers)(const Map&, unsigned numbers);
  /// As `copy` of one such element, of the same dtype, to all of `out`.
  void (*fill)(const Copy&);
  /// As `upload` from page-locked memory, which must not be changed before somebody waits.
  void (*upload_later)(void* to, const void* from, size_t bytes);
};

struct Gpu : Device {
  GpuVerbs gpu_verbs;
  void map_numbers(const Map& m, unsigned numbers) const {
    if (!intercepted()) [[likely]]
      return gpu_verbs.map_numbers(m, numbers);
    const MapNumbers both{m, numbers};
    intercept(*this, Verb::map_numbers, &both);
  }
  void fill(const Copy& c) const {
    if (intercepted()) [[unlikely]]
      intercept(*this, Verb::fill, &c);
    else gpu_verbs.fill(c);
  }
  void upload_later(void* to, const void* from, size_t bytes) const {
    const Move m{to, from, bytes};
    if (intercepted()) [[unlikely]]
      intercept(*this, Verb::upload_later, &m);
    else gpu_verbs.upload_later(to, from, bytes);
  }

  bool synchronous;                 // MTORCH_CUDA_SYNC: every verb is waited for
  const int64_t *started, *waited;  // how many kernels and copies; those that somebody waited for
  /// Why the GPU cannot be used any more, or null: its verbs do nothing then.
  const char* (*lost)();
  /// The number of the last verb that checked indices. Unless `synchronous`, gather, scatter and
  /// ravel_index return true, and read 0 (scatter: skip) where an index is out of bounds.
  uint64_t (*last_check)();
  /// The first bad index since the last call; call it after a synchronisation.
  BadIndex (*take_bad_index)();

  GpuProperties (*properties)();
  GpuUse (*use)();
  /// What large products run on: the library and its file, or why there is none. `open`: looks now.
  const char* (*products)(bool open);
  /// The same of convolutions (MTORCH_CUDNN).
  const char* (*convolutions)(bool open);
  void (*reset_peak)();
  void (*trim)();  // waits, and gives what is kept for reuse back to the driver
  /// Page-locked memory of the CPU. Null when there is none. What is freed is kept
  /// for the next of its size.
  void* (*pin)(size_t bytes);
  void (*unpin)(void*);

  /// Marks in the order of work; null when there is no memory.
  void* (*event)();
  void (*event_drop)(void*);
  void (*event_record)(void*);
  void (*event_wait)(void*);
  bool (*event_done)(void*);
  float (*event_ms)(void* first, void* second);  // both done; negative: cannot be said

  /// From `capture` on verbs are not done but recorded; memory comes from an arena, what is freed
  /// stays until it is known whether the graph uses it. Until then waiting and `upload` are not allowed.
  bool (*capture)();
  /// Ends that. Null where nothing was to be kept, or something went wrong.
  void* (*captured)(bool keep);
  /// Memory for n numbers that a replay needs before it begins; nothing else of the graph that is
  /// captured uses it, and it stays as long as the graph. Null where there is none, which is noted.
  double* (*graph_numbers)(int64_t n);
  /// Writes n numbers, as arguments of kernels: it never waits, and the source may be changed at once.
  void (*write_numbers)(double* to, const double* from, int64_t n);
  void (*replay)(void* graph, const Replay&);
  /// Its arena goes when the last tensor in it does.
  void (*drop_graph)(void* graph);
};

}  // namespace mt
