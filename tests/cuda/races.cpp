// races.cpp -- finds threads of a block that meet in shared memory with nothing between to order them
//
// The kernels are compiled with -fsanitize=thread, but the functions that it calls at every access
// are these, not the sanitizer's. With MTORCH_EMULATION=races the last accesses of every byte of
// shared memory are remembered: two threads, one of which writes, must have a barrier between them,
// or be of one warp and have __syncwarp between. Shared memory is what a launch gives, and the
// variables that the kernels declare __shared__: static ones of this library.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

// Of this library, by the linker.
extern "C" __attribute__((visibility("hidden"))) unsigned char __bss_start, _end;

namespace emulation {
namespace {

const bool kOn = asked("races");

/// When a thread touched a byte: `phase` counts barriers, `turn` the warp's __syncwarp.
struct Access {
  uint32_t phase = 0, turn = 0;
  int thread = -1;
};
struct Byte {
  Access write, read, other_read;  // the last two threads that read
};
uint32_t phase = 1, turns[32];
std::vector<Byte> of_launch, of_library;

bool in_order(const Access& earlier, int thread) {
  if (earlier.phase != phase || earlier.thread == thread) return true;
  const int warp = thread / 32;
  return earlier.thread / 32 == warp && earlier.turn != turns[warp];
}

[[noreturn]] void tell(const Access& earlier, bool wrote, int thread, bool writes, size_t offset) {
  char sentence[200];
  std::snprintf(
      sentence, sizeof sentence,
      "a race in shared memory: thread %d %s byte %zu that thread %d %s, and no barrier is "
      "between",
      thread, writes ? "writes" : "reads", offset, earlier.thread,
      wrote ? "has written" : "has read");
  stop_launch(sentence);
}

void note(Byte& b, int thread, bool write, size_t offset) {
  if (!in_order(b.write, thread)) tell(b.write, true, thread, write, offset);
  const Access now{phase, turns[thread / 32], thread};
  if (write) {
    if (!in_order(b.read, thread)) tell(b.read, false, thread, true, offset);
    if (!in_order(b.other_read, thread)) tell(b.other_read, false, thread, true, offset);
    b.write = now;
    return;
  }
  if (b.read.thread != thread) b.other_read = b.read;
  b.read = now;
}

}  // namespace

void touch_shared(const void* at, size_t bytes, bool write) {
  const auto* const p = static_cast<const unsigned char*>(at);
  const bool launch = p >= shared_begin() && p < shared_end();
  if (!launch && !(p >= &__bss_start && p < &_end)) return;
  const int thread = toucher().thread;
  if (thread < 0) return;  // a kernel whose threads do not talk, or the host
  const unsigned char* const base =
      launch ? static_cast<const unsigned char*>(shared_begin()) : &__bss_start;
  std::vector<Byte>& all = launch ? of_launch : of_library;
  const size_t first = size_t(p - base);
  if (all.size() < first + bytes) all.resize(first + bytes);
  for (size_t i = 0; i < bytes; ++i) note(all[first + i], thread, write, first);
}
void all_in_order() { ++phase; }
void warp_in_order(int warp) { ++turns[warp]; }

}  // namespace emulation

extern "C" {
#define MT_TOUCH(bytes)                                                   \
  void __tsan_read##bytes(void* p) {                                      \
    if (emulation::kOn) emulation::touch_shared(p, bytes, false);         \
  }                                                                       \
  void __tsan_write##bytes(void* p) {                                     \
    if (emulation::kOn) emulation::touch_shared(p, bytes, true);          \
  }                                                                       \
  void __tsan_unaligned_read##bytes(void* p) { __tsan_read##bytes(p); }   \
  void __tsan_unaligned_write##bytes(void* p) { __tsan_write##bytes(p); } \
  void __tsan_volatile_read##bytes(void* p) { __tsan_read##bytes(p); }    \
  void __tsan_volatile_write##bytes(void* p) { __tsan_write##bytes(p); }
MT_TOUCH(1)
MT_TOUCH(2)
MT_TOUCH(4)
MT_TOUCH(8)
MT_TOUCH(16)
void __tsan_read_range(void* p, size_t n) {
  if (emulation::kOn) emulation::touch_shared(p, n, false);
}
void __tsan_write_range(void* p, size_t n) {
  if (emulation::kOn) emulation::touch_shared(p, n, true);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
}
