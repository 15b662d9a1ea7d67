// memory.cpp -- the memory of tensors: reference-counted storage, free lists, and the count of live bytes
#include "engine/core/memory.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

#include "engine/core/device.h"
#include "engine/core/error.h"
#include "engine/core/step_listener.h"

namespace mt {

namespace {

std::atomic<int64_t> host_live{0}, host_peak{0}, gpu_live{0}, limit{int64_t(1) << 46};

int64_t live() {
  return host_live.load(std::memory_order_relaxed) + gpu_live.load(std::memory_order_relaxed);
}

// A host storage is one block: the header, then the data, on a cache line of its own. From kHuge
// bytes on the data is a separate block, so that a power of two fills whole huge pages.
constexpr size_t kHeader = 64, kHuge = size_t(2) << 20;
constexpr size_t kAround = 512;  // bytes of a tensor and of its node besides the storage
static_assert(sizeof(Storage) <= kHeader);

/// 15/16 of the memory, plus swap: the system overcommits and kills processes that use too much.
int64_t machine_memory() {
  struct sysinfo all;
  if (sysinfo(&all) != 0) return int64_t(1) << 46;
  return int64_t((double(all.totalram) * 15 / 16 + double(all.totalswap)) * all.mem_unit);
}

/// What a large block begins with while no storage uses it.
struct Unused {
  Unused* next;
  int uses;
};

/// A large block moves to huge pages when it is used for the 16th time: -x of 4 MiB is then a quarter faster, a step of
/// a U-Net 8 %, because small pages overflow the TLB. But the first access to a huge page can take a millisecond in a
/// virtual machine whose host takes back free ones: the first step of a ResNet-18 took 200 ms longer.
constexpr int kUsesBeforeHuge = 16;
void move_to_huge_pages(void* block, size_t bytes) {
  const size_t whole = bytes / kHuge * kHuge;
  if (madvise(block, whole, MADV_HUGEPAGE) == 0) madvise(block, whole, MADV_DONTNEED);
}

void* fresh(size_t bytes) {
  if (bytes < kHuge) return std::aligned_alloc(64, bytes);
  static const int64_t most = machine_memory();
  if (host_live.load(std::memory_order_relaxed) + int64_t(bytes) > most) return nullptr;
  void* block = nullptr;  // aligned_alloc would require whole pages
  if (posix_memalign(&block, kHuge, bytes)) return nullptr;
  static_cast<Unused*>(block)->uses = 0;
  return block;
}

// Size classes: steps of 64 bytes to 1 KiB, then four per power of two, so that at most a fifth is
// unused.
constexpr int kLinear = 16, kClasses = kLinear + 4 * 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kMaxCached = 0;  // so that the sanitizer detects every use after free
#else
constexpr int64_t kMaxCached = 48 << 20;
#endif

/// The block size of a class.
size_t bytes_of(int index) {
  if (index <= kLinear) return 64 * size_t(index);
  const int quarter = index - kLinear - 1;
  return size_t(5 + quarter % 4) << (8 + quarter / 4);
}
struct SizeClass {
  int index;
  size_t bytes;
};
SizeClass class_of(size_t bytes) {
  if (bytes <= 64 * kLinear) {
    const int lines = int((bytes + 63) / 64);
    return {lines, bytes_of(lines)};
  }
  const int power = std::bit_width(bytes - 1) - 1;  // 2^power < bytes <= 2^(power + 1)
  const size_t step = size_t(1) << (power - 2);
  const size_t quarter = (bytes - (size_t(1) << power) + step - 1) / step;  // 1..4
  const int index = kLinear + 4 * (power - 10) + int(quarter);
  return {index, bytes_of(index)};
}

}  // namespace

// A thread may keep at most this many blocks of a class more than it took: blocks from other threads,
// such as a loader's batches, would fill its lists, and their own threads would find none in theirs.
constexpr int64_t kForeign = 16;

/// Freed blocks of this thread, by size class. Blocks below kHuge and larger blocks have kMaxCached
/// each, so that freeing a large tensor does not return every small block to the system's allocator.
struct FreeList {
  using Link = Unused;
  struct Lists {
    Link* head[kClasses + 1] = {};
    Link *batch[kClasses + 1] = {}, *batch_end[kClasses + 1] = {};  // in the order of being freed
    int64_t taken[kClasses + 1] = {};  // `allocated` when a block was last taken
    int64_t out[kClasses + 1] = {};    // blocks that were taken here, minus those kept here
  };
  static const Lists none;
  // Not in thread-local memory, which is scarce for a library that is opened late (mtorch.so):
  // glibc has 1664 bytes for all such libraries together.
  Lists* lists = const_cast<Lists*>(&none);
  bool batching = false;
  int64_t cached[2] = {};  // bytes of blocks below kHuge, and of the others
  int64_t allocated = 0, count = 0;
  bool closed = false;  // the thread is ending

  void close() {
    closed = true;
    clear();
    if (lists != &none) delete std::exchange(lists, const_cast<Lists*>(&none));
  }
  void clear() {
    end_batch();
    for (Link*& list : lists->head)
      while (list) std::free(std::exchange(list, list->next));
    cached[0] = cached[1] = 0;
  }
  int64_t& kept(SizeClass c) { return cached[c.bytes >= kHuge]; }
  void* take(size_t bytes) {
    const SizeClass c = class_of(bytes);
    if (c.index <= kClasses && lists->head[c.index]) {
      kept(c) -= int64_t(c.bytes);
      lists->taken[c.index] = allocated;
      ++lists->out[c.index];
      Link* const block = lists->head[c.index];
      lists->head[c.index] = block->next;
      for (int line = 0; line < 5; ++line)  // prefetches the block for the next call
        __builtin_prefetch(reinterpret_cast<const char*>(block->next) + 64 * line, 1);
      return block;
    }
    if (c.index <= kClasses && lists != &none) ++lists->out[c.index];
    return fresh((c.bytes + 63) / 64 * 64);
  }
  /// Whether a freed block is kept when kMaxCached is reached. A large one is while the total does not exceed the
  /// earlier peak and a quarter, as in every step of a training loop: the system would zero it again, but may take it
  /// when it is short of memory. The quarter is for classes that have their own peaks at different times: without it, a
  /// step of a ResNet-18 had 9000 page faults and took 13 % longer. Others replace blocks of the sizes that were not
  /// requested for the longest time, as a program may change its sizes.
  [[gnu::noinline]] bool keeps_more(void* block, SizeClass c, int64_t more) {
    const bool is_large = c.bytes >= kHuge;
    if (kMaxCached == 0) return false;
    // A block is up to a quarter larger than its storage.
    const int64_t most = (host_peak - host_live) / 4 * 5 + host_peak / 4;
    if (is_large && more <= most && madvise(block, c.bytes / kHuge * kHuge, MADV_FREE) == 0)
      return true;
    const int large = class_of(kHuge).index, first = is_large ? large : 0,
              end = is_large ? kClasses + 1 : large;
    auto& [head, batch, batch_end, taken, out] = *lists;
    const int64_t room = is_large ? 0 : kMaxCached / 8;  // so that not every small block evicts one
    for (more += room; more > 0;) {
      int oldest = c.index;
      for (int i = first; i < end; ++i)
        if (head[i] && i != c.index && (oldest == c.index || taken[i] < taken[oldest])) oldest = i;
      if (oldest == c.index) return more <= room;
      for (Link*& list = head[oldest]; list && more > 0; more -= int64_t(bytes_of(oldest))) {
        std::free(std::exchange(list, list->next));
        kept(c) -= int64_t(bytes_of(oldest));
      }
    }
    return true;
  }
  [[gnu::noinline]] bool make_lists() {
    static thread_local struct Closer {
      FreeList& list;
      ~Closer() { list.close(); }
    } closer{*this};
    Lists* const made = new (std::nothrow) Lists;
    if (made) lists = made;
    return made;
  }
  bool keeps(void* block, SizeClass c) {
    const int64_t more = kept(c) + int64_t(c.bytes) - kMaxCached;
    return !closed && (lists != &none || make_lists()) && lists->out[c.index] > -kForeign &&
           (more <= 0 || keeps_more(block, c, more));
  }
  void give(void* block, size_t bytes) {
    const SizeClass c = class_of(bytes);
    if (c.index > kClasses || !keeps(block, c)) return std::free(block);
    Link* link = static_cast<Link*>(block);
    --lists->out[c.index];
    kept(c) += int64_t(c.bytes);
    if (batching) {
      link->next = nullptr;
      (lists->batch[c.index] ? lists->batch_end[c.index]->next : lists->batch[c.index]) = link;
      lists->batch_end[c.index] = link;
      return;
    }
    link->next = lists->head[c.index];
    lists->head[c.index] = link;
  }
  void end_batch() {
    auto& [head, batch, batch_end, taken, out] = *lists;
    for (int i = 0; i <= kClasses; ++i)
      if (batch[i]) batch_end[i]->next = head[i], head[i] = std::exchange(batch[i], nullptr);
  }
};

constinit const FreeList::Lists FreeList::none;

namespace {

// Without a destructor, which every access would have to check: see Closer.
constinit thread_local FreeList free_list;

bool fits(size_t bytes) {
  const int64_t most = limit.load(std::memory_order_relaxed);
  return bytes <= size_t(most) && live() + int64_t(bytes) <= most;
}

/// Whether the header precedes the data in one block.
bool in_one_block(const Device& device, size_t bytes) { return is_cpu(device) && bytes < kHuge; }

void* try_allocate(const Device& device, size_t bytes) {
  if (in_one_block(device, bytes)) return free_list.take(kHeader + bytes);
  return is_cpu(device) ? free_list.take(bytes) : device.alloc(bytes);
}

/// "1.50 GiB", "300 bytes".
std::string size_of(int64_t bytes) {
  if (bytes < 1 << 20) return fmt::format("{} bytes", bytes);
  const double mib = double(bytes) / double(1 << 20);
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

/// Freed before an error message is formatted, which needs memory too.
std::atomic<void*> spare{std::malloc(64 << 10)};

[[noreturn]] void out_of_memory(const Device& device, size_t bytes) {
  std::free(spare.exchange(nullptr));
  if (!is_cpu(device)) {
    check_alive(device);
    const GpuUse u = gpu_of(device).use();
    fail(
        "out of memory: {} requested on {}; {} live in tensors, {} reserved, {} free of {}; use "
        "smaller batches or drop references",
        size_of(int64_t(bytes)), device.name, size_of(u.allocated), size_of(u.reserved),
        size_of(u.free), size_of(u.total));
  }
  fail(
      "out of memory: {} requested on {}, {} live in tensors (at most {} so far); use smaller batches "
      "or drop references",
      size_of(int64_t(bytes)), device.name, size_of(host_live), size_of(host_peak));
}

}  // namespace

bool make_room() {
  free_list.clear();
  const bool collected = host.collect_garbage && host.collect_garbage();
  free_list.clear();  // the garbage may have become cached blocks
  if (!spare) spare = std::malloc(64 << 10);
  return collected;
}

static void give_back(const Device& device, void* data, size_t bytes, const Gpu* pinned) {
  if (pinned) pinned->unpin(data);
  else if (is_cpu(device)) free_list.give(data, bytes);
  else device.free(data, bytes);
}

static Ref<Storage> storage_of(const Device& device, void* block, size_t bytes, const Gpu* pinned) {
  const bool one = !pinned && in_one_block(device, bytes);
  void* header = one ? block : free_list.take(sizeof(Storage));
  if (!header) {
    give_back(device, block, bytes, pinned);
    out_of_memory(cpu_device(), sizeof(Storage));
  }
  Storage* s = new (header) Storage;
  s->device = &device;
  s->pinned = pinned;
  s->data = one ? static_cast<char*>(block) + kHeader : block;
  s->bytes = bytes;
  if (is_cpu(device) && !pinned && !one) {
    s->uses = static_cast<Unused*>(block)->uses + 1;
    if (s->uses == kUsesBeforeHuge) move_to_huge_pages(block, bytes);
  }
  // A GPU has more memory and no caches to keep warm: its bytes count less for the collector.
  free_list.allocated += int64_t((is_cpu(device) ? bytes : bytes / 32) + kAround);
  if (step_recorder) [[unlikely]]
    step_recorder->on_allocate(s);
  if (!is_cpu(device)) {
    gpu_live.fetch_add(int64_t(bytes), std::memory_order_relaxed);
    return Ref<Storage>::adopt(s);
  }
  ++free_list.count;
  const int64_t now =
      host_live.fetch_add(int64_t(bytes), std::memory_order_relaxed) + int64_t(bytes);
  if (now > host_peak.load(std::memory_order_relaxed))
    host_peak.store(now, std::memory_order_relaxed);
  return Ref<Storage>::adopt(s);
}

Ref<Storage> allocate(const Device& device, size_t bytes) {
  check_interrupt();
  void* block = fits(bytes) ? try_allocate(device, bytes) : nullptr;
  if (!block && bytes <= size_t(limit) && !capturing) {
    if (!is_cpu(device)) check_alive(device);
    const bool collected = make_room();
    if (!is_cpu(device)) gpu_of(device).trim();
    if ((collected || !is_cpu(device)) && fits(bytes)) block = try_allocate(device, bytes);
  }
  if (!block) out_of_memory(device, bytes);
  return storage_of(device, block, bytes, nullptr);
}

Ref<Storage> allocate_pinned(const Gpu& gpu, size_t bytes) {
  check_alive(gpu);
  void* block = fits(bytes) ? gpu.pin(bytes) : nullptr;
  if (!block) fail("out of memory: {} of page-locked memory requested", size_of(int64_t(bytes)));
  return storage_of(cpu_device(), block, bytes, &gpu);
}

void Storage::destroy(Storage* s) {
  if (step_recorder) [[unlikely]]
    step_recorder->on_free(s);
  (is_cpu(*s->device) ? host_live : gpu_live)
      .fetch_sub(int64_t(s->bytes), std::memory_order_relaxed);
  if (!s->pinned && in_one_block(*s->device, s->bytes))
    return free_list.give(s, kHeader + s->bytes);
  if (is_cpu(*s->device) && !s->pinned) static_cast<Unused*>(s->data)->uses = s->uses;
  give_back(*s->device, s->data, s->bytes, s->pinned);
  pool_free(s, sizeof(Storage));
}

void* pool_alloc(size_t bytes) {
  void* block = free_list.take(bytes);
  if (!block && make_room()) block = free_list.take(bytes);
  if (!block) out_of_memory(cpu_device(), bytes);
  return block;
}
void pool_free(void* block, size_t bytes) { free_list.give(block, bytes); }

MemoryUse memory_use() {
  return {live(), host_live.load(), host_peak.load(), free_list.cached[0] + free_list.cached[1],
          free_list.count};
}
void set_memory_limit(int64_t bytes) { limit = bytes; }
int64_t bytes_allocated() { return free_list.allocated; }

FreeBatch::FreeBatch() : before_(std::exchange(free_list.batching, true)) {}
FreeBatch::~FreeBatch() {
  free_list.batching = before_;
  free_list.end_batch();
}

}  // namespace mt
