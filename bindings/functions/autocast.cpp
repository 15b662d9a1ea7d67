// autocast.cpp -- mixed precision: mt.autocast
#include "bindings/core/autocast.h"
#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

void push_raw(lua_State* L, const char* key) {
  lua_pushstring(L, key);
  lua_rawget(L, 1);
}

/// The options of mt.autocast{fn, .., dtype=, device=, enabled=}: the table at index 1.
Autocast read_options(lua_State* L) {
  Autocast now{Dtype::bf16, Dtype::f16};
  each_named(L, 1, [&](const std::string& key) {
    if (key == "dtype") {
      const std::string name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
      const Dtype d = dtype_named(name);
      if (!is_half(d)) fail("autocast: dtype is {}; use 'float16' or 'bfloat16'", describe(L, -1));
      now.cpu = now.cuda = d;
    } else if (key != "device" && key != "enabled") {
      const std::string close = nearest({"dtype", "device", "enabled"}, key);
      fail("autocast: unknown option '{}'{}", key,
           close.empty() ? "; it takes dtype, device and enabled"
                         : fmt::format(" (did you mean '{}'?)", close));
    }
  });
  push_raw(L, "device");
  if (!lua_isnil(L, -1)) {
    const std::string name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (name != "cpu" && name != "cuda")
      fail("autocast: device is {}; use 'cpu' or 'cuda', or leave it out for both",
           describe(L, -1));
    if (name == "cpu") now.cuda = thread_state.autocast.cuda;
    else now.cpu = thread_state.autocast.cpu;
  }
  push_raw(L, "enabled");
  if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TBOOLEAN)
    fail("autocast: enabled is {}; use true or false", describe(L, -1));
  if (!lua_isnil(L, -1) && !lua_toboolean(L, -1)) {
    const std::string name = lua_isnil(L, -2) ? "" : lua_tostring(L, -2);
    now = {name == "cuda" ? thread_state.autocast.cpu : Dtype::none,
           name == "cpu" ? thread_state.autocast.cuda : Dtype::none};
  }
  lua_pop(L, 2);
  return now;
}

/// autocast(fn, ..) or autocast{fn, .., dtype=}: options are in the table, arguments in its list
/// part.
int autocast_body(Args& a) {
  lua_State* L = a.L;
  Autocast now{Dtype::bf16, Dtype::f16};
  const bool callable = lua_type(L, 1) != LUA_TTABLE || luaL_getmetafield(L, 1, "__call");
  if (callable) {
    if (lua_type(L, 1) == LUA_TTABLE) lua_pop(L, 1);
  } else {
    if (a.count() > 1)
      fail(
          "autocast: options go into one table with the function and its arguments: "
          "mt.autocast{{fn, x, dtype='float16'}}");
    now = read_options(L);
    const int n = int(lua_objlen(L, 1));
    luaL_checkstack(L, n + 4, "too many arguments");
    for (int i = 1; i <= n; ++i) lua_rawgeti(L, 1, i);
    lua_remove(L, 1);
  }
  a.function(1);
  const SaveAndRestore scope(thread_state.autocast, now);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

int is_autocasting(Args& a) {
  const std::string name = a.text(1);
  return a.push((name == "cpu" ? thread_state.autocast.cpu : thread_state.autocast.cuda) !=
                Dtype::none);
}

const Entry kAutocastFunctions[] = {
    {"autocast(fn, ..)",
     "Calls fn with the arguments and returns its results; inside, products, linear and convolutions "
     "of float32 run in 16 bits (bfloat16 on the CPU, float16 on a GPU), exp, log, sums, norms and "
     "losses in float32, all else in the widest dtype of its inputs. Call backward outside.\n"
     "With options as one table: mt.autocast{fn, x, dtype='bfloat16', device='cuda', enabled=true}.",
     autocast_body},
    {"is_autocast_enabled(device='cpu')", "Whether mt.autocast is active for a kind of device.",
     is_autocasting},
};

}  // namespace

void register_mixed(Registry& c) { c.functions(kAutocastFunctions); }

}  // namespace mt::lua
