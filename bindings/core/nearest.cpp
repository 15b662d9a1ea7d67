// nearest.cpp -- the name that someone meant: the nearest one of those that there are
#include <algorithm>

#include "bindings/core/lua.h"

namespace mt::lua {

namespace {

/// Edits from one name to another: insert, delete, replace, exchange neighbours. Case is ignored.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  auto same = [](char x, char y) { return std::tolower(x) == std::tolower(y); };
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + !same(a[i - 1], b[j - 1])});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(const std::vector<std::string>& names, const std::string& name) {
  std::string best;
  if (name.size() > 100) return best;  // no name of ours; the distance takes time as its square
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    const size_t d = distance(name, candidate);
    if (d < least) least = d, best = candidate;
  }
  return best;
}

std::string nearest_key(lua_State* L, int i, const std::string& name,
                        std::vector<std::string> names) {
  lua_pushvalue(L, i);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    if (lua_type(L, -2) == LUA_TSTRING) names.push_back(lua_tostring(L, -2));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  std::sort(names.begin(), names.end());
  return nearest(names, name);
}

}  // namespace mt::lua
