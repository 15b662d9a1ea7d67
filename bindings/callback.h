// callback.h -- Lua functions that the engine keeps: hooks, gradients that the user wrote
#pragma once
#include <memory>

#include "bindings/lua.h"

namespace mt::lua {

/// A Lua function kept for later calls. It may outlive the Lua state; then it is no longer called.
class Callback {
 public:
  /// Keeps the function at a stack index alive.
  Callback(lua_State* L, int index);
  /// Keeps it as long as the tensor at `owner` is reachable in Lua: so that a function that holds
  /// its own tensor is garbage together with it.
  Callback(lua_State* L, int index, int owner);
  Callback(const Callback&) = delete;
  ~Callback();
  /// Pushes the function; false where it is gone.
  bool push(lua_State* L) const;

 private:
  struct State;
  static std::shared_ptr<State> state_of(lua_State* L);
  std::shared_ptr<State> state_;
  int ref_ = LUA_NOREF;  // in the registry, or
  double id_ = 0;        // in the weak table
};

}  // namespace mt::lua
