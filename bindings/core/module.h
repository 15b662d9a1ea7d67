// module.h -- the parts of `require 'mtorch'`, and the LuaJIT that runs it
#pragma once
#include "bindings/core/lua.h"

namespace mt::lua {

/// Builds the tensor's metatable.
void open_tensor(lua_State* L);
/// Adds the C++ functions for the Lua library to the table at the top of the stack (`mtorch.core`).
void open_core(lua_State* L);

/// The field of the registry for a C function that a host calls in each of its states after mtorch is
/// opened in it: states of workers call that of the state that starts them.
constexpr const char* kPrepareState = "mtorch.prepare_state";

/// Pushes the list of the texts of the chunks of this name that the program was given.
void push_chunks(lua_State* L, const char* name);

/// A tensor from argument i: a number, a boolean, nested lists, or another tensor (copied).
Tensor tensor_from(Args&, int i, Dtype);
/// Their addresses are the light userdata mt.newaxis and mt.ellipsis.
extern const char kNewaxis, kEllipsis;

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

/// A Lua module embedded in the program, with the bytecode of the LuaJIT that built it.
struct Embedded {
  const char* name;   // "mtorch.nn"
  const char* chunk;  // "@mtorch/nn/init.lua"
  const char* source;
  size_t source_size;
  const char* bytecode;
  size_t bytecode_size;
};
extern const Embedded embedded[];
extern const size_t embedded_count;

}  // namespace mt::lua
