// memory.cu -- the GPU's memory in stream order, page-locked memory, and memory statistics
#include <new>

#include "kernels/cuda/state.h"

namespace mt::cuda {
namespace {

void trim_pinned();
/// Returns null if memory is exhausted; other errors are recorded.
void* try_allocate(size_t bytes) {
  State& g = state();
  void* data = nullptr;
  if (g.recording) return arena_take(bytes);
  if (bytes <= kSmallBlock) {
    const SizeClass c = class_of(bytes);  // also for 0 bytes: the driver has no such blocks
    bytes = c.bytes;
    if (std::vector<void*>& kept = g.kept[c.index]; !kept.empty()) {
      data = kept.back();
      kept.pop_back();
      g.kept_bytes -= bytes;
      return data;
    }
  }
  const cudaError_t e =
      g.has_pools ? cudaMallocAsync(&data, bytes, g.stream) : cudaMalloc(&data, bytes);
  if (e == cudaSuccess) return data;
  cudaGetLastError();
  // An excessive size is reported as an invalid value.
  if (e != cudaErrorMemoryAllocation && e != cudaErrorInvalidValue) check(e, "allocating memory");
  return nullptr;
}
void give_to_pool(void* data) {
  State& g = state();
  check(g.has_pools ? cudaFreeAsync(data, g.stream) : cudaFree(data), "freeing memory");
}

}  // namespace

void* allocate(size_t bytes) {
  void* const data = try_allocate(bytes);
  if (!data) return nullptr;
  State& g = state();
  ++g.allocations;
  g.allocated += int64_t(bytes);
  if (g.allocated > g.peak) g.peak = g.allocated;
  return data;
}
void release(void* data, size_t bytes) {
  state().allocated -= int64_t(bytes);
  give(data, bytes);
}

void* take(size_t bytes) {
  State& g = state();
  if (g.device_lost) return nullptr;
  void* data = try_allocate(bytes);
  if (!data && !g.device_lost) {
    trim();
    data = try_allocate(bytes);
  }
  if (!data && !g.device_lost) {
    check(cudaErrorMemoryAllocation, "memory for intermediate results");
    g.out_of_memory = true;
  }
  return data;
}
void give(void* data, size_t bytes) {
  State& g = state();
  if (g.graphs && graph_gives(data, bytes, false)) return;
  const SizeClass c = class_of(bytes);
  if (bytes <= kSmallBlock && g.kept_bytes + c.bytes <= kMaxKept) {
    g.kept[c.index].push_back(data);
    g.kept_bytes += c.bytes;
  } else {
    give_to_pool(data);
  }
}

void trim() {
  State& g = state();
  if (g.recording) return;
  for (std::vector<void*>& kept : g.kept) {
    for (void* const data : kept) give_to_pool(data);
    kept.clear();
  }
  g.kept_bytes = 0;
  wait();
  trim_pinned();
  if (g.has_pools) check(cudaMemPoolTrimTo(g.pool, 0), "returning memory to the driver");
}

GpuUse use() {
  State& g = state();
  GpuUse u{};
  u.allocated = g.allocated, u.peak = g.peak, u.allocations = g.allocations;
  u.launches = g.launches - g.copies, u.copies = g.copies, u.waits = g.waits;
  uint64_t reserved = 0;
  size_t free = 0, total = 0;
  if (!g.has_pools) reserved = uint64_t(g.allocated);
  else
    check(cudaMemPoolGetAttribute(g.pool, cudaMemPoolAttrReservedMemCurrent, &reserved), "memory");
  check(cudaMemGetInfo(&free, &total), "reading the free memory");
  u.reserved = int64_t(reserved) + arena_bytes();
  u.free = int64_t(free), u.total = int64_t(total);
  return u;
}
void reset_peak() { state().peak = state().allocated; }

// ---- page-locked memory ---------------------------------------------------------------------------
// Allocating it takes the driver milliseconds and waits for the GPU: a freed block is cached for
// the next request of its size class, which may use it once the copies from it are done.

struct Pinned {
  Pinned* next;
  void* data;
  int size_class;
  bool idle;
  cudaEvent_t freed;
};

namespace {

bool give_to_driver(Pinned* p) {
  check(cudaEventDestroy(p->freed), "freeing page-locked memory");
  return check(cudaFreeHost(p->data), "freeing page-locked memory");
}
/// Frees the idle blocks; call it after wait().
void trim_pinned() {
  for (Pinned** at = &state().pinned; *at;) {
    Pinned* const p = *at;
    if (!p->idle) {
      at = &p->next;
      continue;
    }
    *at = p->next;
    give_to_driver(p);
    delete p;
  }
}
void* pin_new(size_t bytes) {
  void* data = nullptr;
  const cudaError_t e = cudaHostAlloc(&data, bytes, cudaHostAllocDefault);
  if (e == cudaSuccess) return data;
  cudaGetLastError();
  if (e != cudaErrorMemoryAllocation && e != cudaErrorInvalidValue) check(e, "page-locked memory");
  return nullptr;
}

}  // namespace

void* pin(size_t bytes) {
  State& g = state();
  const SizeClass c = class_of(bytes);
  for (Pinned* p = g.pinned; p && !g.recording; p = p->next) {
    if (!p->idle || p->size_class != c.index) continue;
    const cudaError_t e = cudaEventQuery(p->freed);
    if (e == cudaSuccess) {
      p->idle = false;
      return p->data;
    }
    cudaGetLastError();
    if (e != cudaErrorNotReady) check(e, "page-locked memory");
  }
  Pinned* const p = new (std::nothrow) Pinned{};
  if (!p) return nullptr;
  p->freed = static_cast<cudaEvent_t>(event());
  p->data = p->freed ? pin_new(c.bytes) : nullptr;
  if (p->freed && !p->data && !g.recording) {
    wait();
    trim_pinned();
    p->data = pin_new(c.bytes);
  }
  if (!p->data) {
    if (p->freed) event_destroy(p->freed);
    delete p;
    return nullptr;
  }
  p->size_class = c.index, p->next = g.pinned;
  g.pinned = p;
  return p->data;
}

void unpin(void* data) {
  State& g = state();
  if (g.graphs && graph_gives(data, 0, true)) return;
  for (Pinned* p = g.pinned; p; p = p->next) {
    if (p->data != data) continue;
    p->idle = true;
    event_record(p->freed);  // a copy from it may be pending
    return;
  }
}

}  // namespace mt::cuda
