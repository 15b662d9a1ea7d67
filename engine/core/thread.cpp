// thread.cpp -- the state of each thread, and the host's hooks
#include "engine/core/thread.h"

#include <pthread.h>

#include "engine/core/error.h"
#include "engine/core/step_listener.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {

constinit Host host;
constinit thread_local ThreadState thread_state;
constinit thread_local StepListener* step_recorder = nullptr;

int get_num_threads() { return cpu_threads(); }
void set_num_threads(int64_t n) {
  const int most = max_cpu_threads();
  if (n < 1 || most < n) fail("set_num_threads: {} threads; use 1..{} on this machine", n, most);
  set_cpu_threads(int(n));
}

const std::pair<const char*, const char*>& stack_bounds() {
  static thread_local const auto bounds = [] {
    pthread_attr_t attributes;
    void* low = nullptr;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      pthread_attr_getstack(&attributes, &low, &bytes);
      pthread_attr_destroy(&attributes);
    }
    return std::pair(static_cast<const char*>(low), static_cast<const char*>(low) + bytes);
  }();
  return bounds;
}

}  // namespace mt
