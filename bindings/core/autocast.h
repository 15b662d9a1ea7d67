// autocast.h -- the float type in which a function of Lua computes: 16-bit floats, and mt.autocast
#pragma once
#include "bindings/core/lua.h"

namespace mt::lua {

/// The conversion of a function's float arguments, by its name (autocast.cpp has the list).
enum class AutocastClass : uint8_t {
  unknown,
  none,
  half,              // under autocast they become the 16-bit float of their device
  float32,           // under autocast 16-bit floats become float32, as does the result
  internal_float32,  // 16-bit floats become float32, and the result is rounded to their dtype
  float32_round      // 16-bit floats become float32; the result is rounded except under autocast
};
AutocastClass autocast_class_of(const Entry&);
/// The same, cached after the first call.
inline AutocastClass autocast_class(const Entry& e) {
  const AutocastClass known = AutocastClass(e.autocast_class.load(std::memory_order_relaxed));
  return known == AutocastClass::unknown ? autocast_class_of(e) : known;
}

/// Calls the body of an entry with its arguments converted; returns the number of results.
int run_cast(Args&, AutocastClass);

}  // namespace mt::lua
