// host.h -- what the program around the engine answers for it: hooks, set once
#pragma once
#include <string>

#include "kernels/device.h"

namespace mt {

/// Set before the first call; the Lua bindings do (open_lua). Without them: positions count from 0,
/// and messages name no place.
struct Host {
  int index_base = 0;                             // from which positions, labels and ids count
  bool (*collect_garbage)() = nullptr;            // before "out of memory"; whether to try again
  std::string (*where)() = nullptr;               // the script's line under way, "train.lua:12"
  const char* (*function)() = nullptr;            // the function of it that is running, or null
  void (*on_cuda_open)(const Device&) = nullptr;  // a GPU comes into use
  bool (*run_on_gpu)(const Run&,
                     const Device&) = nullptr;  // an expression program; see gpu/program_cuda.h
  bool (*prepare_on_gpu)(const Run&, const Device&) = nullptr;
};
extern constinit Host host;

}  // namespace mt
