// host.h -- hooks that the host program sets once
#pragma once
#include <string>

#include "kernels/device.h"

namespace mt {

/// Hooks, set before the first call (by open_lua for Lua). Without them messages have no line.
struct Host {
  int (*calls_under_way)() = nullptr;   // the number of calls from Lua on this thread
  bool (*collect_garbage)() = nullptr;  // before "out of memory"; returns whether to try again
  std::string (*where)() = nullptr;     // the current line of the script, "train.lua:12"
  const char* (*function)() = nullptr;  // its function that is running, or null
  void (*on_cuda_open)() = nullptr;     // called when a GPU is first used
};
extern constinit Host host;

/// The number of the first position in messages: 1 in a call from Lua, otherwise 0.
inline int message_base() { return host.calls_under_way && host.calls_under_way() > 0; }

}  // namespace mt
