// arc4random.cpp -- what the static libstdc++ would ask of glibc 2.36, for bundles that run with older ones
#include <sys/random.h>

extern "C" unsigned int arc4random() noexcept {
  unsigned int x = 0;
  while (getrandom(&x, sizeof x, 0) != sizeof x) {}
  return x;
}
