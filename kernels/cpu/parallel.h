// parallel.h -- the one place where work is spread over OpenMP threads
#pragma once
#include <cstdint>

/// Before a loop whose elements do not depend on each other, though the compiler cannot know.
#if defined(__clang__)
#define MT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MT_INDEPENDENT _Pragma("GCC ivdep")
#endif

/// Set by Ctrl-C: loops skip the pieces that have not begun; the caller throws the half-done result
/// away.
extern "C" volatile int mt_interrupted;

namespace mt {
inline namespace MT_ISA {

/// Runs `body(i)` for every piece i in [0, pieces), on several threads when `spread` says it is
/// worth waking them. What a piece computes must depend on the shape alone, never on the number of
/// threads: that keeps results bit-equal.
template <class Body> inline void parallel(int64_t pieces, bool spread, const Body& body) {
  if (!spread || pieces < 2) {
    for (int64_t i = 0; i < pieces && !mt_interrupted; ++i) body(i);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t i = 0; i < pieces; ++i)
    if (!mt_interrupted) body(i);
}

}  // namespace MT_ISA
}  // namespace mt
