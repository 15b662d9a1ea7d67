// states.h -- additional Lua states for our own threads
#pragma once
#include <lua.hpp>

namespace mt::lua {

/// The field of the registry for a C function that a host calls in each of its states after mtorch is
/// opened in it: states of workers call that of the state that starts them.
constexpr const char* kPrepareState = "mtorch.prepare_state";

}  // namespace mt::lua
