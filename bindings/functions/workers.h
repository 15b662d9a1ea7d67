// workers.h -- the threads of a DataLoader
#pragma once
#include <lua.hpp>

namespace mt::lua {

/// Adds functions that start, control and end workers to the table at the top of the stack.
void add_workers(lua_State* L);
/// On a worker's thread: throws an error if the loader no longer needs the batch.
void check_wanted();

}  // namespace mt::lua
