// embed.cpp -- a host with a Lua state of its own: a line of Lua, an error with its Lua line, the end of the state
#include <mtorch/lua.h>
#include <mtorch/mtorch.h>

#include <cstdio>

int main() {
  lua_State* L = luaL_newstate();
  luaL_openlibs(L);
  mt::open_lua(L);
  if (lua_gettop(L) != 1) return 1;  // the module, and nothing else
  lua_setglobal(L, "mt");            // a host may want it as a global
  const int status = luaL_dostring(
      L, "kept = mt.tensor({1, 2, 3}); print(kept:sum():item(), mt == require 'mtorch')");
  if (status != 0) std::puts(lua_tostring(L, -1));
  const char text[] = "local y = mt.ones(2, 3):matmul(mt.ones(4, 5))";
  if (luaL_loadbuffer(L, text, sizeof text - 1, "=host.lua") != 0 || lua_pcall(L, 0, 0, 0) != 0)
    std::puts(lua_tostring(L, -1));
  lua_close(L);
  std::printf("%g\n", mt::ones({4}).sum().item());  // the engine goes on without Lua
  try {
    mt::empty({int64_t(1) << 43}, mt::Dtype::f32);  // nor does it ask the closed state to collect
  } catch (const mt::Error&) {}
  return status;
}
