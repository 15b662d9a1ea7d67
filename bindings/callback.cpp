// callback.cpp -- Lua functions that the engine keeps: hooks, gradients that the user wrote
#include "bindings/callback.h"

#include <new>

namespace mt::lua {

/// Of a Lua state: whether it lives, and its main thread.
struct Callback::State {
  lua_State* L;
  bool open = true;
  double next = 0;
};

namespace {
const char kState = 0, kWeak = 0, kOwned = 0;  // registry keys; the mark of an environment of ours

void push_at(lua_State* L, const char* key) {
  lua_pushlightuserdata(L, const_cast<char*>(key));
  lua_rawget(L, LUA_REGISTRYINDEX);
}
}  // namespace

/// The state's entry in the registry, made on first use.
std::shared_ptr<Callback::State> Callback::state_of(lua_State* L) {
  using Held = std::shared_ptr<State>;
  push_at(L, &kState);
  if (void* found = lua_touserdata(L, -1)) {
    lua_pop(L, 1);
    return *static_cast<Held*>(found);
  }
  lua_pop(L, 1);
  lua_pushlightuserdata(L, const_cast<char*>(&kWeak));
  lua_newtable(L);  // id -> function
  lua_newtable(L);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
  lua_pushlightuserdata(L, const_cast<char*>(&kState));
  Held* held = new (lua_newuserdata(L, sizeof(Held))) Held(std::make_shared<State>(State{L}));
  lua_newtable(L);
  lua_pushcfunction(L, [](lua_State* closing) {
    Held* dying = static_cast<Held*>(lua_touserdata(closing, 1));
    (*dying)->open = false;
    dying->~Held();
    return 0;
  });
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
  return *held;
}

Callback::Callback(lua_State* L, int index) : state_(state_of(L)) {
  lua_pushvalue(L, index);
  ref_ = luaL_ref(L, LUA_REGISTRYINDEX);
}

Callback::Callback(lua_State* L, int index, int owner) : state_(state_of(L)) {
  id_ = ++state_->next;
  push_at(L, &kWeak);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, int(id_));
  lua_pop(L, 1);
  lua_getfenv(L, owner);
  lua_pushlightuserdata(L, const_cast<char*>(&kOwned));
  lua_rawget(L, -2);
  const bool own = lua_toboolean(L, -1);
  lua_pop(L, own ? 1 : 2);
  if (!own) {
    lua_newtable(L);
    lua_pushlightuserdata(L, const_cast<char*>(&kOwned));
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pushvalue(L, -1);
    lua_setfenv(L, owner);
  }
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, int(id_));
  lua_pop(L, 1);
}

Callback::~Callback() {
  if (state_->open && ref_ != LUA_NOREF) luaL_unref(state_->L, LUA_REGISTRYINDEX, ref_);
}

bool Callback::push(lua_State* L) const {
  if (!state_->open) return false;
  if (ref_ != LUA_NOREF) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, ref_);
    return true;
  }
  push_at(L, &kWeak);
  lua_rawgeti(L, -1, int(id_));
  lua_remove(L, -2);
  if (lua_isfunction(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

}  // namespace mt::lua
