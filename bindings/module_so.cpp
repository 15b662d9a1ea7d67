// module_so.cpp -- mtorch as a C module of a stock luajit: mtorch.so, for `require 'mtorch'`
#include "bindings/open.h"

extern "C" __attribute__((visibility("default"))) int luaopen_mtorch(lua_State* L) {
  mt::open_lua(L);
  return 1;
}
