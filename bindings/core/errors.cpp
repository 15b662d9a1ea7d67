// errors.cpp -- the text of errors: the line, the value, the name that was meant; hints
#include <strings.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

#include "bindings/core/lua.h"

namespace mt::lua {

/// Reads the string field `key` of the table at the top, without metamethods; false without one.
static bool take_string(lua_State* L, const char* key, std::string& text) {
  lua_pushstring(L, key);
  lua_rawget(L, -2);
  const bool found = lua_type(L, -1) == LUA_TSTRING;
  if (found) text = lua_tostring(L, -1);
  lua_pop(L, 1);
  return found;
}

/// "the module Linear", "the class Linear" (not an instance), "a DataLoader": library tables.
static std::string class_at(lua_State* L, int i) {
  const int top = lua_gettop(L);
  std::string name, text;
  lua_pushvalue(L, i);
  if (lua_istable(L, -1)) {
    lua_pushliteral(L, "__class");
    lua_rawget(L, -2);
    if (lua_istable(L, -1) && take_string(L, "__name", name)) text = "the module " + name;
    lua_settop(L, top);
    lua_pushvalue(L, i);
    if (text.empty() && take_string(L, "__name", name))
      text = fmt::format("the class {0}; {0}(..) makes an object", name);
  }
  if (text.empty() && lua_getmetatable(L, -1) && lua_istable(L, -1) &&
      take_string(L, "__name", name))
    text = (std::strchr("AEIOUaeiou", name[0]) ? "an " : "a ") + name;
  lua_settop(L, top);
  return text;
}

std::string_view library_file(const lua_Debug& frame) {
  const std::string_view source = frame.source, own = "@mtorch/";
  return source.starts_with(own) ? source.substr(own.size()) : "";
}

const char* hint_of_surplus(lua_State* L, int i) {
  return tensor_at(L, i) || lua_istable(L, i)
             ? "; g(x) as the last argument passes all its results on, (g(x)) only the first"
             : "";
}

/// Where the UTF-8 character that has this byte begins; in other data at most 3 bytes before it.
static size_t character_start(const std::string& s, size_t byte) {
  for (int k = 0; k < 3 && byte > 0 && (uint8_t(s[byte]) & 0xc0) == 0x80; ++k) --byte;
  return byte;
}

std::string describe(lua_State* L, int i) {
  switch (lua_type(L, i)) {
    case LUA_TNONE: return "nothing";
    case LUA_TNIL: return "nil";
    case LUA_TNUMBER: return show(lua_tonumber(L, i));
    case LUA_TBOOLEAN: return lua_toboolean(L, i) ? "true" : "false";
    case LUA_TSTRING: {
      std::string s = lua_tostring(L, i);
      if (s.size() > 40) s = s.substr(0, character_start(s, 37)) + "...";
      return fmt::format("the string '{}'", s);
    }
    default: break;
  }
  if (const Tensor* t = tensor_at(L, i))
    return fmt::format("a tensor {} {}", to_string(t->shape()), dtype_name(t->dtype()));
  if (const std::string name = class_at(L, i); !name.empty()) return name;
  return fmt::format("a {}", lua_typename(L, lua_type(L, i)));
}

std::string shortened(std::string text) {
  constexpr size_t kMaxLine = 800, kHead = 500, kTail = 200;
  constexpr size_t kMaxLength = 20000;  // of the text: a compiler's log may be long
  const auto cut = [](std::string& s, size_t from, size_t to) {
    from = character_start(s, from), to = character_start(s, to);
    s.replace(from, to - from, fmt::format(" .. ({} bytes) .. ", to - from));
  };
  if (text.size() > kMaxLength) cut(text, kMaxLength - 5000, text.size() - 5000);
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > kMaxLine) {
      const size_t before = text.size();
      cut(text, begin + kHead, end - kTail);
      end -= before - text.size();
    }
    begin = end + 1;
  }
  return text;
}

std::string named(const std::string& operation, const std::string& sentence) {
  size_t n = 0;
  while (n < sentence.size() && (std::isalnum(sentence[n]) || sentence[n] == '_')) ++n;
  const bool has_name = n > 0 && sentence.compare(n, 2, ": ") == 0;
  return operation + ": " + (has_name ? sentence.substr(n + 2) : sentence);
}

std::string position(lua_State* L) { return call_core(L, "position", 0); }

std::string call_core(lua_State* L, const char* name, int arguments) {
  if (!lua_checkstack(L, 8)) return "";
  const int top = lua_gettop(L) - arguments;
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(L, -1, "mtorch.core");
  lua_getfield(L, -1, name);
  lua_insert(L, top + 1);
  lua_settop(L, top + 1 + arguments);
  const bool good = lua_pcall(L, arguments, 1, 0) == 0;
  const std::string text(good ? text_at(L, -1) : "");
  lua_settop(L, top);
  return text;
}

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
  push_text(L, owner), push_text(L, name);
  push_list(L, names, [L](const std::string& s) { push_text(L, s); });
  return call_core(L, "advice", 3);
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

bool c_stack_left() {
  constexpr ptrdiff_t kReserve = 256 << 10;  // for the deepest function of mtorch
  const char* const lowest = stack_bounds().first;
  return !lowest || static_cast<const char*>(__builtin_frame_address(0)) - lowest >= kReserve;
}

}  // namespace mt::lua
