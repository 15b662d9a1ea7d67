// luajit.cpp -- a stock luajit for systems without that program: runs the code after -e
#include <cstdio>
#include <cstring>
#include <lua.hpp>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  lua_State* L = luaL_newstate();
  luaL_openlibs(L);
  const bool failed = luaL_loadbuffer(L, argv[2], std::strlen(argv[2]), "=(command line)") != 0 ||
                      lua_pcall(L, 0, 0, 0) != 0;
  if (failed) std::fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_close(L);
  return failed;
}
