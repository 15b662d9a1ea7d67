// emulation.cpp -- runs a CUDA launch on the CPU: fibers, barriers, shuffles
#include <cuda_runtime.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <vector>

namespace emulation {
namespace {

constexpr size_t kStack = 128 << 10;

struct Warp {
  alignas(16) unsigned char slot[32][16];
  unsigned here = 0;  // lanes that have come to the meeting
  unsigned votes = 0;
  uint64_t meetings = 0;
};

struct Fiber {
  ucontext_t first;
  jmp_buf at;
  bool started = false, done = false;
  dim3 index;
  int number = 0;
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  int alive = 0, arrived = 0;
  uint64_t barriers = 0, progress = 0;
  Fiber* current = nullptr;
  ucontext_t home;
  jmp_buf scheduler;
  const std::function<void()>* kernel = nullptr;
};
Block* block = nullptr;
std::vector<unsigned char> shared_bytes;
std::vector<void*> stacks;

[[noreturn]] void stop(const char* sentence) {
  std::fprintf(stderr, "emulated launch: %s (block %u %u %u of %u %u %u threads)\n", sentence,
               blockIdx.x, blockIdx.y, blockIdx.z, blockDim.x, blockDim.y, blockDim.z);
  std::abort();
}

/// Lets the other threads of the block run.
void yield() {
  Fiber* me = block->current;
  if (_setjmp(me->at) == 0) _longjmp(block->scheduler, 1);
  threadIdx = me->index;
}

void enter() {
  (*block->kernel)();
  block->current->done = true;
  --block->alive;
  ++block->progress;
  // Who leaves counts no longer at a barrier that others wait at.
  if (block->alive > 0 && block->arrived == block->alive) {
    block->arrived = 0;
    ++block->barriers;
  }
  _longjmp(block->scheduler, 1);
}

void run(Fiber& f) {
  block->current = &f;
  threadIdx = f.index;
  if (_setjmp(block->scheduler) == 0) {
    if (f.started) _longjmp(f.at, 1);
    f.started = true;
    setcontext(&f.first);
  }
}

void prepare(Fiber& f, int i, dim3 size) {
  while (int(stacks.size()) <= i) {
    void* memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) stop("there is no memory for the stacks of its threads");
    stacks.push_back(memory);
  }
  f.number = i;
  f.index = dim3(unsigned(i) % size.x, unsigned(i) / size.x % size.y, unsigned(i) / size.x / size.y);
  getcontext(&f.first);
  f.first.uc_stack.ss_sp = stacks[size_t(i)];
  f.first.uc_stack.ss_size = kStack;
  f.first.uc_link = nullptr;
  makecontext(&f.first, enter, 0);
}

void run_block(dim3 size, const std::function<void()>& kernel) {
  const int n = int(size.x * size.y * size.z);
  Block b;
  b.fibers.resize(size_t(n));
  b.warps.resize(size_t(n + 31) / 32);
  b.alive = n;
  b.kernel = &kernel;
  block = &b;
  for (int i = 0; i < n; ++i) prepare(b.fibers[size_t(i)], i, size);
  while (b.alive > 0) {
    const uint64_t before = b.progress;
    for (Fiber& f : b.fibers)
      if (!f.done) run(f);
    if (b.alive > 0 && b.progress == before) stop("threads wait for others that never come");
  }
  block = nullptr;
}

/// Waits until all lanes of the mask have come; `arrive` is called once, before.
template <class Arrive> void meet(unsigned mask, const Arrive& arrive) {
  if (!block) stop("it shuffles, but was started as a kernel whose threads do not talk");
  Warp& w = block->warps[size_t(block->current->number / 32)];
  const unsigned me = 1u << lane();
  if (!(mask & me)) stop("a lane that is not in the mask shuffles");
  arrive(w, me);
  w.here |= me;
  ++block->progress;
  const uint64_t meeting = w.meetings;
  if ((w.here & mask) == mask) {
    w.here &= ~mask;
    ++w.meetings;
  }
  while (w.meetings == meeting) yield();
}

}  // namespace

void launch(bool together, dim3 grid, dim3 size, size_t shared_size,
            const std::function<void()>& kernel) {
  if (size.x * size.y * size.z == 0 || size.x * size.y * size.z > 1024)
    stop("a block has 1 to 1024 threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535)
    stop("a grid has 1 to 65535 blocks in y and z");
  if (shared_size > 48 << 10) stop("a block has 48 KiB of shared memory");
  blockDim = size, gridDim = grid;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = dim3(x, y, z);
        shared_bytes.assign(shared_size + 16, 0xcd);
        if (together) {
          run_block(size, kernel);
          continue;
        }
        for (unsigned k = 0; k < size.z; ++k)
          for (unsigned j = 0; j < size.y; ++j)
            for (unsigned i = 0; i < size.x; ++i) {
              threadIdx = dim3(i, j, k);
              kernel();
            }
      }
}

void* shared() {
  const auto at = reinterpret_cast<uintptr_t>(shared_bytes.data());
  return reinterpret_cast<void*>((at + 15) / 16 * 16);
}

int lane() { return block ? block->current->number % 32 : 0; }

void barrier() {
  if (!block) stop("it has a barrier, but was started as a kernel whose threads do not talk");
  const uint64_t mine = block->barriers;
  ++block->progress;
  if (++block->arrived == block->alive) {
    block->arrived = 0;
    ++block->barriers;
  }
  while (block->barriers == mine) yield();
}

void exchange(unsigned mask, const void* value, void* answer, size_t bytes, int from) {
  meet(mask, [&](Warp& w, unsigned) { std::memcpy(w.slot[lane()], value, bytes); });
  if (mask >> from & 1)
    std::memcpy(answer, block->warps[size_t(block->current->number / 32)].slot[from], bytes);
  meet(mask, [](Warp&, unsigned) {});  // nobody gives anew before all have read
}

unsigned vote(unsigned mask, bool predicate) {
  meet(mask, [&](Warp& w, unsigned me) { w.votes = (w.votes & ~me) | (predicate ? me : 0); });
  const unsigned votes = block->warps[size_t(block->current->number / 32)].votes & mask;
  meet(mask, [](Warp&, unsigned) {});
  return votes;
}

}  // namespace emulation
