// parallel.h -- the thread pool: runs the pieces of a loop on OpenMP threads
//
// A loop is cut into pieces by its shape alone, so its bits depend neither on the number of
// threads nor on who computes which piece. The pieces form a section for each thread, whose pieces
// it claims before those of the others: so it finds in its cache what it has written in the loop
// before, and false sharing is rare (two threads against one: a sort 1.8 times as fast, 1.4 with
// one counter for all pieces; a training step with weights of 1000 x 1000 1.6 and 1.1). The
// workers are the members 1.. of one long OpenMP region (member 0 stands for the caller and
// sleeps), opened at the first loop that is worth it by a thread of its own: a region of the
// caller's would wait at both ends for every worker, though another program may have its core.
// Here the caller begins at once, and waits at the end for the pieces that workers have claimed
// and for nothing else; a worker that comes late finds nothing left. Waiting costs microseconds of
// spinning, then sleep, on both sides. A loop inside a piece, or of a second thread of the program
// while the pool is busy, runs where it is. Workers take no signals and compute in the caller's
// floating-point mode. A child after fork() and a changed number of threads open a new region.
// OMP_NUM_THREADS, OMP_PROC_BIND, OMP_PLACES, OMP_STACKSIZE and OMP_WAIT_POLICY mean what they do
// in other programs. Libraries are called with one thread each.
#pragma once
#include <cstdint>

#include "kernels/interrupt.h"

/// Before a loop whose elements do not depend on each other, though the compiler cannot know.
#if defined(__clang__)
#define MT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MT_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace mt {

/// How many threads loops use, and the most that may be asked for.
int cpu_threads();
void set_cpu_threads(int n);
int max_cpu_threads();
/// 0 on a thread that called, 1 .. cpu_threads() - 1 on the pool's: whose scratch a piece may use.
int worker_number();
/// Stops the pool, which restarts on demand; false while it is busy.
bool park_workers();
/// Results below the smallest normal number become 0, and such operands count as 0, on this thread
/// and in its loops while this lives.
struct NoDenormals {
  const unsigned before;
  NoDenormals();
  ~NoDenormals();
  NoDenormals(const NoDenormals&) = delete;
};
/// The same until it is called again; false where the processor cannot.
bool set_flush_denormal(bool on);
/// Calls `piece(body, i)` for every i in [0, pieces). A piece must not throw.
void spread_pieces(int64_t pieces, void (*piece)(const void* body, int64_t i), const void* body);

inline namespace MT_ISA {

/// Runs `body(i)` for every piece i in [0, pieces), on several threads when `spread` says it is
/// worth waking them. What a piece computes must depend on the shape alone, never on the number of
/// threads: that keeps results bit-equal.
template <class Body> inline void parallel(int64_t pieces, bool spread, const Body& body) {
  if (!spread || pieces < 2) {
    for (int64_t i = 0; i < pieces && !mt_interrupted; ++i) body(i);
    return;
  }
  spread_pieces(
      pieces, [](const void* b, int64_t i) { (*static_cast<const Body*>(b))(i); }, &body);
}

constexpr int64_t kGrain = 32768;  // elements a thread takes at a time

/// Calls `body(from, to)` for strips of [0, n), one after the other: a piece that may be long ends
/// within milliseconds after an interrupt.
template <class Body> inline void in_strips(int64_t n, const Body& body) {
  for (int64_t from = 0; from < n && !mt_interrupted; from += kGrain)
    body(from, n - from < kGrain ? n : from + kGrain);
}
/// The same with `f(i)` for every i, where their order does not matter.
template <class F> inline void each_element(int64_t n, const F& f) {
  int64_t i = 0;
  do {
    const int64_t end = n - i < kGrain ? n : i + kGrain;
    MT_INDEPENDENT
    for (; i < end; ++i) f(i);
  } while (i < n && !mt_interrupted);
}
/// Calls `body(from, to)` for the chunks of [0, n), as `parallel` does for pieces.
template <class Body>
inline void parallel_chunks(int64_t n, int64_t chunk, bool spread, const Body& body) {
  parallel((n + chunk - 1) / chunk, spread, [&](int64_t i) {
    const int64_t from = i * chunk;
    body(from, n - from < chunk ? n : from + chunk);
  });
}
/// The strips on several threads, where none needs another.
template <class Body> inline void parallel_strips(int64_t n, const Body& body) {
  parallel_chunks(n, kGrain, n > 2 * kGrain, body);
}

}  // namespace MT_ISA
}  // namespace mt
