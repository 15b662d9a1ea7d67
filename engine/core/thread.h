// thread.h -- what operations depend on in addition to their arguments: the state of each thread, the hooks of the host
#pragma once
#include <array>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/base.h"

namespace mt {

/// Sets a variable to another value during its lifetime.
template <class T> class SaveAndRestore {
 public:
  SaveAndRestore(T& variable, std::type_identity_t<T> value)
      : variable_(variable),
        before_(std::exchange(variable, value)) {}
  SaveAndRestore(const SaveAndRestore&) = delete;
  ~SaveAndRestore() { variable_ = before_; }

 private:
  T& variable_;
  const T before_;
};

class Tensor;
struct CheckpointScope;  // autograd/function.h
class ReleaseScope;
struct Device;
struct Node;
struct BackwardState;  // autograd/graph.h

/// The 16-bit float of each device type while fn of mt.autocast runs, or Dtype::none.
struct Autocast {
  Dtype cpu = Dtype::none, cuda = Dtype::none;
  bool on() const { return cpu != Dtype::none || cuda != Dtype::none; }
};

/// How products of float32 are computed: exactly as float32, or with factors that a GPU rounds to TF32's 11 bits.
enum class MatmulPrecision { highest, high, medium };
constexpr std::array<const char*, 3> names_of(MatmulPrecision) {
  return {"highest", "high", "medium"};
}

/// The state that a thread passes on to those it starts (`inheriting`). Others start with this.
struct ThreadDefaults {
  Dtype dtype = Dtype::f32;         // default_dtype()
  bool grad_enabled = true;         // operations are recorded
  bool debugging = false;           // operations store their lines, and stop at the first NaN
  bool detects_infinities = false;  // while debugging, infinities are errors too
  Autocast autocast;
  MatmulPrecision matmul_precision = MatmulPrecision::highest;
  const Device* device = nullptr;  // default_device(); null: the CPU
};

/// It is constant-initialised and trivially destructible, so an access is one unchecked read.
struct ThreadState : ThreadDefaults {
  const Tensor* out = nullptr;            // the destination of the next result (Into)
  BackwardState* backward = nullptr;      // the innermost backward pass
  Node* function = nullptr;               // the mt.Function whose backward is running
  CheckpointScope* checkpoint = nullptr;  // the innermost one
  ReleaseScope* release = nullptr;        // the same
  Node* unused = nullptr;                 // nodes to be freed, a list
  bool freeing = false;                   // whether `unused` is being freed
  bool zero_gradients = false;            // backward() starts from a gradient of 0 (dist.join)
  bool is_worker = false;                 // a worker of a DataLoader, which must not use a GPU
};
extern constinit thread_local ThreadState thread_state [[gnu::tls_model("initial-exec")]];

/// The number of threads of loops, for the whole process: initially OMP_NUM_THREADS or one per processor.
/// Results do not depend on it. Loops of a second thread run only on that thread while the pool is busy.
int get_num_threads();
/// Throws Error unless n is from 1 to the larger of 16 and 4 times the number of processors.
void set_num_threads(int64_t n);

/// The memory of this thread's stack, from its lowest address to its highest; {} if that is not known.
const std::pair<const char*, const char*>& stack_bounds();

/// f as the body of a new thread that starts with this thread's defaults.
auto inheriting(auto f) {
  return [given = ThreadDefaults(thread_state), f = std::move(f)]() mutable {
    static_cast<ThreadDefaults&>(thread_state) = given;
    f();
  };
}

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
