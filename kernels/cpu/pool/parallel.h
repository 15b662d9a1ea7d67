// parallel.h -- the thread pool: runs the pieces of a loop on OpenMP threads
//
// A loop is divided into pieces by its shape only, so its bits depend neither on the number of
// threads nor on which thread computes which piece. The pieces form one section per thread, and a
// thread claims the pieces of its own section first: so the data that it wrote in the previous loop
// is in its cache, and false sharing is rare. With two threads a sort is 1.8 times as fast as with one
// (1.4 times if all pieces had one counter), a training step with weights of 1000 x 1000 1.6 times (1.1).
// The workers are the members 1.. of one long OpenMP region (member 0 stands for the caller and
// sleeps), which a separate thread opens at the first loop that is worth it: a region opened by the
// caller would wait at both ends for every worker, even if another program uses its core. Here the
// caller begins at once, and at the end waits only for the pieces that workers have claimed; a late
// worker finds no pieces left. Both sides wait by spinning for microseconds, then by sleeping. A
// loop inside a piece, or of a second thread while the pool is busy, runs only on its own thread.
// Workers block signals and compute in the caller's floating-point mode. A child after fork() and a
// new number of threads open a new region. OMP_NUM_THREADS, OMP_PROC_BIND, OMP_PLACES,
// OMP_STACKSIZE and OMP_WAIT_POLICY have their usual meaning. Libraries are called with one thread
// each.
#pragma once
#include <cstdint>

#include "kernels/interrupt.h"

/// For a loop whose iterations are independent, which the compiler cannot prove.
#if defined(__clang__)
#define MT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MT_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace mt {

/// The number of threads that loops use, and the largest valid number.
int cpu_threads();
void set_cpu_threads(int n);
int max_cpu_threads();
/// The index of a thread's scratch: 0 on a calling thread, 1 .. cpu_threads() - 1 in the pool.
int worker_number();
/// Stops the pool, which restarts on demand; false while it is busy.
bool park_workers();
/// During its lifetime denormals are flushed to 0, as results and as operands (FTZ and DAZ), on
/// this thread and in its loops.
struct NoDenormals {
  const unsigned before;
  NoDenormals();
  ~NoDenormals();
  NoDenormals(const NoDenormals&) = delete;
};
/// Switches this on or off for the thread and its loops; returns false if the processor does not support it.
bool set_flush_denormal(bool on);
/// Calls `piece(body, i)` for every i in [0, pieces). A piece must not throw.
void spread_pieces(int64_t pieces, void (*piece)(const void* body, int64_t i), const void* body);

inline namespace MT_ISA {

/// Runs `body(i)` for every piece i in [0, pieces), on several threads if `spread` says that waking
/// them is worth it. A piece's result must depend only on the shape, never on the number of
/// threads, so that results are bit-equal.
template <class Body> inline void parallel(int64_t pieces, bool spread, const Body& body) {
  if (!spread || pieces < 2) {
    for (int64_t i = 0; i < pieces && !mt_interrupted; ++i) body(i);
    return;
  }
  spread_pieces(
      pieces, [](const void* b, int64_t i) { (*static_cast<const Body*>(b))(i); }, &body);
}

constexpr int64_t kGrain = 32768;  // elements that a thread claims at a time

/// Calls `body(from, to)` for strips of [0, n), one after the other, so that a long piece ends
/// within milliseconds after an interrupt.
template <class Body> inline void in_strips(int64_t n, const Body& body) {
  for (int64_t from = 0; from < n && !mt_interrupted; from += kGrain)
    body(from, n - from < kGrain ? n : from + kGrain);
}
/// Calls `f(i)` for every i in [0, n), in strips as above; the order must not matter.
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
/// Calls `body(from, to)` for strips of [0, n) on several threads if n is large; the order must not matter.
template <class Body> inline void parallel_strips(int64_t n, const Body& body) {
  parallel_chunks(n, kGrain, n > 2 * kGrain, body);
}

}  // namespace MT_ISA
}  // namespace mt
