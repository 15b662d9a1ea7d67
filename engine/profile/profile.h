// profile.h -- the profiler: what operations, kernels and launches take, summed up and as a trace
//
// While a recording is under way, or MTORCH_LOG=verbs is set, an interceptor of the process takes the
// time of each call of a verb (profile_devices.cpp).
#pragma once
#include <string>
#include <vector>

#include "engine/core/profile_scope.h"

namespace mt::profile {

/// Times are in seconds; `total` counts what was inside too, once where a row is inside itself.
struct Row {
  std::string name;
  Kind kind;
  int64_t calls = 0;
  double self_cpu = 0, cpu_total = 0;
  double self_gpu = 0, gpu_total = 0;
};
struct Report {
  std::vector<Row> rows;  // the largest self_cpu + self_gpu first
  double wall = 0;        // from start to stop
  double outside = 0;     // of it, outside of all operations: Lua itself
  std::string trace;      // JSON for Perfetto or chrome://tracing, if asked for
  int64_t left_out = 0;   // events that the trace has no room for
};

/// Starts a recording; inside another one it takes what happens until it stops.
void start(bool with_trace);
/// Ends the latest recording, after waiting for the GPUs.
Report stop();
/// How many recordings are under way.
int depth();

// ---- between profile.cpp and profile_devices.cpp ----

/// Takes the times of all devices' verbs from now on, and no longer.
void watch_devices();
void unwatch_devices();
/// Waits for the GPUs until all that they ran so far has been told.
void collect_kernels();
/// The innermost scope of this thread.
const void* current_path();
/// A GPU ran something, for the scope `path`.
void add_kernel(const void* path, const char* name, int device, int64_t begin, int64_t end);

}  // namespace mt::profile
