// interrupt.h -- the flag that Ctrl-C sets and every long loop reads
#pragma once

namespace mt {

/// An int that a signal handler and all threads may read and write. Always inlined; otherwise the
/// objects of each instruction set would define these functions outside its namespace.
struct AtomicInt {
  int word;
  [[gnu::always_inline]] operator int() const { return __atomic_load_n(&word, __ATOMIC_RELAXED); }
  [[gnu::always_inline]] void operator=(int value) {
    __atomic_store_n(&word, value, __ATOMIC_RELAXED);
  }
};

}  // namespace mt

/// Set by Ctrl-C: loops skip the work that has not begun; the caller discards the partial result.
extern "C" mt::AtomicInt mt_interrupted;

namespace mt {

/// Defers interrupts during its lifetime: its destructor delivers them.
class InterruptGuard {
 public:
  InterruptGuard() { active = 1; }
  ~InterruptGuard() {
    active = 0;
    if (pending) mt_interrupted = 1;
    pending = 0;
  }
  InterruptGuard(const InterruptGuard&) = delete;
  static AtomicInt active, pending;
};
/// For the Ctrl-C handler: sets the loops' flag, or defers it; false if one is already set.
inline bool interrupt() {
  if (mt_interrupted || InterruptGuard::pending) return false;
  (InterruptGuard::active ? InterruptGuard::pending : mt_interrupted) = 1;
  return true;
}

}  // namespace mt
