// callback.h -- Lua functions that the engine keeps: hooks, user-defined gradients
#pragma once
#include <memory>

#include "bindings/core/lua.h"
#include "engine/autograd/graph.h"

namespace mt::lua {

/// A Lua function kept for later calls. It may outlive the Lua state; then it is not called.
///
/// A function may own the tensor that it is kept for, or one computed from that, and Lua's
/// collector does not see the path through the graph that closes the cycle. So the function is kept
/// in the environment of the tensor's userdata: both become garbage together. The tensor (a leaf) or
/// its node can have other owners than userdata; therefore the registry keeps the function too, until
/// in a cycle of the collector all owners of everything that leads to the leaf or node are userdata
/// that the function itself leads to (and the tensor's own). Then only their environments keep it,
/// until one of those gets another owner.
class Callback : public std::enable_shared_from_this<Callback> {
 public:
  /// Keeps the function at a stack index alive.
  Callback(lua_State* L, int index);
  /// Keeps it as long as the tensor at `owner` is reachable in Lua, or something else leads to it
  /// or to its node.
  Callback(lua_State* L, int index, int owner);
  Callback(const Callback&) = delete;
  ~Callback();
  /// Pushes the function; false if it no longer exists.
  bool push(lua_State* L) const;
  /// Calls it without arguments in the Lua state of the current call, and leaves the results there; throws Error with
  /// the sentence if it no longer exists.
  lua_State* call(const char* gone, int results) const;
  /// Keeps it from now on as long as something leads to this node or Unsaved, which owns it.
  void keep_for(const void* holder);
  /// Keeps it in the registry, because something else leads to its tensor or node.
  void hold();
  /// Makes the collector's next cycle look for unreachable functions and cycles of gradients.
  static void watch(lua_State* L);

 private:
  struct State;
  static std::shared_ptr<State> state_of(lua_State* L);
  static int on_gc(lua_State* L);
  bool release_root();
  std::shared_ptr<State> state_;
  std::shared_ptr<Hook> watcher_;  // of the nodes that lead to the holder
  int ref_ = LUA_NOREF;            // the key in the registry
  int id_ = 0;                     // the key in the weak tables and the environments
  const void* holder_ = nullptr;   // the leaf or node, only for comparison
  // How often the graph was too long to be walked; the cycle of the next attempt.
  int scan_count_ = 0, next_scan_ = 0;
};

}  // namespace mt::lua
