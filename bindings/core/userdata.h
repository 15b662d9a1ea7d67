// userdata.h -- C++ objects that Lua holds as userdata
#pragma once
#include <memory>

#include "bindings/core/lua.h"

namespace mt::lua {

/// A userdata that destroys its object. T::kShown is its name in errors, and its metatable's key.
template <class T> struct Userdata {
  const char* kind = T::kShown;
  std::unique_ptr<T> object;

  static T* push(lua_State* L, std::unique_ptr<T> object) {
    Userdata* h = new (lua_newuserdata(L, sizeof(Userdata))) Userdata;
    push_metatable(L);
    lua_setmetatable(L, -2);
    h->object = std::move(object);
    return h->object.get();
  }
  /// Pushes the metatable, which is created on first use.
  static void push_metatable(lua_State* L) {
    push_registered(L, T::kShown);
    if (!lua_isnil(L, -1)) return;
    lua_pop(L, 1);
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
    lua_pushvalue(L, -1);
    set_registered(L, T::kShown);
  }
  static int collect(lua_State* L) {
    if (Userdata* h = find(L, 1)) h->object.reset();
    return 0;
  }
  /// Null for other values. A userdata whose object was destroyed is empty.
  static Userdata* find(lua_State* L, int i) {
    Userdata* h = static_cast<Userdata*>(lua_touserdata(L, i));
    return h && lua_objlen(L, i) == sizeof(Userdata) && h->kind == T::kShown ? h : nullptr;
  }
  static T& at(const Args& a, int i) {
    Userdata* h = find(a.L, i);
    if (!h || !h->object) a.wrong(i, T::kShown);
    return *h->object;
  }
};

}  // namespace mt::lua
