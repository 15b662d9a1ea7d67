// luajit.h -- detects the LuaJIT of a state: those before December 2022 miscompile some loops
#pragma once
#include <string>

#include <lua.hpp>

namespace mt::lua {

struct LuaJit {
  std::string name;  // "LuaJIT 2.1.0-beta3, OpenResty's branch"
  bool old;          // compiles, and is older than December 2022
};
LuaJit luajit_of(lua_State* L);

/// The message about an old LuaJIT; the remedy follows it.
constexpr const char* kOldLuaJit =
    "is from before December 2022 and compiles some loops over pairs and next wrongly, without an error";

/// If LuaJIT is an old one, disables the compilation of every function with a loop over pairs or
/// next, among the function at the top of the stack and those inside it.
void keep_loops_interpreted(lua_State* L);

}  // namespace mt::lua
