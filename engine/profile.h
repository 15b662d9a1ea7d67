// profile.h -- the profiler: what operations, kernels and launches take, summed up and as a trace
//
// Off, it costs one branch where a call of Lua's enters and one where a gradient is taken. On, the
// tables of the devices hold verbs that take their time (profile_verbs.cpp).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mt::profile {

/// operation: a function that Lua calls. backward: the gradient of one. kernel: a verb of the CPU,
/// or what a GPU ran. launch: a verb that queued work on a GPU. collector: Lua's.
enum class Kind : uint8_t { operation, backward, kernel, launch, collector };
const char* kind_name(Kind);

extern constinit bool on;  // some recording is under way

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

struct Log;
struct Path;

/// One thing that takes time, on this thread. `key` tells it from others at this place, and `name()`
/// is asked the first time.
class Scope {
 public:
  template <class Name> Scope(Kind kind, uint64_t key, const Name& name) {
    if (on && open(kind, key)) [[unlikely]] call_it(name());
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    if (log_) [[unlikely]] close();
  }

 private:
  bool open(Kind, uint64_t key);  // true: it needs a name
  void call_it(std::string_view name);
  void close();
  Log* log_ = nullptr;
  Path* path_ = nullptr;
  uint64_t recording_ = 0;
  int64_t began_ = 0, inner_ = 0;
  int64_t* outer_ = nullptr;  // the `inner_` of the scope around
};

// ---- between profile.cpp and profile_verbs.cpp ----

/// Puts verbs that take their time into the tables of all devices, and takes them out again.
void watch_devices();
void unwatch_devices();
/// Waits for the GPUs until all that they ran so far has been told.
void collect_kernels();
/// The innermost scope of this thread.
const void* current_path();
/// A GPU ran something, for the scope `path`.
void add_kernel(const void* path, const char* name, int device, int64_t begin, int64_t end);

}  // namespace mt::profile
