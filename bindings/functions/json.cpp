// json.cpp -- conversion between JSON and Lua values
#include "engine/io/json.h"

#include <algorithm>
#include <cmath>

#include "bindings/functions/functions.h"
#include "engine/io/bytes.h"
#include "engine/text/unicode.h"

namespace mt::lua {
namespace {

/// Pushes a value; null is the value at stack index `null`; lists get the metatable `list_meta`.
void push_json(lua_State* L, const Json& json, int null, int list_meta) {
  luaL_checkstack(L, 4, "JSON");
  if (json.as<std::nullptr_t>()) lua_pushvalue(L, null);
  else if (const bool* b = json.as<bool>()) lua_pushboolean(L, *b);
  else if (const int64_t* n = json.as<int64_t>()) push_whole(L, *n);
  else if (const double* x = json.as<double>()) lua_pushnumber(L, *x);
  else if (const std::string* s = json.as<std::string>()) push_text(L, *s);
  else if (const JsonList* list = json.as<JsonList>()) {
    push_list(L, *list, [=](const Json& item) { push_json(L, item, null, list_meta); });
    if (lua_istable(L, list_meta)) {
      lua_pushvalue(L, list_meta);
      lua_setmetatable(L, -2);
    }
  } else if (const JsonObject* object = json.as<JsonObject>()) {
    lua_createtable(L, 0, int(object->size()));
    for (const JsonMember& m : *object) {
      push_text(L, m.key);
      push_json(L, m.value, null, list_meta);
      lua_rawset(L, -3);
    }
  }
}

/// Writes Lua values as JSON: tables with keys 1..n are arrays, others objects with sorted keys.
struct Writer {
  lua_State* const L;
  const int list_meta, null;
  std::string text, path;
  int depth = 0;

  [[noreturn]] void reject(const std::string& what) const {
    fail("json: {} {}", path.empty() ? "the value" : printable(path), what);
  }
  void quote(int i) {
    if (!is_utf8(text_at(L, i))) reject("is a string that is not UTF-8");
    text += json_quoted(text_at(L, i));
  }
  /// Whether the table on top of the stack is a list: by its metatable, or with keys 1..n.
  bool is_list() const {
    if (lua_getmetatable(L, -1)) {
      const bool marked = lua_istable(L, list_meta) && lua_rawequal(L, -1, list_meta);
      lua_pop(L, 1);
      if (marked) return true;
    }
    const size_t n = lua_objlen(L, -1);
    size_t keys = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) ++keys;
    return n > 0 && keys == n;
  }
  void inside(const std::string& step) {
    const size_t before = path.size();
    path += step;
    write();
    lua_pop(L, 1);
    path.resize(before);
  }
  void list() {
    text += '[';
    for (size_t i = 1, n = lua_objlen(L, -1); i <= n; ++i) {
      if (i > 1) text += ',';
      lua_rawgeti(L, -1, int(i));
      inside(fmt::format("[{}]", i));
    }
    text += ']';
  }
  void object() {
    std::vector<std::string> keys;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
      if (lua_type(L, -2) != LUA_TSTRING)
        reject(fmt::format("has the key {}; keys of objects are strings", describe(L, -2)));
      keys.emplace_back(text_at(L, -2));
    }
    std::ranges::sort(keys);
    text += '{';
    for (const std::string& key : keys) {
      if (text.back() != '{') text += ',';
      if (!is_utf8(key)) reject("has a key that is not UTF-8");
      text += json_quoted(key) + ':';
      push_text(L, key);
      lua_rawget(L, -2);
      inside("." + key);
    }
    text += '}';
  }
  /// Writes the value on top of the stack, and leaves it there.
  void write() {
    if (null && lua_rawequal(L, -1, null)) return void(text += "null");
    switch (lua_type(L, -1)) {
      case LUA_TBOOLEAN: text += lua_toboolean(L, -1) ? "true" : "false"; break;
      case LUA_TNUMBER:
        if (!std::isfinite(lua_tonumber(L, -1)))
          reject(fmt::format("is {}, which JSON does not have", show(lua_tonumber(L, -1))));
        text += json_number(lua_tonumber(L, -1));
        break;
      case LUA_TSTRING: quote(-1); break;
      case LUA_TTABLE:
        if (++depth > kJsonDepth) reject("is nested too deeply; does a table contain itself?");
        luaL_checkstack(L, 8, "JSON");
        if (is_list()) list();
        else object();
        --depth;
        break;
      default: reject(fmt::format("is {}", describe(L, -1)));
    }
  }
};

const Entry kJson[] = {
    {"parse_json(text, ..)",
     "(text, null, list_meta): the value of a JSON text; null becomes `null`, lists get the metatable list_meta.",
     [](Args& a) {
       lua_settop(a.L, 3);
       push_json(a.L, parse_json(a.characters(1)), 2, 3);
       return 1;
     }},
    {"json_text([value], ..)",
     "(value, null, list_meta): a value as JSON. Tables with the keys 1..n or the metatable "
     "list_meta are lists, others objects.",
     [](Args& a) {
       lua_settop(a.L, 3);
       Writer w{a.L, 3, lua_isnil(a.L, 2) ? 0 : 2, "", ""};
       lua_pushvalue(a.L, 1);
       w.write();
       return a.push(w.text);
     }},
    {"json_quoted(text)", "A UTF-8 string as JSON; nil where it is not UTF-8.",
     [](Args& a) {
       if (!is_utf8(a.characters(1))) return 0;
       return a.push(json_quoted(a.characters(1)));
     }},
    {"json_number(x)", "A finite number as JSON, which is read as the same.", bind<json_number>},
};

}  // namespace

void add_json(lua_State* L) { add_internal(L, kJson); }

}  // namespace mt::lua
