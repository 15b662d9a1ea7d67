// profile.h -- the profiler: times of operations, kernels and launches; a table and a trace
//
// During a recording, or if MTORCH_LOG=verbs is set, an interceptor of the process measures each
// call of a verb (profile_devices.cpp).
#pragma once
#include <string>
#include <vector>

#include "engine/core/profile_scope.h"

namespace mt::profile {

/// Times are in seconds; `total` includes inner scopes, once for recursive rows.
struct Row {
  std::string name;
  Kind kind;
  int64_t calls = 0;
  double self_cpu = 0, cpu_total = 0;
  double self_gpu = 0, gpu_total = 0;
};
struct Report {
  std::vector<Row> rows;  // sorted by self_cpu + self_gpu, the largest first
  double wall = 0;        // from start to stop
  double outside = 0;     // the part outside of all operations: Lua itself
  std::string trace;      // JSON for Perfetto or chrome://tracing, if requested
  int64_t left_out = 0;   // events that exceed the limit of the trace
};

/// Starts a recording; a nested one receives all events until it stops.
void start(bool with_trace);
/// Ends the last recording, after synchronisation with the GPUs.
Report stop();
/// The number of active recordings.
int depth();

// ---- between profile.cpp and profile_devices.cpp ----

/// Starts and stops the measurement of all devices' verbs.
void watch_devices();
void unwatch_devices();
/// Synchronises with the GPUs until all their kernels so far are recorded.
void collect_kernels();
/// The innermost scope of this thread.
const void* current_path();
/// Records a kernel of a GPU for the scope `path`.
void add_kernel(const void* path, const char* name, int device, int64_t begin, int64_t end);

}  // namespace mt::profile
