// states.h -- Lua states beside the first one, for threads of ours
#pragma once
#include <lua.hpp>

namespace mt::lua {

/// What the program does to each state after mtorch is opened in it; null outside of the program.
extern void (*prepare_state)(lua_State* L);

}  // namespace mt::lua
