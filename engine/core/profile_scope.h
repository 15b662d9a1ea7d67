// profile_scope.h -- the scopes that the profiler times: operations, gradients, kernels, launches
//
// When it is off, it costs one branch per call from Lua and one per gradient.
#pragma once
#include <cstdint>
#include <string_view>

namespace mt::profile {

/// operation: a function called from Lua. backward: the gradient of one. kernel: a verb of the CPU,
/// or a kernel of a GPU. launch: a verb that queued work on a GPU. collector: Lua's GC.
enum class Kind : uint8_t { operation, backward, kernel, launch, collector };
const char* kind_name(Kind);

extern constinit bool on;  // whether a recording is active

struct Log;
struct Path;

/// A timed scope on this thread. `key` distinguishes it from others at this place; `name()` is
/// called the first time.
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
  int64_t* outer_ = nullptr;  // the `inner_` of the enclosing scope
};

}  // namespace mt::profile
