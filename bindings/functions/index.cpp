// index.cpp -- reading and writing at positions that are data
#include "bindings/functions/functions.h"
#include "engine/ops.h"

namespace mt::lua {
namespace {


/// Functions of the module that are methods of their first argument too.
const Entry kMethods[] = {
    {"index_select(x, dim, index)", "The positions of a dimension that an integer tensor lists.",
     [](Args& a) {
       return a.push(index_select(a.tensor(1), a.position(2), from_positions(a.tensor(3))));
     }},
    {"gather(x, dim, index)", "out[i][j] = x[index[i][j]][j] along dim 1, and so on.",
     [](Args& a) {
       return a.push(gather(a.tensor(1), a.position(2), from_positions(a.tensor(3))));
     }},
};

}  // namespace

void open_index(lua_State* L) {
  add_methods(L, kMethods);
  for (const char* name : {"newaxis", "ellipsis"}) {
    lua_pushlightuserdata(L, marker(name));
    lua_setfield(L, -2, name);
  }
}

}  // namespace mt::lua
