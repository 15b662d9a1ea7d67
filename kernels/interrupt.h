// interrupt.h -- the word that Ctrl-C sets and every long loop reads
#pragma once

/// Set by Ctrl-C: loops skip what has not begun; the caller throws the half-done result away.
extern "C" volatile int mt_interrupted;

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
  static volatile int under_way, came;
};
/// For the handler of Ctrl-C: tells the loops. False where one that came before waits or is told.
inline bool interrupt() {
  if (mt_interrupted || Whole::came) return false;
  volatile int& told = Whole::under_way ? Whole::came : mt_interrupted;
  told = 1;
  return true;
}

}  // namespace mt
