// nearest.cpp -- the intended name, the nearest one of the existing names; hints
#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>

#include "bindings/core/lua.h"

namespace mt::lua {

/// The edit distance of two names: insert, delete, replace, exchange neighbours; case is ignored.
static size_t distance(const std::string& a, const std::string& b) {
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

std::string nearest(const std::vector<std::string>& names, const std::string& name) {
  std::string best;
  if (name.size() > 100) return best;  // longer than any name; the distance takes quadratic time
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    const size_t d = distance(name, candidate);
    if (d < best_distance && d <= std::max<size_t>(1, candidate.size() / 3))
      best_distance = d, best = candidate;
  }
  if (!best.empty() || name.size() < 3) return best;
  for (const std::string& candidate : names)  // otherwise the shortest name with this prefix
    if (strncasecmp(candidate.c_str(), name.c_str(), name.size()) == 0 &&
        (best.empty() || candidate.size() < best.size()))
      best = candidate;
  return best;
}

std::string advice(lua_State* L, const std::string& owner, const std::string& name,
                   const std::vector<std::string>& names) {
  const int top = lua_gettop(L);
  std::string text;
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(L, -1, "mtorch.core");
  lua_getfield(L, -1, "advice");
  lua_pushstring(L, owner.c_str());
  lua_pushstring(L, name.c_str());
  push_list(L, names, [L](const std::string& s) { push_text(L, s); });
  if (lua_pcall(L, 3, 1, 0) == 0 && lua_isstring(L, -1)) text = lua_tostring(L, -1);
  lua_settop(L, top);
  return text;
}

void hint(const std::string& sentence) {
  static std::mutex mutex;
  static std::set<std::string> said;
  lua_State* const L = current_state();
  const std::string text = (L ? position(L) : "") + sentence;
  const std::scoped_lock lock(mutex);
  if (said.insert(text).second) std::fputs(("mtorch: " + text + "\n").c_str(), stderr);
}

void hint_single(const char* operation, const Tensor& x, int64_t dim, int result) {
  if (dim != 0 || x.dim() < 2 || x.size(0) != 1 || x.numel() == 1) return;
  hint(fmt::format(
      "{}: dimension 1 has one element, so all results are {}; PyTorch's dim=1 is 2 or -1 here",
      operation, result));
}

}  // namespace mt::lua
