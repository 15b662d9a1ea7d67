// luajit.cpp -- detects which LuaJIT a state runs on, and works around a bug of old ones
//
// LuaJIT compiles loops over pairs and next since 2021. Until commit dad04f17 of September 2022 a
// trace could enter such a loop where the last one had stopped, and skipped iterations. Both have
// the version 2.1.0-beta3, so the test is for the option `fma`, which came three months later. On Arm
// its compiler had more faults until 2023: there every beta, which is from before August 2023, interprets all.
#include "bindings/core/module.h"

namespace mt::lua {
namespace {

// Returns the version and branch, whether it is old, and the function of keep_loops_interpreted.
constexpr char kLook[] = R"lua(local has, opt = pcall(require, 'jit.opt')
local faulty = jit.arch == 'arm64' and jit.version:find 'beta'
if faulty then jit.off() end
local old = has and jit.status() and not pcall(opt.start, '-fma')
local version, stamp = jit.version:match '^(.*%.)(%d+)$'
if tonumber(stamp) and tonumber(stamp) > 1e9 then
  version = ('%s%s of %s'):format(version, stamp, os.date('!%Y-%m-%d', tonumber(stamp)))
else version = jit.version end
return version .. (jit.prngstate and ", OpenResty's branch" or ", LuaJIT's own branch") ..
  (faulty and ', interpreted: its compiler has faults on Arm' or ''), old, function(f)
  local util, code = require 'jit.util', require('bit').band
  local loop = code(util.funcbc(function(t) for _ in next, t do end end, 4), 255) -- what such a loop begins with
  local function visit(part)
    local pc, constant = 1, -1
    while util.funcbc(part, pc) do
      if code(util.funcbc(part, pc), 255) == loop then jit.off(part) break end
      pc = pc + 1
    end
    while util.funck(part, constant) ~= nil do
      if type(util.funck(part, constant)) == 'proto' then visit(util.funck(part, constant)) end
      constant = constant - 1
    end
  end
  visit(f)
end)lua";

constexpr const char* kKeeper =
    "mtorch.keep_loops_interpreted";  // in the registry: the function above, or false

void look(lua_State* L) {
  if (luaL_loadbuffer(L, kLook, sizeof kLook - 1, "=mtorch") != 0) lua_error(L);
  lua_call(L, 0, 3);
}

}  // namespace

LuaJit luajit_of(lua_State* L) {
  look(L);
  LuaJit found{lua_tostring(L, -3), lua_toboolean(L, -2) != 0};
  lua_pop(L, 3);
  return found;
}

void keep_loops_interpreted(lua_State* L) {
  lua_getfield(L, LUA_REGISTRYINDEX, kKeeper);
  if (lua_isnil(L, -1)) {
    look(L);  // pushes above nil: name, old, function
    if (!lua_toboolean(L, -2)) lua_pop(L, 1), lua_pushboolean(L, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, kKeeper);
    lua_replace(L, -4), lua_pop(L, 2);
  }
  if (!lua_toboolean(L, -1)) return lua_pop(L, 1);
  lua_pushvalue(L, -2);
  lua_call(L, 1, 0);
}

}  // namespace mt::lua
