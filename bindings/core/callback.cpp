// callback.cpp -- Lua functions that the engine keeps: hooks, user-defined gradients
#include "bindings/core/callback.h"

#include <algorithm>
#include <new>
#include <unordered_set>

#include "engine/autograd/cycles.h"

namespace mt::lua {

/// What belongs to one Lua state: a thread, and the callbacks that tensors own.
///
/// The thread is used only for its stack: the coroutine of the first call may be garbage later, and
/// Lua 5.1 has no access to the main thread.
struct Callback::State {
  lua_State* L;  // in the registry while the state is open
  bool open = true;
  int next = 0;
  int cycle = 0;  // the number of collector cycles
  std::vector<Callback*> kept = {};
  bool watched = false;  // the next cycle of the collector will check them
};

namespace {
// Registry keys; kOwned marks an environment that was created here.
const char kState = 0, kThread = 0, kFunctions = 0, kOwners = 0, kOwned = 0;

/// Makes a table in the registry with weak values.
void make_weak(lua_State* L, const char* key) {
  lua_newtable(L);
  lua_newtable(L);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  set_registered(L, key);
}

void push_entry(lua_State* L, const char* key, int id) {
  push_registered(L, key);
  lua_rawgeti(L, -1, id);
  lua_remove(L, -2);
}

/// Stores the value at `index` in a table of the registry.
void set_entry(lua_State* L, const char* key, int id, int index) {
  push_registered(L, key);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, id);
  lua_pop(L, 1);
}

/// Pushes the userdata's environment if push_environment created it.
bool push_own_environment(lua_State* L, int owner) {
  lua_getfenv(L, owner);
  lua_pushlightuserdata(L, const_cast<char*>(&kOwned));
  lua_rawget(L, -2);
  const bool own = lua_toboolean(L, -1);
  lua_pop(L, own ? 1 : 2);
  return own;
}

/// Pushes the userdata's own environment, which is created on first use.
void push_environment(lua_State* L, int owner) {
  if (push_own_environment(L, owner)) return;
  lua_newtable(L);
  lua_pushlightuserdata(L, const_cast<char*>(&kOwned));
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pushvalue(L, -1);
  lua_setfenv(L, owner);
}

/// The tensor at a stack index; null if it is already finalised, as while a state is being closed.
const Tensor* live_tensor(lua_State* L, int i) {
  try {
    return tensor_at(L, i);
  } catch (const Error&) { return nullptr; }
}

/// Appends tensors that are reachable from the value at `from` (upvalues, fields, functions that
/// tensors keep) to the table at `list`, nearest first; the number of values visited is limited.
void register_tensors(lua_State* L, int from, int list) {
  constexpr int kMaxQueued = 400;
  std::unordered_set<const void*> visited;
  lua_newtable(L);  // the queue of values
  const int queue = lua_gettop(L);
  int queued = 0;
  const auto visit = [&] {  // pops a value
    const int type = lua_type(L, -1);
    const bool has_children = type == LUA_TFUNCTION || type == LUA_TTABLE || type == LUA_TUSERDATA;
    if (has_children && queued < kMaxQueued && visited.insert(lua_topointer(L, -1)).second)
      lua_rawseti(L, queue, ++queued);
    else lua_pop(L, 1);
  };
  lua_pushvalue(L, from);
  visit();
  for (int i = 1; i <= queued; ++i) {
    lua_rawgeti(L, queue, i);
    const int at = lua_gettop(L);
    if (lua_isfunction(L, at)) {
      for (int k = 1; lua_getupvalue(L, at, k); ++k) visit();
    } else if (lua_istable(L, at)) {
      for (lua_pushnil(L); queued < kMaxQueued && lua_next(L, at);) visit();
    } else if (live_tensor(L, at)) {
      lua_pushvalue(L, at);
      lua_rawseti(L, list, int(lua_objlen(L, list)) + 1);
      if (push_own_environment(L, at)) visit();
    }
    lua_settop(L, queue);
  }
  lua_settop(L, queue - 1);
}
}  // namespace

/// The state's entry in the registry, made on first use.
std::shared_ptr<Callback::State> Callback::state_of(lua_State* L) {
  using StatePtr = std::shared_ptr<State>;
  push_registered(L, &kState);
  if (void* found = lua_touserdata(L, -1)) {
    lua_pop(L, 1);
    const StatePtr& held = *static_cast<StatePtr*>(found);
    if (!held) fail("the Lua state is being closed: no function can be kept for a later call");
    return held;
  }
  lua_pop(L, 1);
  make_weak(L, &kFunctions);
  make_weak(L, &kOwners);
  lua_State* thread = lua_newthread(L);
  set_registered(L, &kThread);
  StatePtr* held =
      new (lua_newuserdata(L, sizeof(StatePtr))) StatePtr(std::make_shared<State>(State{thread}));
  lua_newtable(L);
  lua_pushcfunction(L, [](lua_State* closing) {  // later finalizers find it empty
    if (StatePtr* dying = static_cast<StatePtr*>(lua_touserdata(closing, 1)); dying && *dying) {
      (*dying)->open = false;
      dying->reset();
    }
    return 0;
  });
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  set_registered(L, &kState);
  return *held;
}

Callback::Callback(lua_State* L, int index) : state_(state_of(L)) {
  lua_pushvalue(L, index);
  ref_ = luaL_ref(L, LUA_REGISTRYINDEX);
}

Callback::Callback(lua_State* L, int index, int owner) : state_(state_of(L)), id_(++state_->next) {
  set_entry(L, &kFunctions, id_, index);
  set_entry(L, &kOwners, id_, owner);
  push_environment(L, owner);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, id_);
  lua_pop(L, 1);
  const TensorImpl* const t = tensor_at(L, owner)->impl();
  holder_ = t->node ? static_cast<const void*>(t->node) : t;
  state_->kept.push_back(this);
  hold();
}

void Callback::keep_for(const void* holder) {
  lua_State* L = state_->L;
  id_ = ++state_->next;
  holder_ = holder;
  if (!lua_checkstack(L, 6) || !push(L)) return;
  set_entry(L, &kFunctions, id_, lua_gettop(L));
  lua_pop(L, 1);
  state_->kept.push_back(this);
  watch(L);
}

Callback::~Callback() {
  auto& all = state_->kept;
  if (holder_) all.erase(std::remove(all.begin(), all.end(), this), all.end());
  if (!state_->open) return;
  lua_State* L = state_->L;
  luaL_unref(L, LUA_REGISTRYINDEX, ref_);
  if (!id_ || !lua_checkstack(L, 6)) return;
  push_entry(L, &kOwners, id_);
  if (lua_isuserdata(L, -1)) {  // a hook that was removed
    push_environment(L, lua_gettop(L));
    lua_pushnil(L);
    lua_rawseti(L, -2, id_);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

bool Callback::push(lua_State* L) const {
  if (!state_->open) return false;
  if (ref_ != LUA_NOREF) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, ref_);
    return true;
  }
  push_entry(L, &kFunctions, id_);
  if (lua_isfunction(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

lua_State* Callback::call(const char* gone, int results) const {
  lua_State* const L = current_state();
  if (!L || !lua_checkstack(L, 8) || !push(L)) fail("{}", gone);
  lua_call(L, 0, results);
  return L;
}

void Callback::hold() {
  lua_State* L = state_->L;
  if (!state_->open || ref_ != LUA_NOREF || !lua_checkstack(L, 8) || !push(L)) return;
  ref_ = luaL_ref(L, LUA_REGISTRYINDEX);
  watch(L);
}

/// Moves the reference from the registry to the environments of all tensors that lead to the
/// holder; false while not all of them are known.
bool Callback::release_root() {
  lua_State* L = state_->L;
  const int top = lua_gettop(L), function = top + 1, list = top + 2;
  if (!lua_checkstack(L, 12) || !push(L)) return false;
  lua_newtable(L);
  push_entry(L, &kOwners, id_);
  if (live_tensor(L, -1)) lua_rawseti(L, list, 1);
  else lua_pop(L, 1);
  register_tensors(L, function, list);
  OwnerGraph graph;
  std::unordered_set<const void*> visited;  // the owner may be reachable from the function
  const int n = int(lua_objlen(L, list));
  for (int i = 1; i <= n; ++i) {
    lua_rawgeti(L, list, i);
    if (visited.insert(lua_topointer(L, -1)).second) graph.start(live_tensor(L, -1)->impl(), 1);
    lua_pop(L, 1);
  }
  // A cycle through a long graph is found by a later, longer search, so that with many functions in
  // one graph not every collection walks the whole graph for each of them.
  if (!graph.walk(size_t(32) << scan_count_)) {
    next_scan_ = state_->cycle + (1 << scan_count_);
    scan_count_ = std::min(scan_count_ + 1, 24);
  }
  std::vector<Node*> nodes;
  std::vector<TensorImpl*> tensors;
  const bool all = graph.owned_within(holder_, nodes, tensors);
  for (int i = 1; all && i <= n; ++i) {
    lua_rawgeti(L, list, i);
    const TensorImpl* t = live_tensor(L, -1)->impl();
    if (std::ranges::find(tensors, t) != tensors.end()) {
      push_environment(L, lua_gettop(L));
      lua_pushvalue(L, function);
      lua_rawseti(L, -2, id_);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  lua_settop(L, top);
  if (!all) return false;
  if (!watcher_) {
    const std::weak_ptr<Callback> self = weak_from_this();
    watcher_ = std::make_shared<Hook>(Hook{{}, [self] {
                                             if (const auto callback = self.lock())
                                               callback->hold();
                                           }});
  }
  for (Node* node : nodes) {
    auto& hooks = node->ensure_extra().hooks;
    if (std::ranges::find(hooks, watcher_) == hooks.end()) hooks.push_back(watcher_);
  }
  luaL_unref(L, LUA_REGISTRYINDEX, std::exchange(ref_, LUA_NOREF));
  return true;
}

/// Creates garbage that calls `on_gc` when it is collected.
void Callback::watch(lua_State* L) {
  const std::shared_ptr<State> state = state_of(L);
  if (std::exchange(state->watched, true)) return;
  lua_newuserdata(L, 1);
  lua_newtable(L);
  lua_pushcfunction(L, on_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

/// In each cycle of the collector: functions that only their tensors need are moved out of the
/// registry, and reference cycles of gradients are dropped.
int Callback::on_gc(lua_State* L) {
  push_registered(L, &kState);
  void* found = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!found) return 0;
  const std::shared_ptr<State> state = *static_cast<std::shared_ptr<State>*>(found);
  if (!state) return 0;  // the Lua state is being closed
  state->watched = false;
  ++state->cycle;
  bool more = false;
  for (Callback* c : state->kept)
    if (c->ref_ != LUA_NOREF && (state->cycle < c->next_scan_ || !c->release_root())) more = true;
  collect_cycles();
  if (more || any_suspects()) watch(L);
  return 0;
}

}  // namespace mt::lua
