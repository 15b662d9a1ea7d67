// memory.h -- the memory of tensors: reference-counted storage, free lists, counts
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/device.h"

namespace mt {

/// An intrusive pointer to a T that has `std::atomic<int> refs` and `static void destroy(T*)`.
template <class T> class Ref {
 public:
  Ref() = default;
  /// Takes over one reference.
  static Ref adopt(T* p) {
    Ref r;
    r.p_ = p;
    return r;
  }
  static Ref share(T* p) {
    if (p) p->refs.fetch_add(1, std::memory_order_relaxed);
    return adopt(p);
  }
  Ref(const Ref& o) : p_(o.p_) {
    if (p_) p_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() { reset(); }
  void reset() {
    T* p = std::exchange(p_, nullptr);
    // The last owner needs no atomic subtraction: no other thread can be reading.
    if (p && (p->refs.load(std::memory_order_acquire) == 1 ||
              p->refs.fetch_sub(1, std::memory_order_acq_rel) == 1))
      T::destroy(p);
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  T* release() { return std::exchange(p_, nullptr); }
  bool unique() const { return p_ && p_->refs.load(std::memory_order_acquire) == 1; }

 private:
  T* p_ = nullptr;
};

/// A buffer on a device. `version` counts the changes in place, so that backward detects that a
/// saved tensor is stale.
struct Storage {
  std::atomic<int> refs{1};
  uint32_t version = 0;             // changes in place
  int uses = 0;                     // of the memory, by storages one after the other (memory.cpp)
  uint32_t readable_version = ~0u;  // in which x:data() has seen to its NaNs
  const struct Gpu* pinned = nullptr;  // whose driver allocated it as page-locked memory of the CPU
  const Device* device = nullptr;
  void* data = nullptr;
  size_t bytes = 0;
  static void destroy(Storage*);
};

/// Uninitialised memory, 64-byte aligned. Throws an Error with the sizes if there is none, and also
/// after an interrupt, so that no operation continues.
Ref<Storage> allocate(const Device& device, size_t bytes);
/// Frees memory: the bindings collect garbage, cached blocks are returned. Returns whether trying again makes sense.
bool make_room();
/// Page-locked memory of the CPU, from which copies to the GPU are asynchronous.
Ref<Storage> allocate_pinned(const Gpu& gpu, size_t bytes);

/// Fixed-size blocks for tensors and graph nodes.
void* pool_alloc(size_t bytes);
void pool_free(void* block, size_t bytes);

struct MemoryUse {
  int64_t live;         // bytes of all storages
  int64_t host, peak;   // bytes of the CPU's storages, now and at the peak
  int64_t cached;       // bytes in this thread's free list
  int64_t allocations;  // CPU storages that this thread has allocated
};
MemoryUse memory_use();
/// Limits the total bytes of all storages; an allocation that would exceed it is "out of memory".
void set_memory_limit(int64_t bytes);
/// The bytes that this thread has allocated since its start, with those of a GPU at 1/32: the
/// collector's measure of garbage.
int64_t bytes_allocated();

/// During its lifetime, blocks that this thread frees are kept, to be reused afterwards in the order of
/// being freed: the collector frees the newest results first, which are most likely in the cache.
class FreeBatch {
 public:
  FreeBatch();
  FreeBatch(const FreeBatch&) = delete;
  ~FreeBatch();

 private:
  const bool before_;
};

}  // namespace mt
