// workers.h -- the threads of a DataLoader
#pragma once
#include <lua.hpp>

namespace mt::lua {

/// Adds what starts, asks and ends workers to the table at the top of the stack.
void add_workers(lua_State* L);
/// On a worker's thread: an error where the loader no longer needs its batch.
void check_wanted();

}  // namespace mt::lua
