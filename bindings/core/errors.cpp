// errors.cpp -- the text of errors: the line, the value, and a limit on the length

#include <cctype>
#include <cstring>

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

std::string describe(lua_State* L, int i) {
  switch (lua_type(L, i)) {
    case LUA_TNONE: return "nothing";
    case LUA_TNIL: return "nil";
    case LUA_TNUMBER: return show(lua_tonumber(L, i));
    case LUA_TBOOLEAN: return lua_toboolean(L, i) ? "true" : "false";
    case LUA_TSTRING: {
      std::string s = lua_tostring(L, i);
      if (s.size() > 40) s.resize(37), s += "...";
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
  constexpr size_t kLongest = 800, kHead = 500, kTail = 200;  // of a line
  constexpr size_t kMaxLength = 20000;  // of the text: a compiler's log may be long
  const auto cut = [](std::string& s, size_t from, size_t to) {
    const auto inside = [&s](size_t i) {
      return (uint8_t(s[i]) & 0xc0) == 0x80;
    };  // a continuation byte of UTF-8
    while (from > 0 && inside(from)) --from;
    while (to < s.size() && inside(to)) ++to;
    s.replace(from, to - from, fmt::format(" .. ({} bytes) .. ", to - from));
  };
  if (text.size() > kMaxLength) cut(text, kMaxLength - 5000, text.size() - 5000);
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > kLongest) {
      const size_t before = text.size();
      cut(text, begin + kHead, end - kTail);
      end -= before - text.size();
    }
    begin = end + 1;
  }
  return text;
}

namespace {

/// Pushes self, the first local of this frame, if it is a module; false if it is not.
bool push_module(lua_State* L, lua_Debug& frame) {
  if (!lua_getlocal(L, &frame, 1)) return false;
  if (lua_istable(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

/// "Net.forward, net.lua:12-15" for a module on top of the stack whose frame, and its line, was
/// removed by a tail call.
std::string forward_of(lua_State* L) {
  const int top = lua_gettop(L);
  std::string text;
  lua_getfield(L, top, "forward");
  if (lua_isfunction(L, -1) && !lua_iscfunction(L, -1)) {
    lua_Debug forward;
    lua_getinfo(L, ">S", &forward);
    lua_getfield(L, top, "__name");
    const int first = forward.linedefined, last = forward.lastlinedefined;
    if (library_file(forward).empty())
      text =
          fmt::format("{}.forward, {}:{}{}", lua_isstring(L, -1) ? lua_tostring(L, -1) : "module",
                      forward.short_src, first, last > first ? fmt::format("-{}", last) : "");
  }
  lua_settop(L, top);
  return text;
}

/// ".fc", "[2]": the shortest key under which the table at `parent` contains the one at `child`; ""
/// if it does not. An intermediate list of modules is included, ".layers[1]".
std::string key_of(lua_State* L, int parent, int child, bool lists = true) {
  std::string found;
  const auto consider = [&](const std::string& key) {
    if (found.empty() || std::pair(key.size(), key) < std::pair(found.size(), found)) found = key;
  };
  for (lua_pushnil(L); lua_next(L, parent); lua_pop(L, 1)) {
    const std::string key =
        lua_type(L, -2) == LUA_TNUMBER   ? fmt::format("[{}]", lua_tonumber(L, -2))
        : lua_type(L, -2) == LUA_TSTRING ? fmt::format(".{}", lua_tostring(L, -2))
                                         : "";
    const bool own = key.compare(0, 3, ".__") != 0;
    if (own && lua_rawequal(L, -1, child)) {
      consider(key);
    } else if (own && lists && lua_istable(L, -1) && lua_checkstack(L, 8)) {
      const std::string inner = key_of(L, lua_gettop(L), child, false);
      if (!inner.empty()) consider(key + inner);
    }
  }
  return found;
}

/// "Sequential[2]", "Encoder.layers[1].linear1": the path through the modules on the stack from
/// `first` on, innermost first. "" for one module, or one that the outer module does not contain.
std::string module_path(lua_State* L, int first) {
  const int outermost = lua_gettop(L);
  std::string text;
  for (int child = first; child < outermost; ++child) {
    int parent = child + 1;
    const std::string key = key_of(L, parent, child);
    if (key.empty()) return "";
    text = key + text;
  }
  std::string name;
  if (text.empty()) return "";
  lua_pushvalue(L, outermost);
  lua_pushliteral(L, "__class");
  lua_rawget(L, -2);
  if (lua_istable(L, -1)) take_string(L, "__name", name);
  lua_settop(L, outermost);
  return name.empty() ? "" : name + text;
}

}  // namespace

std::string named(const std::string& operation, const std::string& sentence) {
  size_t n = 0;
  while (n < sentence.size() && (std::isalnum(sentence[n]) || sentence[n] == '_')) ++n;
  const bool has_name = n > 0 && sentence.compare(n, 2, ": ") == 0;
  return operation + ": " + (has_name ? sentence.substr(n + 2) : sentence);
}

std::string position(lua_State* L) {
  lua_Debug frame;
  std::string module;
  const int top = lua_gettop(L);
  for (int level = 0; lua_getstack(L, level, &frame); ++level) {
    lua_getinfo(L, "Slf", &frame);
    push_registered(L, &kModuleCall);
    const bool is_module_call = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    if (is_module_call && lua_checkstack(L, 8) && push_module(L, frame) && module.empty())
      module = forward_of(L);
    if (frame.currentline > 0 && library_file(frame).empty()) {
      std::string text = fmt::format("{}:{}: ", frame.short_src, frame.currentline);
      if (module.empty()) module = module_path(L, top + 1);
      if (!module.empty()) text += "(in " + module + ") ";
      lua_settop(L, top);
      return text;
    }
  }
  lua_settop(L, top);
  return "";
}

bool c_stack_left() {
  constexpr ptrdiff_t kReserve = 256 << 10;  // for the deepest function of mtorch
  const char* const lowest = stack_bounds().first;
  return !lowest || static_cast<const char*>(__builtin_frame_address(0)) - lowest >= kReserve;
}

}  // namespace mt::lua
