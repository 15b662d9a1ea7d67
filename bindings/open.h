// open.h -- for C++ programs that embed Lua: adds mtorch to a state of their own
#pragma once
#include <lua.hpp>

namespace mt {

class Tensor;

/// Makes `require 'mtorch'` work in `L` and leaves the module on the stack. Sets no globals. Lua's
/// libraries must have been opened, by luaL_openlibs(L).
void open_lua(lua_State* L);

/// Pushes a tensor, which Lua and C++ then share; an undefined one is nil.
void tensor_to_lua(lua_State* L, const Tensor& x);
/// The tensor at a stack index; undefined for other values.
Tensor tensor_from_lua(lua_State* L, int index);

}  // namespace mt
