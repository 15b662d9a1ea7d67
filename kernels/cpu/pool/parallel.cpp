// parallel.cpp -- the pool: how pieces are claimed, how workers and callers wait
#include "kernels/cpu/pool/parallel.h"

#include "kernels/cpu/pool/counters.h"
#include "kernels/cpu/pool/serial_thread.h"

#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

constinit mt::AtomicInt mt_interrupted{};

namespace mt {

constinit AtomicInt InterruptGuard::active{}, InterruptGuard::pending{};

namespace {

using Word = std::atomic<uint32_t>;
using Piece = void (*)(const void*, int64_t);

// ---- waiting ------------------------------------------------------------------------------------

constexpr std::chrono::microseconds kSpin{50};

void sleep_while(Word& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(Word& word, int sleepers) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, sleepers, nullptr, nullptr, 0);
}
void pause() {
#if defined(__SSE2__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}
/// Spins for at most kSpin; returns whether `done()` became true.
bool spin(bool worth_it, const auto& done) {
  if (done()) return true;
  if (!worth_it) return false;
  for (const auto end = std::chrono::steady_clock::now() + kSpin;;) {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      pause();
    }
    if (std::chrono::steady_clock::now() >= end) return false;
  }
}

// ---- floating-point modes ------------------------------------------------------------------------

#if defined(__SSE2__)
constexpr unsigned kControl = 0xffc0, kNoDenormals = 0x8040;  // the other bits are status flags
unsigned float_mode() { return _mm_getcsr() & kControl; }
void set_float_mode(unsigned mode) {
  if (const unsigned now = _mm_getcsr(); (now & kControl) != mode)
    _mm_setcsr((now & ~kControl) | mode);
}
#elif defined(__aarch64__)
constexpr unsigned kNoDenormals = 1 << 24;
unsigned float_mode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return unsigned(mode);
}
void set_float_mode(unsigned mode) {
  if (mode != float_mode()) asm volatile("msr fpcr, %0" : : "r"(uint64_t(mode)));
}
#endif

// ---- the pool -----------------------------------------------------------------------------------

constexpr uint32_t kClosed = ~0u;
constexpr int64_t kMaxGroups = 1 << 30;
constexpr uint32_t kMaxSections = 16;
constexpr uint64_t at(uint32_t job, uint32_t group) { return uint64_t(job) << 32 | group; }

/// Threads claim the groups [next, end) of a job in order.
struct alignas(64) Section {
  std::atomic<uint64_t> claim{kClosed};  // the job's number, and the next group
  Word end{0};
};

/// The pool runs one job at a time. A worker reads the job's fields, then claims by a
/// compare-and-exchange of a word that holds the job's number: if that succeeds the fields belonged
/// to this job. The words are closed before the fields change.
struct Pool {
  Section section[kMaxSections];
  alignas(64) Word posted{0};  // changes with every job
  Word sleeping{0};
  alignas(64) Word done{0};  // groups that workers have finished
  Word awaited{0};           // the caller sleeps until `done` is this

  alignas(64) std::atomic<Piece> piece{nullptr};
  std::atomic<const void*> body{nullptr};
  std::atomic<int64_t> pieces{0}, together{1};  // pieces per group
  Word sections{0};
  std::atomic<unsigned> mode{0};

  std::atomic<bool> busy{false};
  Word stopping{0};
  std::atomic<int> wanted{0};
  int size = 0;  // the number of threads of the open region
  std::atomic<bool> may_spin{false};
  std::atomic<int> processor{-1};  // the processor of the caller
  pthread_t host{};

  ~Pool();
};
constinit Pool pool;
constinit thread_local bool inside = false;
constinit thread_local int number = 0;

struct Counts {
  std::atomic<int64_t> loops{0}, pieces{0}, products{0}, onednn{0};
  std::atomic<uint64_t> workers{0};  // a bit set of workers
};
constinit Counts counts;

/// Element counts by worker, each in a cache line that only this worker writes: they change for every row,
/// where a locked addition would wait for all earlier stores (a quarter of the time of layer norm).
struct alignas(64) Elements {
  std::atomic<int64_t> n{0};
};
constinit Elements elements[64];

bool claim_group(Section& section, uint32_t job, uint32_t& group) {
  const uint32_t end = section.end.load(std::memory_order_acquire);
  uint64_t now = section.claim.load(std::memory_order_acquire);
  while (uint32_t(now >> 32) == job && uint32_t(now) < end) {
    if (section.claim.compare_exchange_weak(now, now + 1)) return group = uint32_t(now), true;
  }
  return false;
}

/// Wakes two threads, each of which wakes two more, so that no thread wakes all the others itself.
void wake_two() {
  if (pool.sleeping.load() > 0) wake(pool.posted, 2);
}

/// Computes groups of a job until none is left, calls `finished` for each; returns their number.
uint32_t work(uint32_t job, const auto& finished) noexcept {
  const Piece piece = pool.piece.load(std::memory_order_acquire);
  const void* const body = pool.body.load(std::memory_order_acquire);
  const int64_t pieces = pool.pieces.load(std::memory_order_acquire);
  const int64_t together = pool.together.load(std::memory_order_acquire);
  const uint32_t sections = pool.sections.load(std::memory_order_acquire);
  const unsigned mode = pool.mode.load(std::memory_order_acquire);
  uint32_t mine = 0;
  for (uint32_t s = 0, group; s < sections && !mt_interrupted; ++s) {
    Section& section = pool.section[(number + s) % sections];
    while (!mt_interrupted && claim_group(section, job, group)) {
      if (mine++ == 0) {
        set_float_mode(mode);
        wake_two();
      }
      const int64_t end = std::min(pieces, (group + int64_t(1)) * together);
      for (int64_t i = group * together; i < end && !mt_interrupted; ++i) piece(body, i);
      finished();
    }
  }
  if (mine > 0) counts.workers |= uint64_t(1) << std::min(number, 63);
  return mine;
}

// ---- workers ------------------------------------------------------------------------------------

/// Moves this thread to another processor: some kernels wake it on that of its waker although another one is idle (in
/// virtual machines), and again at each job, as it finds the job done and sleeps.
void leave(int processor) {
  cpu_set_t allowed, others;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  others = allowed;
  CPU_CLR(size_t(processor), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof allowed, &allowed);
}

void run_worker() {
  for (uint32_t job = 0; !pool.stopping.load();) {
    const auto called = [&] { return pool.posted.load(std::memory_order_acquire) != job; };
    // If another program uses the other processors, spinning here would delay the caller.
    if (!spin(pool.may_spin && sched_getcpu() != pool.processor, called)) {
      ++pool.sleeping;
      while (pool.posted.load() == job) sleep_while(pool.posted, job);
      --pool.sleeping;
      if (const int caller = pool.processor; pool.may_spin && sched_getcpu() == caller)
        leave(caller);
    }
    job = pool.posted.load(std::memory_order_acquire);
    work(job, [] {
      const uint32_t done = ++pool.done;
      if (pool.awaited.load() == done) wake(pool.done, 1);
    });
  }
}

/// The body of the thread that opens the region.
void* open_region(void*) {
#pragma omp parallel num_threads(pool.size)
  {
    number = omp_get_thread_num();
    inside = true;
    if (number > 0) run_worker();
    else
      while (!pool.stopping.load()) sleep_while(pool.stopping, 0);
  }
  return nullptr;
}

void close_region() {
  if (pool.size == 0) return;
  pool.stopping = 1;
  ++pool.posted;
  wake(pool.posted, INT_MAX);
  wake(pool.stopping, INT_MAX);
  pthread_join(pool.host, nullptr);
  pool.size = 0;
}
Pool::~Pool() {  // at the program's end, or before the module's code is unmapped
  wanted = 1;
  close_region();
}

/// Resets the pool in a forked child: the region's threads do not exist there.
void forget_region() {
  pool.size = 0;
  pool.sleeping = 0;
  pool.busy = false;
  for (Section& section : pool.section) section.claim = at(pool.posted, kClosed);
}

bool have_region(int size) {
  if (pool.size == size) return true;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_region);
  close_region();
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  pool.may_spin = size <= omp_get_num_procs() && !(policy && strcasecmp(policy, "passive") == 0);
  pool.stopping = 0;
  pool.size = size;
  sigset_t blocked, before;  // blocks Ctrl-C and timers, but not faults
  sigfillset(&blocked);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&blocked, fault);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const int failed = pthread_create(&pool.host, nullptr, open_region, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (registered != 0 || failed != 0) pool.size = 0;
  return pool.size != 0;
}

// ---- callers ------------------------------------------------------------------------------------

void post(int64_t pieces, Piece piece, const void* body) {
  const uint32_t job = pool.posted + 1;
  const int64_t together = (pieces + kMaxGroups - 1) / kMaxGroups;
  const int64_t groups = (pieces + together - 1) / together;
  const uint32_t sections = uint32_t(std::min({groups, int64_t(pool.size), int64_t(kMaxSections)}));
  const auto first_of = [&](uint32_t s) { return uint32_t(groups * s / sections); };
  pool.piece = piece;
  pool.body = body;
  pool.pieces = pieces;
  pool.together = together;
  pool.sections = sections;
  pool.mode = float_mode();
  pool.done = 0;
  pool.processor = sched_getcpu();
  for (uint32_t s = 0; s < sections; ++s) {
    pool.section[s].end = first_of(s + 1);
    pool.section[s].claim = at(job, first_of(s));
  }
  pool.posted = job;
}

/// Closes a job, so that no more of it is claimed; returns the number of groups claimed.
uint32_t close(uint32_t job) {
  uint32_t claimed = 0;
  for (uint32_t s = 0, begin = 0; s < pool.sections; ++s) {
    Section& section = pool.section[s];
    const uint32_t next = uint32_t(section.claim.exchange(at(job, kClosed)));
    claimed += std::min(next, section.end.load()) - begin;
    begin = section.end;
  }
  return claimed;
}

/// Waits until workers have finished the groups that they claimed.
void await(uint32_t claimed) {
  const auto finished = [&] { return pool.done.load(std::memory_order_acquire) == claimed; };
  if (spin(pool.may_spin, finished)) return;
  pool.awaited = claimed;
  for (uint32_t now; (now = pool.done.load()) != claimed;) sleep_while(pool.done, now);
  pool.awaited = 0;
}

int threads_at_start() {
  const int requested = omp_get_max_threads(), most = max_cpu_threads();
  if (requested >= 1 && requested <= most) return requested;  // OpenMP lets 4000000000 wrap around
  std::fprintf(stderr,
               "mtorch: OMP_NUM_THREADS=%u is too large for %d processors: %d threads are used\n",
               unsigned(requested), omp_get_num_procs(), most);
  omp_set_num_threads(most);  // because libraries ask OpenMP for the number
  return most;
}

}  // namespace

NoDenormals::NoDenormals() : before(float_mode()) { set_float_mode(before | kNoDenormals); }
NoDenormals::~NoDenormals() { set_float_mode(before); }
bool set_flush_denormal(bool on) {
  set_float_mode(on ? float_mode() | kNoDenormals : float_mode() & ~kNoDenormals);
  return kNoDenormals != 0;
}

int max_cpu_threads() { return std::max(16, 4 * omp_get_num_procs()); }
int cpu_threads() {
  const int wanted = pool.wanted.load(std::memory_order_relaxed);
  if (wanted > 0) return wanted;
  static const int at_start = threads_at_start();
  int unset = 0;
  pool.wanted.compare_exchange_strong(unset, at_start);
  return pool.wanted;
}
void set_cpu_threads(int n) { pool.wanted = std::clamp(n, 1, max_cpu_threads()); }
int worker_number() { return number; }
void disable_pool_on_this_thread() { inside = true; }
CpuCounters cpu_counters() {
  int64_t all = 0;
  for (const Elements& e : elements) all += e.n;
  return {counts.loops,  counts.pieces, counts.products,
          counts.onednn, all,           std::popcount(counts.workers.exchange(0))};
}
void count_onednn() { counts.onednn.fetch_add(1, std::memory_order_relaxed); }
void count_product() { counts.products.fetch_add(1, std::memory_order_relaxed); }
void count_elements(int64_t n) {
  std::atomic<int64_t>& mine = elements[std::min(number, 63)].n;
  mine.store(mine.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}
bool park_workers() {
  if (inside || pool.busy.exchange(true, std::memory_order_acquire)) return false;
  close_region();
  pool.busy.store(false, std::memory_order_release);
  return true;
}

void spread_pieces(int64_t pieces, Piece piece, const void* body) {
  const int threads = cpu_threads();
  const bool alone = threads < 2 || inside || pool.busy.exchange(true, std::memory_order_acquire);
  if (alone || !have_region(threads)) {
    if (!alone) pool.busy.store(false, std::memory_order_release);
    for (int64_t i = 0; i < pieces && !mt_interrupted; ++i) piece(body, i);
    return;
  }
  inside = true;
  ++counts.loops;
  counts.pieces += pieces;
  post(pieces, piece, body);
  const uint32_t job = pool.posted, mine = work(job, [] {});
  await(close(job) - mine);
  inside = false;
  pool.busy.store(false, std::memory_order_release);
}

}  // namespace mt
