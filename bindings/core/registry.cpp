// registry.cpp -- the names of `mt` and of tensors' methods, and how they are added to a Lua state
#include "bindings/core/registry.h"

#include <cstring>

#include "bindings/functions/functions.h"

namespace mt::lua {

Registry::Name& Registry::name(const std::string& name) {
  const auto [at, fresh] = names_.try_emplace(name);
  if (fresh) subjects_.back().names.push_back(name);
  return at->second;
}

void Registry::subject(const char* title) { subjects_.push_back({title, {}}); }

void Registry::both(const Entry& e) {
  name(name_of(e)) = {&e, &e};
  if (!(e.body.facts & kInPlaceToo)) return;
  const std::string name = name_of(e);
  std::string rest = e.signature + name.size(), doc = e.op < 0 ? name + "." : e.doc;
  if (const size_t out = rest.find(", {out=}"); out != rest.npos)
    rest.erase(out, std::strlen(", {out=}"));
  doc.pop_back();
  Body body = e.body;
  body.facts = 0;
  const OwnedEntry& made = in_place_.emplace_back(
      fmt::format("{}_{}", name, rest), fmt::format("{}, written into x.", doc), body, e.op, true);
  both(made.entry);
}

void Registry::alias(const std::string& other, const std::string& of) {
  for (const char* suffix : {"", "_"})
    if (const Name* known = find(of + suffix)) {
      const Name same = *known;
      name(other + suffix) = same;
    }
}

const Registry::Name* Registry::find(const std::string& name) const {
  const auto at = names_.find(name);
  return at == names_.end() ? nullptr : &at->second;
}

const Registry& catalogue() {
  static const Registry all = [] {
    Registry c;
#define MT_LIST(name, title) c.subject(title), register_##name(c);
    MT_SUBJECTS(MT_LIST)
#undef MT_LIST
    return c;
  }();
  return all;
}

/// Pops a function and stores it as table[name], unless the table has this name already.
static void add_if_new(lua_State* L, int table, const std::string& name) {
  push_text(L, name);
  lua_pushvalue(L, -1);
  lua_rawget(L, table);
  const bool has = !lua_isnil(L, -1);
  lua_pop(L, 1);
  lua_insert(L, -2);
  if (has) lua_pop(L, 2);
  else lua_rawset(L, table);
}

static void open_into(lua_State* L, int module, int methods, const std::string& key,
                      const Registry::Name& name) {
  const Entry& entry = name.function ? *name.function : *name.method;
  if (const std::string own = name_of(entry); own != key) {  // the same function under each name
    if (const Registry::Name* first = catalogue().find(own);
        first && first->function == name.function && first->method == name.method) {
      open_into(L, module, methods, own, *first);
      for (const int table : {module, methods}) {
        push_text(L, own);
        lua_rawget(L, table);
        if (entry_at(L, -1) == &entry) add_if_new(L, table, key);
        else lua_pop(L, 1);
      }
    }
  }
  if (name.function) push_function(L, *name.function);
  if (name.method && name.method == name.function) lua_pushvalue(L, -1);
  else if (name.method) push_function(L, *name.method);
  if (name.method) add_if_new(L, methods, key);
  if (name.function) add_if_new(L, module, key);
}

bool open_name(lua_State* L, const std::string& name) {
  const Registry::Name* known = catalogue().find(name);
  if (!known) return false;
  const int top = lua_gettop(L);
  luaL_getmetatable(L, "mtorch.module");
  luaL_getmetatable(L, "mtorch.methods");
  open_into(L, top + 1, top + 2, name, *known);
  lua_settop(L, top);
  return true;
}

void open_all(lua_State* L) {
  const int top = lua_gettop(L);
  luaL_getmetatable(L, "mtorch.module");
  luaL_getmetatable(L, "mtorch.methods");
  lua_newtable(L);
  int n = 0;
  for (const Registry::Subject& subject : catalogue().subjects()) {
    lua_createtable(L, int(subject.names.size()), 1);
    lua_pushstring(L, subject.title);
    lua_setfield(L, -2, "title");
    int k = 0;
    for (const std::string& name : subject.names) {
      push_text(L, name);
      lua_rawseti(L, -2, ++k);
      open_into(L, top + 1, top + 2, name, *catalogue().find(name));
    }
    lua_rawseti(L, top + 3, ++n);
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

}  // namespace mt::lua
