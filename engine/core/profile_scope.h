// profile_scope.h -- what the profiler times: a scope around each operation, gradient, kernel, launch
//
// Off, it costs one branch where a call of Lua's enters and one where a gradient is taken.
#pragma once
#include <cstdint>
#include <string_view>

namespace mt::profile {

/// operation: a function that Lua calls. backward: the gradient of one. kernel: a verb of the CPU,
/// or what a GPU ran. launch: a verb that queued work on a GPU. collector: Lua's.
enum class Kind : uint8_t { operation, backward, kernel, launch, collector };
const char* kind_name(Kind);

extern constinit bool on;  // some recording is under way

struct Log;
struct Path;

/// One thing that takes time, on this thread. `key` tells it from others at this place, and `name()`
/// is asked the first time.
class Scope {
 public:
  Scope(Kind kind, uint64_t key, const auto& name) {
    if (on && open(kind, key)) [[unlikely]]
      call_it(name());
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    if (log_) [[unlikely]]
      close();
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

}  // namespace mt::profile
