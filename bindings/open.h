// open.h -- for C++ programs that embed Lua: adds mtorch to a state of their own
#pragma once
#include <lua.hpp>

namespace mt {

/// Makes `require 'mtorch'` work in `L` and leaves the module on the stack. Sets no globals.
void open_lua(lua_State* L);

}  // namespace mt
