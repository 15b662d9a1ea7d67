// record.cpp -- core.record: calls a Lua function for every library call of another function
#include "bindings/core/bind.h"

namespace mt::lua {

constinit thread_local bool recording = false;

namespace {

const char kWatcher = 0;  // registry key: the watcher function
thread_local int depth = 0;

/// Calls the watcher with the depth, the entry or nils, and the top `n` values, which stay.
void notify(lua_State* L, const Entry* e, int n) {
  const SaveAndRestore quiet(recording, false);
  const int first = lua_gettop(L) - n + 1;
  luaL_checkstack(L, n + 4, "too many values");
  push_registered(L, &kWatcher);
  lua_pushinteger(L, depth);
  e ? lua_pushstring(L, name_of(*e).c_str()) : lua_pushnil(L);
  e ? lua_pushstring(L, e->signature) : lua_pushnil(L);
  for (int i = 0; i < n; ++i) lua_pushvalue(L, first + i);
  lua_call(L, n + 3, 0);
}

/// record(fn, watcher, ..): runs fn(..) and reports to watcher, which is released afterwards.
int record(Args& a) {
  lua_State* L = a.L;
  a.function(1), a.function(2);
  if (recording) fail("a call is recorded already");
  lua_pushvalue(L, 2);
  set_registered(L, &kWatcher);
  lua_remove(L, 2);
  int status;
  {
    const SaveAndRestore on(recording, true);
    const SaveAndRestore from(depth, 0);
    status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  }
  lua_pushnil(L);
  set_registered(L, &kWatcher);
  if (status != 0) lua_error(L);
  return lua_gettop(L);
}

const Entry kRecord[] = {
    {"record(fn, watcher, ..)",
     "fn(..), with watcher called before and after calls of C++ functions: bindings/core/lua.h.",
     Body(record) | kKeepsNames},
    {"identity(x)", "Numbers that identify the tensor and its storage while they exist.",
     bind<[](const Tensor& x) {
       return std::pair(double(uintptr_t(x.impl())), double(uintptr_t(x.impl()->storage)));
     }>},
};

}  // namespace

int record_call(Args& a, int (*run)(Args&)) {
  const SaveAndRestore deeper(depth, depth + 1);
  notify(a.L, &a.entry(), lua_gettop(a.L));
  const int results = run(a);
  notify(a.L, nullptr, results);
  return results;
}

void add_record(lua_State* L) { add_internal(L, kRecord); }

}  // namespace mt::lua
