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

/// What must not stay half done is under way while this lives: an interrupt waits for its end.
class Whole {
 public:
  Whole() { under_way = 1; }
  ~Whole() {
    under_way = 0;
    if (came) mt_interrupted = 1;
    came = 0;
  }
  Whole(const Whole&) = delete;
  static AtomicInt under_way, came;
};
/// For the handler of Ctrl-C: tells the loops. False where one that came before waits or is told.
inline bool interrupt() {
  if (mt_interrupted || Whole::came) return false;
  (Whole::under_way ? Whole::came : mt_interrupted) = 1;
  return true;
}

}  // namespace mt
