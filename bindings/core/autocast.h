// autocast.h -- in which float type a function of Lua calculates: 16-bit floats, and mt.autocast
#pragma once
#include "bindings/core/lua.h"

namespace mt::lua {

/// What happens to the float arguments of a function, by its name (autocast.cpp has the list).
enum class Casting : uint8_t {
  unknown,
  none,
  lower,   // while autocasting they become the 16-bit float of their device
  wider,   // while autocasting 16-bit floats become float32, and the result stays that
  inside,  // 16-bit floats become float32, and the result is rounded
  both     // 16-bit floats become float32; the result is rounded except while autocasting
};
Casting find_casting(const Entry&);
/// The same, looked up once.
inline Casting casting_of(const Entry& e) {
  const Casting known = Casting(e.casting.load(std::memory_order_relaxed));
  return known == Casting::unknown ? find_casting(e) : known;
}

/// While fn of mt.autocast runs, on this thread: the 16-bit floats of the devices, or none.
struct Autocast {
  Dtype cpu = Dtype::none, cuda = Dtype::none;
  bool on() const { return cpu != Dtype::none || cuda != Dtype::none; }
};
extern constinit thread_local Autocast autocast;
/// Another state for a while.
struct AutocastScope {
  explicit AutocastScope(const Autocast& now) : before(std::exchange(autocast, now)) {}
  AutocastScope(const AutocastScope&) = delete;
  ~AutocastScope() { autocast = before; }
  const Autocast before;
};

/// Calls the body of an entry with its arguments converted; returns the number of results.
int run_cast(Args&, Casting);

}  // namespace mt::lua
