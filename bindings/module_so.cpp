// module_so.cpp -- mtorch as a C module of a stock luajit: mtorch.so, for `require 'mtorch'`
#include <cstdio>

#include "bindings/core/module.h"
#include "bindings/open.h"

extern "C" __attribute__((visibility("default"))) int luaopen_mtorch(lua_State* L) {
  mt::open_lua(L);
  // Once, and not where the host has turned its compiler off.
  static const bool old = [L] {
    const mt::lua::LuaJit host = mt::lua::luajit_of(L);
    if (host.old)
      std::fprintf(
          stderr,
          "mtorch: %s, which runs this, %s; run a newer one (Debian's package luajit2), or call jit.off() before "
          "require 'mtorch'\n",
          host.name.c_str(), mt::lua::kOldLuaJit);
    return host.old;
  }();
  static_cast<void>(old);
  return 1;
}
