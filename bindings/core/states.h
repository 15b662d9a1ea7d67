// states.h -- additional Lua states for our own threads
#pragma once
#include <lua.hpp>

namespace mt::lua {

/// The program's function for each new state after mtorch is opened in it; null in other hosts.
extern void (*prepare_state)(lua_State* L);

}  // namespace mt::lua
