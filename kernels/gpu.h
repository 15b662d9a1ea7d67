// gpu.h -- the interface of a GPU besides the verbs: operands by value, asynchronous errors, memory,
// events, graphs
//
// Every device except the CPU is a `Gpu`, which the plug-in fills in. Work is queued and runs later, so errors
// are asynchronous: they are reported at the next synchronisation (Device::take_error, Gpu::take_bad_index).
#pragma once
#include "kernels/device.h"

namespace mt {

/// The version of the interface, which must be the same in the engine and the plug-in.
constexpr uint32_t kGpuAbi = kDeviceAbi << 8 | 8;
constexpr int kMaxGpus = 16;  // in one machine
constexpr int kGroupIdBytes = 128;

/// The use of memory in bytes; `allocations` and the fields after it count since the start.
struct GpuUse {
  int64_t allocated, peak;  // in tensors
  int64_t reserved;         // allocated by the driver, in use or cached for reuse
  int64_t free, total;      // of the GPU
  int64_t allocations, launches, copies, waits;
};

/// The properties of a GPU that the driver reports. Memory is in bytes.
struct GpuProperties {
  int major, minor;  // compute capability
  int multi_processor_count, warp_size, max_threads_per_block, max_threads_per_multi_processor,
      regs_per_multiprocessor;
  int64_t total_memory, shared_memory_per_block, l2_cache_size;
};

/// The first verb with an index out of bounds, by its number, and the smallest and the largest of
/// its invalid indices.
struct BadIndex {
  uint64_t check;  // 0: there was no bad index
  int64_t low, high;
};

/// The arguments of one replay of a graph: the random numbers that it draws start at this place of the generator's
/// stream.
struct Replay {
  uint64_t seed, offset;
};

/// The functions behind those of Gpu with the same names.
struct GpuVerbs {
  /// Like `map`; where bit k of `numbers` is set, data[k] is one element in the CPU's memory, which
  /// has been read when the call returns.
  void (*map_numbers)(const Map&, unsigned numbers);
  /// Copies one such element to all of `out`, of the same dtype.
  void (*fill)(const Copy&);
  /// Like `upload` from page-locked memory, which must not be changed before a synchronisation.
  void (*upload_later)(void* to, const void* from, size_t bytes);
};

/// An operation of a group of processes on packed elements in the GPU's memory. `count`: of one
/// process's part. Reductions are of u8, i8, i32, i64, f32, f64; the others move bytes.
struct Collective {
  enum class Kind {
    all_reduce,
    reduce_scatter,
    broadcast,
    all_gather,
    gather,
    scatter,
    all_to_all,
    send,
    recv
  };
  enum class Op { sum, max, min };
  Kind kind;
  const void* from;
  void* to;
  int64_t count;
  int root = 0;  // a position in the group; the other process of send and recv
  Dtype dtype = Dtype::u8;
  Op op = Op::sum;
};
enum class GroupState { ready, working, failed };

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

  bool synchronous;                 // MTORCH_CUDA_SYNC: the host waits for every verb
  const int64_t *started, *waited;  // kernels and copies: how many were queued, and waited for
  /// Why the GPU is not usable any more, or null; if it is lost, its verbs do nothing.
  const char* (*lost)();
  /// The number of the last verb that checked indices: gather, scatter or ravel_index. Unless `synchronous`, these
  /// return true, and for an index out of bounds they read position 0 or write nothing.
  uint64_t (*last_check)();
  /// The first bad index since the last call; call it after a synchronisation.
  BadIndex (*take_bad_index)();

  GpuProperties (*properties)();
  GpuUse (*use)();
  /// The library for large matrix products and its file, or why it is not used. `open`: loads it now.
  const char* (*gemm_library)(bool open);
  /// The library for convolutions, likewise (MTORCH_CUDNN).
  const char* (*conv_library)(bool open);
  void (*reset_peak)();
  void (*trim)();  // waits, and returns cached memory to the driver
  /// Allocates page-locked memory of the CPU; null if that fails. Freed blocks are cached for
  /// the next allocation of their size.
  void* (*pin)(size_t bytes);
  void (*unpin)(void*);

  /// Events in the stream; null if memory is exhausted.
  void* (*event)();
  void (*event_destroy)(void*);
  void (*event_record)(void*);
  void (*event_wait)(void*);
  bool (*event_done)(void*);
  /// The milliseconds between two events that are done; negative: not known.
  float (*event_ms)(void* first, void* second);

  /// Until end_capture, verbs are recorded and not run, memory is allocated from an arena, freed blocks are kept
  /// because the graph may use them, and waiting and `upload` are not allowed.
  bool (*begin_capture)();
  /// Ends the capture and returns the graph. Null if `keep` is false or there was an error.
  void* (*end_capture)(bool keep);
  /// Allocates n numbers that a replay reads; nothing else in the captured graph uses this memory,
  /// which lives as long as the graph. Without memory it returns null and records the error.
  double* (*graph_numbers)(int64_t n);
  /// Writes n numbers as kernel arguments: it never waits, and the source may be changed after the call.
  void (*write_numbers)(double* to, const double* from, int64_t n);
  void (*replay)(void* graph, const Replay&);
  /// The graph's arena is freed with the last tensor in it.
  void (*destroy_graph)(void* graph);

  /// The library for collectives of GPUs, likewise (MTORCH_NCCL); if it is used, its name is first.
  const char* (*collective_library)(bool open);
  /// The GPU's place in the machine; two processes of a group cannot have the same one.
  const char* (*pci_bus_id)();
  /// The id of a new group, of kGroupIdBytes bytes, for all its processes.
  bool (*group_id)(char* id);
  /// Joins the group as process `rank`. Once stop(seconds) returns true it does not wait any longer.
  void* (*group_join)(const char* id, int rank, int size, bool (*stop)(double seconds));
  /// Starts an operation after the GPU's earlier work; the group must be ready. Returns its number.
  uint64_t (*group_start)(void* group, const Collective&);
  /// `working` while joining or starting an operation waits for other processes.
  GroupState (*group_state)(void* group);
  /// Later work of the GPU waits for the operations of the group up to this number; until then their memory
  /// must not be freed or written.
  void (*group_finish)(void* group, uint64_t number);
  void (*group_abort)(void* group, const char* why);
  const char* (*group_error)(void* group);
};

}  // namespace mt
