// interceptor.cpp -- passes a call of a verb through the interceptors of the thread and of the process to the device
#include "engine/core/interceptor.h"

#include <atomic>
#include <type_traits>

#include "engine/core/device.h"

namespace mt {
namespace {

constinit thread_local Interceptor* innermost [[gnu::tls_model("initial-exec")]] = nullptr;
constinit std::atomic<Interceptor*> of_process = nullptr;

void count(int change) { __atomic_fetch_add(&interceptors, change, __ATOMIC_RELAXED); }

template <class R, class... A> bool call(R (*verb)(A...), const std::type_identity_t<A>&... a) {
  if constexpr (std::is_same_v<R, bool>) return verb(a...);
  else return verb(a...), true;
}

}  // namespace

constinit int interceptors = 0;

bool call_verb(const Device& d, Verb verb, const void* argument) {
  const Verbs& v = d.verbs;
  const auto allocation = [&] { return *static_cast<const Allocation*>(argument); };
  const auto move = [&](void (*by)(void*, const void*, size_t)) {
    const Move& m = *static_cast<const Move*>(argument);
    return call(by, m.to, m.from, m.bytes);
  };
  switch (verb) {
    case Verb::alloc: *allocation().data = v.alloc(allocation().bytes); return true;
    case Verb::free: return call(v.free, *allocation().data, allocation().bytes);
    case Verb::sync: return call(v.sync);
    case Verb::upload: return move(v.upload);
    case Verb::download: return move(v.download);
    case Verb::upload_later: return move(gpu_of(d).gpu_verbs.upload_later);
    case Verb::fill: return call(gpu_of(d).gpu_verbs.fill, *static_cast<const Copy*>(argument));
    case Verb::map_numbers: {
      const MapNumbers& m = *static_cast<const MapNumbers*>(argument);
      return call(gpu_of(d).gpu_verbs.map_numbers, m, m.numbers);
    }
#define MT_CASE(result, verb, Argument) \
  case Verb::verb: return call(v.verb, *static_cast<const Argument*>(argument));
      MT_VERBS(MT_CASE)
      MT_CPU_VERBS(MT_CASE)
      MT_GPU_VERBS(MT_CASE)
#undef MT_CASE
  }
  return true;
}

bool InterceptedCall::next() {
  Interceptor* const i = next_;
  if (!i) return call_(device, verb, argument);
  Interceptor* const process = of_process.load(std::memory_order_acquire);
  next_ = i->outer_ ? i->outer_ : i == process ? nullptr : process;
  return i->around(*this);
}
bool intercept(const Device& d, Verb verb, const void* argument, CallVerb* call) {
  Interceptor* const first = innermost ? innermost : of_process.load(std::memory_order_acquire);
  return InterceptedCall(d, verb, argument, first, call).next();
}
bool intercept(const Device& d, Verb verb, const void* argument) {
  return intercept(d, verb, argument, call_verb);
}

void add_interceptor(Interceptor& i) {
  i.outer_ = innermost;
  innermost = &i;
  count(1);
}
void remove_interceptor(Interceptor& i) {
  Interceptor** at = &innermost;
  while (*at && *at != &i) at = &(*at)->outer_;
  if (!*at) return;
  *at = i.outer_;
  count(-1);
}
void set_process_interceptor(Interceptor* i) {
  count((i != nullptr) - (of_process.exchange(i, std::memory_order_acq_rel) != nullptr));
}

}  // namespace mt
