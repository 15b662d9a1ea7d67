// callback.h -- Lua functions that the engine keeps: hooks, gradients that the user wrote
#pragma once
#include <memory>

#include "bindings/core/lua.h"
#include "engine/autograd/graph.h"

namespace mt::lua {

/// A Lua function kept for later calls. It may outlive the Lua state; then it is no longer called.
///
/// A function may hold the tensor that it is kept for, or one computed from that, and Lua's collector
/// cannot see the way through the graph that closes the circle. So the function of a leaf's hook lives
/// in the environment of the tensor's userdata: where that is garbage, so is the function. What leads
/// to a node can be more than userdata; therefore the registry holds the function too, until a cycle
/// of the collector finds that all owners of all that leads to the node are userdata that the function
/// itself leads to (and the tensor's own). From then on it lives in their environments alone, until
/// one of those nodes gets another owner.
class Callback : public std::enable_shared_from_this<Callback> {
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
  /// From now on it is kept as long as something leads to this node or checkpoint, which owns it.
  void keep_for(const void* holder);
  /// Keeps it in the registry: something else leads to its tensor's node.
  void hold();
  /// Lets the collector's next cycle look for functions, and circles of gradients, that are garbage.
  static void watch(lua_State* L);

 private:
  struct State;
  static std::shared_ptr<State> state_of(lua_State* L);
  static int on_gc(lua_State* L);
  bool release_root();
  std::shared_ptr<State> state_;
  std::shared_ptr<Hook> watcher_;  // of the nodes that lead to the holder
  int ref_ = LUA_NOREF;            // in the registry, and
  int id_ = 0;                     // in the weak tables and the environments
  const void* holder_ = nullptr;   // to compare with only
  int scan_count_ = 0,
      next_scan_ = 0;  // how often the graph was too long to be walked; the cycle to look again
};

}  // namespace mt::lua
