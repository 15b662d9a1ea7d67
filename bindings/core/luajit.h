// luajit.h -- which LuaJIT a state runs on: those from before December 2022 compile some loops wrongly
#pragma once
#include <string>

#include <lua.hpp>

namespace mt::lua {

struct LuaJit {
  std::string name;  // "LuaJIT 2.1.0-beta3, OpenResty's branch"
  bool old;          // compiles, and is from before December 2022
};
LuaJit luajit_of(lua_State* L);

/// What an old one means, to be followed by what helps.
constexpr const char* kOldLuaJit =
    "is from before December 2022 and compiles some loops over pairs and next wrongly, without a word";

/// Keeps every function that loops over pairs or next, of the function at the top of the stack and those in it, from
/// being compiled, where LuaJIT is an old one.
void keep_loops_interpreted(lua_State* L);

}  // namespace mt::lua
