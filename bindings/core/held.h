// held.h -- C++ objects that Lua holds as userdata
#pragma once
#include <memory>

#include "bindings/core/lua.h"

namespace mt::lua {

/// A userdata that ends what it holds. T::kShown names it in errors, and is its metatable's key.
template <class T> struct Held {
  const char* kind = T::kShown;
  std::unique_ptr<T> object;

  static T* push(lua_State* L, std::unique_ptr<T> object) {
    Held* h = new (lua_newuserdata(L, sizeof(Held))) Held;
    push_metatable(L);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_createtable(L, 0, 2);
      lua_pushcfunction(L, collect);
      lua_setfield(L, -2, "__gc");
      lua_pushboolean(L, false);
      lua_setfield(L, -2, "__metatable");
      lua_pushlightuserdata(L, const_cast<char*>(T::kShown));
      lua_pushvalue(L, -2);
      lua_rawset(L, LUA_REGISTRYINDEX);
    }
    lua_setmetatable(L, -2);
    h->object = std::move(object);
    return h->object.get();
  }
  static void push_metatable(lua_State* L) {
    lua_pushlightuserdata(L, const_cast<char*>(T::kShown));
    lua_rawget(L, LUA_REGISTRYINDEX);
  }
  static int collect(lua_State* L) {
    static_cast<Held*>(lua_touserdata(L, 1))->object.reset();
    return 0;
  }
  static T& at(const Args& a, int i) {
    Held* h = static_cast<Held*>(lua_touserdata(a.L, i));
    if (!h || lua_objlen(a.L, i) != sizeof(Held) || h->kind != T::kShown || !h->object)
      a.wrong(i, T::kShown);
    return *h->object;
  }
};

}  // namespace mt::lua
