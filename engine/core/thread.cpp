// thread.cpp -- the state of each thread, and the host's hooks
#include "engine/core/thread.h"

#include "engine/core/host.h"
#include "engine/core/recording.h"

namespace mt {

constinit Host host;
constinit thread_local ThreadState thread_state;
constinit thread_local Recording* step_recorder = nullptr;

}  // namespace mt
