// interceptor.h -- intercepts calls of devices' verbs: for the recorder of steps, the profiler, the log of verbs
#pragma once
#include "kernels/gpu.h"

namespace mt {

class Interceptor;
using CallVerb = bool(const Device&, Verb, const void* argument);

/// A call of a verb that is being passed to the device.
class InterceptedCall {
 public:
  const Device& device;
  const Verb verb;
  const void* const argument;  // see with_argument

  InterceptedCall(const Device& d, Verb v, const void* a, Interceptor* first, CallVerb* call)
      : device(d),
        verb(v),
        argument(a),
        next_(first),
        call_(call) {}
  /// Passes the call on: to the next interceptor, and finally to the device. False if an index is
  /// out of bounds, or the device cannot run the program.
  bool next();

 private:
  Interceptor* next_;
  CallVerb* const call_;
};

class Interceptor {
 public:
  /// Makes the call with call.next(), and returns its result.
  virtual bool around(InterceptedCall& call) = 0;

 protected:
  ~Interceptor() = default;

 private:
  friend class InterceptedCall;
  friend void add_interceptor(Interceptor&);
  friend void remove_interceptor(Interceptor&);
  Interceptor* outer_ = nullptr;
};

/// Adds an interceptor that receives this thread's calls before all others, or removes it.
void add_interceptor(Interceptor&);
void remove_interceptor(Interceptor&);
/// Sets the interceptor that receives the calls of all threads after those; null removes it.
void set_process_interceptor(Interceptor*);

/// Calls the verb of the device itself.
CallVerb call_verb;
/// Makes a call through the interceptors, if there are any.
bool intercept(const Device&, Verb, const void* argument, CallVerb*);
inline bool run_verb(const Device& d, Verb verb, const void* argument, CallVerb* call = call_verb) {
  return intercepted() ? intercept(d, verb, argument, call) : call(d, verb, argument);
}

/// Calls f(the argument with its type): the struct that MT_VERBS names, Allocation, Move, Copy,
/// MapNumbers or, for `sync`, a null pointer.
template <class F> decltype(auto) with_argument(Verb verb, const void* argument, F&& f) {
  switch (verb) {
#define MT_CASE(result, verb, Argument) \
  case Verb::verb: return f(*static_cast<const Argument*>(argument));
    MT_VERBS(MT_CASE)
    MT_CPU_VERBS(MT_CASE)
    MT_GPU_VERBS(MT_CASE)
#undef MT_CASE
    case Verb::alloc:
    case Verb::free: return f(*static_cast<const Allocation*>(argument));
    case Verb::upload:
    case Verb::upload_later:
    case Verb::download: return f(*static_cast<const Move*>(argument));
    case Verb::map_numbers: return f(*static_cast<const MapNumbers*>(argument));
    case Verb::fill: return f(*static_cast<const Copy*>(argument));
    case Verb::sync: break;
  }
  return f(nullptr);
}

}  // namespace mt
