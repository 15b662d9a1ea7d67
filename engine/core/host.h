// host.h -- hooks that the host program provides, set once
#pragma once
#include <string>

#include "kernels/device.h"

namespace mt {

/// Set before the first call; the Lua bindings do (open_lua). Without them messages name no place.
struct Host {
  int (*calls_under_way)() = nullptr;   // how many from Lua, on this thread
  bool (*collect_garbage)() = nullptr;  // before "out of memory"; whether to try again
  std::string (*where)() = nullptr;     // the script's line under way, "train.lua:12"
  const char* (*function)() = nullptr;  // the function of it that is running, or null
  void (*on_cuda_open)() = nullptr;     // a GPU comes into use
  bool (*run_on_gpu)(const Run&,
                     const Device&) = nullptr;  // an expression program; see gpu/program_cuda.h
  bool (*prepare_on_gpu)(const Run&, const Device&) = nullptr;
};
extern constinit Host host;

/// From which labels, ids and indices in tensors count, and positions in messages: 1 in a call from
/// Lua, else 0. A program may do both.
inline int index_base() { return host.calls_under_way && host.calls_under_way() > 0; }

}  // namespace mt
