// interrupt.h -- the word that Ctrl-C sets and every long loop reads
#pragma once

namespace mt {

/// An int that a signal handler and all threads may read and write. Always inlined: else each
/// instruction set's objects would define these functions without its namespace.
struct AtomicInt {
  int word;
  [[gnu::always_inline]] operator int() const { return __atomic_load_n(&word, __ATOMIC_RELAXED); }
  [[gnu::always_inline]] void operator=(int value) {
    __atomic_store_n(&word, value, __ATOMIC_RELAXED);
  }
};

}  // namespace mt

/// Set by Ctrl-C: loops skip what has not begun; the caller throws the half-done result away.
extern "C" mt::AtomicInt mt_interrupted;

namespace mt {

/// Defers interrupts while it lives: they are delivered by its destructor.
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
/// For the handler of Ctrl-C: sets the flag of the loops, or defers it. False where one is set or pending.
inline bool interrupt() {
  if (mt_interrupted || InterruptGuard::pending) return false;
  (InterruptGuard::active ? InterruptGuard::pending : mt_interrupted) = 1;
  return true;
}

}  // namespace mt
