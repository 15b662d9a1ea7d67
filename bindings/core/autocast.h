// autocast.h -- in which float type a function of Lua calculates: 16-bit floats, and mt.autocast
#pragma once
#include "bindings/core/lua.h"

namespace mt::lua {

/// What happens to the float arguments of a function, by its name (autocast.cpp has the list).
enum class AutocastClass : uint8_t {
  unknown,
  none,
  half,              // while autocasting they become the 16-bit float of their device
  float32,           // while autocasting 16-bit floats become float32, and the result stays that
  internal_float32,  // 16-bit floats become float32, and the result is rounded
  float32_round      // 16-bit floats become float32; the result is rounded except while autocasting
};
AutocastClass autocast_class_of(const Entry&);
/// The same, looked up once.
inline AutocastClass autocast_class(const Entry& e) {
  const AutocastClass known = AutocastClass(e.autocast_class.load(std::memory_order_relaxed));
  return known == AutocastClass::unknown ? autocast_class_of(e) : known;
}

/// Calls the body of an entry with its arguments converted; returns the number of results.
int run_cast(Args&, AutocastClass);

}  // namespace mt::lua
