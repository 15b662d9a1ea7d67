// emulation.cpp -- runs a CUDA launch on the CPU: fibers, barriers, shuffles, memory of its own
//
// A GPU runs threads and blocks in any order, and the host cannot touch its memory. To see a kernel
// that only works in one order, or a host that looks anyway, MTORCH_EMULATION names what to do:
// reverse or shuffle (the order of blocks, and of threads between two barriers), guard (memory can be
// touched by launches and copies only; slow), races (see races.cpp). New memory is filled with 0xcd
// in any case.
#include <cuda_runtime.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

namespace emulation {

bool asked(const char* word) {
  const char* const all = std::getenv("MTORCH_EMULATION");
  return all && std::string_view(all).find(word) != std::string_view::npos;
}

namespace {

constexpr size_t kStack = 128 << 10;

/// 0 .. n - 1 in the order in which things run.
class Order {
 public:
  const std::vector<int>& of(int n) {
    if (int(order_.size()) != n) {
      order_.resize(size_t(n));
      std::iota(order_.begin(), order_.end(), 0);
      if (reverse_) std::reverse(order_.begin(), order_.end());
    }
    for (int i = n - 1; shuffle_ && i > 0; --i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      std::swap(order_[size_t(i)], order_[size_t(state_ >> 33) % size_t(i + 1)]);
    }
    return order_;
  }

 private:
  const bool reverse_ = asked("reverse"), shuffle_ = asked("shuffle");
  uint64_t state_ = 1;
  std::vector<int> order_;
};

// ---- memory -------------------------------------------------------------------------------------

/// The memory of the GPUs: pieces of one region, which is closed while neither a launch nor a copy
/// is under way if it is guarded.
class Memory {
 public:
  void* take(size_t bytes) {
    bytes = std::max<size_t>((bytes + 255) / 256 * 256, 256);
    if (!base_ && !reserve()) return nullptr;
    auto at = std::find_if(free_.begin(), free_.end(), [&](auto& f) { return f.second >= bytes; });
    size_t offset = used_;
    if (at != free_.end()) {
      offset = at->first;
      const size_t rest = at->second - bytes;
      free_.erase(at);
      if (rest > 0) free_[offset + bytes] = rest;
    } else if (bytes > kReserved - used_) {
      return nullptr;
    } else {
      used_ += bytes;
    }
    taken_[offset] = bytes;
    const Open open(*this);
    std::memset(base_ + offset, 0xcd, std::min(bytes, size_t(1) << 20));
    return base_ + offset;
  }
  void give(void* p) {
    if (!p) return;
    const size_t offset = size_t(static_cast<unsigned char*>(p) - base_);
    const auto at = taken_.find(offset);
    if (at == taken_.end()) {
      std::fprintf(stderr, "emulated GPU: what is freed was not allocated, or is freed twice\n");
      std::abort();
    }
    // A page that is not there costs nothing to protect.
    if (guarded_ && at->second >= 4 * kPage)
      madvise(base_ + (offset + kPage - 1) / kPage * kPage, (at->second - kPage) / kPage * kPage,
              MADV_DONTNEED);
    auto here = free_.emplace(offset, at->second).first;
    taken_.erase(at);
    if (const auto next = std::next(here);
        next != free_.end() && offset + here->second == next->first) {
      here->second += next->second;
      free_.erase(next);
    }
    if (here == free_.begin()) return;
    const auto before = std::prev(here);
    if (before->first + before->second != offset) return;
    before->second += here->second;
    free_.erase(here);
  }
  bool holds(const void* p) const {
    const auto* const at = static_cast<const unsigned char*>(p);
    return base_ && at >= base_ && at < base_ + kReserved;
  }

  /// While one lives, the memory can be touched.
  struct Open {
    explicit Open(Memory& m) : memory(m) {
      if (memory.open_++ == 0) memory.protect(PROT_READ | PROT_WRITE);
    }
    Open(const Open&) = delete;
    ~Open() {
      if (--memory.open_ == 0) memory.protect(PROT_NONE);
    }
    Memory& memory;
  };

 private:
  static constexpr size_t kReserved = size_t(64) << 30, kPage = 4096;
  bool reserve() {
    void* const p = mmap(nullptr, kReserved, guarded_ ? PROT_NONE : PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    base_ = static_cast<unsigned char*>(p);
    if (guarded_) report_touches();
    return true;
  }
  void protect(int how) {
    if (guarded_ && used_ > 0) mprotect(base_, (used_ + kPage - 1) / kPage * kPage, how);
  }
  static void report_touches();

  const bool guarded_ = asked("guard");
  unsigned char* base_ = nullptr;
  size_t used_ = 0;
  int open_ = 0;
  std::map<size_t, size_t> free_, taken_;  // offset to bytes
};
Memory& memory() {
  static Memory* const m = new Memory;  // outlives what is freed at exit
  return *m;
}

void touched(int, siginfo_t* info, void*) {
  const bool ours = memory().holds(info->si_addr);
  std::fprintf(stderr, "emulated GPU: the host touches %s\n",
               ours ? "a GPU's memory" : "what is not there");
  void* frames[40];
  backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
  signal(SIGSEGV, SIG_DFL);
}
void Memory::report_touches() {
  struct sigaction action = {};
  action.sa_sigaction = touched;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

// ---- launches -----------------------------------------------------------------------------------

struct Warp {
  alignas(16) unsigned char slot[32][16], answer[32][16];
  Given given[2][32];
  int from[32];       // whose slot a lane asks for
  unsigned here = 0;  // lanes that have come to the meeting
  unsigned votes = 0;
  uint64_t meetings = 0, ordered = 0;  // meetings at all; the last that orders memory accesses
};

/// A place to go on from. The compiler's own setjmp and longjmp: before the library's, AddressSanitizer
/// clears its notes of the whole stack.
using Place = void* [5];

/// A thread of a block, which runs one kernel after the other.
struct Fiber {
  Place at;
  void* stack = nullptr;
  bool started = false, done = false;
  dim3 index;
  int number = 0;
  const uint64_t* counter = nullptr;  // it waits until this is no longer `seen`
  uint64_t seen = 0;
  unsigned gathered = 0;  // how often
  std::vector<std::pair<void*, const void*>> copies;
  void* frames = nullptr;  // AddressSanitizer's
};

struct Block {
  std::vector<Warp> warps;
  int alive = 0, arrived = 0;
  uint64_t barriers = 0, progress = 0;
  Fiber* current = nullptr;
  Place scheduler;
  const void* stack = nullptr;  // the scheduler's, as AddressSanitizer found it
  size_t stack_size = 0;
  const std::function<void()>* kernel = nullptr;
};
Block* block = nullptr;
const char* kernel_name = "";
std::vector<unsigned char> shared_bytes;
Fiber fibers[1024];

[[noreturn]] void stop(const char* sentence) {
  std::fprintf(stderr, "emulated launch: %s: %s (block %u %u %u of %u %u %u threads)\n",
               kernel_name, sentence, blockIdx.x, blockIdx.y, blockIdx.z, blockDim.x, blockDim.y,
               blockDim.z);
  std::abort();
}

// A switch changes all registers: callers may not assume which ones the function leaves alone.
#ifdef __clang__
#define MT_OPAQUE __attribute__((noinline))
#else
#define MT_OPAQUE __attribute__((noipa))
#endif

// AddressSanitizer is told which stack comes next, and on it that it has come.
#ifdef __SANITIZE_ADDRESS__
#define MT_SWITCHES MT_OPAQUE __attribute__((no_sanitize("address")))
void start_switch(void** frames, const void* stack, size_t size) {
  __sanitizer_start_switch_fiber(frames, stack, size);
}
void finish_switch(void* frames, const void** from = nullptr, size_t* size = nullptr) {
  __sanitizer_finish_switch_fiber(frames, from, size);
}
#else
#define MT_SWITCHES MT_OPAQUE
void start_switch(void**, const void*, size_t) {}
void finish_switch(void*, const void** = nullptr, size_t* = nullptr) {}
#endif

/// To the scheduler.
MT_SWITCHES void leave(Fiber& me) {
  start_switch(&me.frames, block->stack, block->stack_size);
  __builtin_longjmp(block->scheduler, 1);
}

/// Lets the other threads of the block run.
MT_SWITCHES void yield() {
  Fiber* me = block->current;
  if (__builtin_setjmp(me->at) == 0) leave(*me);
  finish_switch(me->frames, &block->stack, &block->stack_size);
  threadIdx = me->index;
}

/// Waits until the counter has another value.
void wait_for(const uint64_t& counter, uint64_t seen) {
  if (counter != seen) return;
  Fiber& me = *block->current;
  me.counter = &counter, me.seen = seen;
  yield();
  me.counter = nullptr;
}

/// Opens the barrier once all threads that have not ended have come.
void open_barrier_if_all_arrived() {
  if (block->arrived != block->alive) return;
  block->arrived = 0;
  ++block->barriers;
  all_in_order();
}

/// What a fiber runs: the kernel of each block that it is a thread of.
void enter() {
  finish_switch(nullptr, &block->stack, &block->stack_size);
  for (;;) {
    (*block->kernel)();
    block->current->done = true;
    --block->alive;
    ++block->progress;
    // Who leaves counts no longer at a barrier that others wait at.
    if (block->alive > 0) open_barrier_if_all_arrived();
    yield();
  }
}

MT_SWITCHES void go_on(Fiber& f, void** frames) {
  start_switch(frames, f.stack, kStack);
  if (f.started) __builtin_longjmp(f.at, 1);
  f.started = true;
  ucontext_t first;
  getcontext(&first);
  first.uc_stack.ss_sp = f.stack;
  first.uc_stack.ss_size = kStack;
  first.uc_link = nullptr;
  makecontext(&first, enter, 0);
  setcontext(&first);
}
MT_SWITCHES void run(Fiber& f) {
  block->current = &f;
  threadIdx = f.index;
  static void* frames;
  if (__builtin_setjmp(block->scheduler) == 0) go_on(f, &frames);
  finish_switch(frames);
}

dim3 place(int i, dim3 size) {
  return dim3(unsigned(i) % size.x, unsigned(i) / size.x % size.y, unsigned(i) / size.x / size.y);
}

void prepare(int i, dim3 size) {
  Fiber& f = fibers[i];
  if (!f.stack) {
    f.stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f.stack == MAP_FAILED) stop("there is no memory for the stacks of its threads");
  }
  f.number = i;
  f.index = place(i, size);
  f.done = false;
  f.gathered = 0;
  f.copies.clear();
}

void run_block(dim3 size, const std::function<void()>& kernel) {
  const int n = int(size.x * size.y * size.z);
  Block b;
  b.warps.resize(size_t(n + 31) / 32);
  b.alive = n;
  b.kernel = &kernel;
  block = &b;
  for (int i = 0; i < n; ++i) prepare(i, size);
  static Order order;
  while (b.alive > 0) {
    const uint64_t before = b.progress;
    for (const int i : order.of(n)) {
      Fiber& f = fibers[i];
      if (!f.done && !(f.counter && *f.counter == f.seen)) run(f);
    }
    if (b.alive > 0 && b.progress == before) stop("threads wait for others that never come");
  }
  block = nullptr;
}

/// Waits until all lanes of the mask have come: each calls `arrive` before it waits, the last one
/// `complete`.
template <class Arrive, class Complete>
Warp& meet(unsigned mask, const Arrive& arrive, const Complete& complete) {
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
    complete(w);
    ++w.meetings;
  }
  wait_for(w.meetings, meeting);
  return w;
}

}  // namespace

void launch(const char* name, bool together, dim3 grid, dim3 size, size_t shared_size,
            const std::function<void()>& kernel) {
  kernel_name = name;
  if (size.x * size.y * size.z == 0 || size.x * size.y * size.z > 1024)
    stop("a block has 1 to 1024 threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535)
    stop("a grid has 1 to 65535 blocks in y and z");
  if (shared_size > 99 << 10) stop("a block has 99 KiB of shared memory");
  blockDim = size, gridDim = grid;
  const Memory::Open open(memory());
  static Order blocks, threads;
  for (const int b : blocks.of(int(grid.x * grid.y * grid.z))) {
    blockIdx = place(b, grid);
    shared_bytes.assign(shared_size + 16, 0xcd);
    all_in_order();
    if (together) {
      run_block(size, kernel);
      continue;
    }
    for (const int t : threads.of(int(size.x * size.y * size.z))) {
      threadIdx = place(t, size);
      kernel();
    }
  }
}

void* allocate(size_t bytes) { return memory().take(bytes); }
void release(void* p) { memory().give(p); }
void copy(void* to, const void* from, size_t bytes) {
  const Memory::Open open(memory());
  std::memmove(to, from, bytes);
}
void fill(void* p, int value, size_t bytes) {
  const Memory::Open open(memory());
  std::memset(p, value, bytes);
}

void* shared() {
  const auto at = reinterpret_cast<uintptr_t>(shared_bytes.data());
  return reinterpret_cast<void*>((at + 15) / 16 * 16);
}

void* shared_begin() { return shared_bytes.data(); }
void* shared_end() { return shared_bytes.data() + shared_bytes.size(); }
Toucher toucher() { return {block ? block->current->number : -1, kernel_name}; }
void stop_launch(const char* sentence) { stop(sentence); }

int lane() { return block ? block->current->number % 32 : 0; }

void barrier() {
  if (!block) stop("it has a barrier, but was started as a kernel whose threads do not talk");
  const uint64_t mine = block->barriers;
  ++block->progress;
  ++block->arrived;
  open_barrier_if_all_arrived();
  wait_for(block->barriers, mine);
}

void exchange(unsigned mask, const void* value, void* answer, size_t bytes, int from) {
  const Warp& w = meet(
      mask,
      [&](Warp& w, unsigned) {
        std::memcpy(w.slot[lane()], value, bytes);
        w.from[lane()] = mask >> from & 1 ? from : lane();
      },
      [mask](Warp& w) {
        for (int l = 0; l < 32; ++l)
          if (mask >> l & 1) std::memcpy(w.answer[l], w.slot[w.from[l]], sizeof w.answer[l]);
      });
  std::memcpy(answer, w.answer[lane()], bytes);
}

const Given* gather(const void* value, size_t bytes) {
  const unsigned which = block ? block->current->gathered++ % 2 : 0;
  const Warp& w = meet(
      ~0u, [&](Warp& w, unsigned) { std::memcpy(w.given[which][lane()].bytes, value, bytes); },
      [](Warp&) {});
  return w.given[which];
}

void touch_if_asked(const void* at) {
  static const bool races = asked("races");
  if (races) touch_shared(at, 16, true);
}
void copy_later(void* to, const void* from) {
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 16 != 0)
    stop("what cp.async copies is not aligned");
  touch_if_asked(to);
  std::memset(to, 0xff, 16);  // NaN
  block->current->copies.emplace_back(to, from);
}
void copies_done() {
  for (const auto& [to, from] : block->current->copies) {
    touch_if_asked(to);
    if (from) std::memcpy(to, from, 16);
    else std::memset(to, 0, 16);
  }
  block->current->copies.clear();
}

void meet_in_order(unsigned mask) {
  uint64_t before = 0;
  Warp& w = meet(
      mask, [&](Warp& w, unsigned) { before = w.meetings; }, [](Warp&) {});
  if (w.ordered <= before) {  // the first that goes on
    w.ordered = w.meetings;
    warp_in_order(block->current->number / 32);
  }
}

unsigned vote(unsigned mask, bool predicate) {
  const Warp& w = meet(
      mask, [&](Warp& w, unsigned me) { w.votes = (w.votes & ~me) | (predicate ? me : 0); },
      [mask](Warp& w) {
        const unsigned votes = w.votes & mask;
        for (int l = 0; l < 32; ++l)
          if (mask >> l & 1) std::memcpy(w.answer[l], &votes, sizeof votes);
      });
  unsigned votes;
  std::memcpy(&votes, w.answer[lane()], sizeof votes);
  return votes;
}

}  // namespace emulation
