// callback.h -- Lua functions that the engine keeps: hooks, gradients that the user wrote
#pragma once
#include <memory>

#include "bindings/lua.h"

namespace mt::lua {

/// A Lua function kept for later calls. It may outlive the Lua state; then it is no longer called.
///
/// A function may hold the tensor that it is kept for, and Lua's collector cannot see the way through
/// the graph that closes the circle. So the function of a hook lives in the environment of its
/// tensor's userdata: where that is garbage, so is the function. A computed tensor can be garbage
/// while results made of it still lead to its node; then the registry holds the function too, until a
/// cycle of the collector finds the node with no other owner.
class Callback {
 public:
  /// Keeps the function at a stack index alive.
  Callback(lua_State* L, int index);
  /// Keeps it as long as the tensor at `owner` is reachable in Lua, and if that is no leaf, as long
  /// as something else leads to its node.
  Callback(lua_State* L, int index, int owner, bool leaf);
  Callback(const Callback&) = delete;
  ~Callback();
  /// Pushes the function; false where it is gone.
  bool push(lua_State* L) const;
  /// Keeps it in the registry: something else leads to its tensor's node.
  void hold();

 private:
  struct State;
  static std::shared_ptr<State> state_of(lua_State* L);
  static void watch(lua_State* L);
  static int look_again(lua_State* L);
  bool alone() const;
  std::shared_ptr<State> state_;
  int ref_ = LUA_NOREF;        // in the registry, and
  int id_ = 0;                 // in the weak tables and the owner's environment
  const void* node_ = nullptr;  // of a computed tensor, to compare with only
};

}  // namespace mt::lua
