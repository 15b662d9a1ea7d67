// workers.h -- the threads of a DataLoader
#pragma once
#include <lua.hpp>

namespace mt::lua {

/// Adds what starts, asks and ends workers to the table at the top of the stack.
void add_workers(lua_State* L);
/// On a worker's thread: an error where nobody waits for its batch any more.
void check_wanted();
/// Whether this thread is a worker. Workers compute on the CPU: a GPU's memory is for one thread.
bool on_worker();

}  // namespace mt::lua
