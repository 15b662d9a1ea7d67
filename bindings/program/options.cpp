// options.cpp -- the flags of scripts (mt.args), parsed by the library that parses the program's own
#include <CLI/CLI.hpp>
#include <deque>

#include "bindings/core/module.h"

namespace mt::lua {
namespace {

/// One flag: its type comes from the default, a list is a choice.
struct Flag {
  std::string name;
  int type;  // LUA_TNUMBER, LUA_TSTRING, LUA_TBOOLEAN
  std::string text;
  double number = 0;
  bool on = false;
  std::vector<std::string> choices;
};

std::string default_text(const Flag& f) {
  return f.type == LUA_TNUMBER   ? fmt::format("{}", f.number)
         : f.type == LUA_TSTRING ? f.text
         : f.on                  ? "true"
                                 : "false";
}

/// Reads the table of defaults at stack index 1, in alphabetical order.
std::deque<Flag> read_flags(const Args& a) {
  lua_State* L = a.L;
  std::deque<Flag> flags;
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      fail("args: every option needs a name, got the key {}", describe(L, -2));
    Flag f{lua_tostring(L, -2), lua_type(L, -1), "", 0, false, {}};
    const int value = lua_gettop(L);
    if (f.type == LUA_TTABLE) {
      f.type = LUA_TSTRING;
      for (int k = 1, n = int(lua_objlen(L, value)); k <= n; ++k) {
        lua_rawgeti(L, value, k);
        if (lua_type(L, -1) != LUA_TSTRING)
          fail("args: the choices of '{}' must be strings", f.name);
        f.choices.push_back(lua_tostring(L, -1));
        lua_pop(L, 1);
      }
      if (f.choices.empty()) fail("args: '{}' has no choices", f.name);
      f.text = f.choices[0];
    } else if (f.type == LUA_TNUMBER) {
      f.number = lua_tonumber(L, -1);
    } else if (f.type == LUA_TBOOLEAN) {
      f.on = lua_toboolean(L, -1);
    } else if (f.type == LUA_TSTRING) {
      f.text = lua_tostring(L, -1);
    } else {
      fail(
          "args: the default of '{}' must be a number, a string, a boolean or a list of choices, "
          "got {}",
          f.name, describe(L, -1));
    }
    flags.push_back(f);
    lua_pop(L, 1);
  }
  std::sort(flags.begin(), flags.end(),
            [](const Flag& x, const Flag& y) { return x.name < y.name; });
  return flags;
}

/// --dry-run for dry_run.
std::string dashed(const Flag& f) {
  std::string name = "--" + f.name;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

void declare(CLI::App& app, Flag& f) {
  const std::string before = default_text(f);
  std::string spelling = dashed(f);
  if (spelling != "--" + f.name) spelling += ",--" + f.name;
  if (f.type == LUA_TBOOLEAN) {
    app.add_flag(spelling, f.on, "default " + before)->ignore_case();
  } else if (f.type == LUA_TNUMBER) {
    app.add_option(spelling, f.number, "default " + before)->ignore_case()->type_name("NUMBER");
  } else {
    std::string help = f.choices.empty()
                           ? "default '" + before + "'"
                           : fmt::format("{}; default {}", fmt::join(f.choices, " | "), before);
    CLI::Option* option = app.add_option(spelling, f.text, help)->ignore_case()->type_name("TEXT");
    if (!f.choices.empty()) option->check(CLI::IsMember(f.choices, CLI::ignore_case));
  }
}

std::string unknown(const std::string& word, const std::deque<Flag>& flags) {
  std::vector<std::string> names;
  for (const Flag& f : flags) names.push_back(dashed(f));
  if (word.substr(0, 2) != "--") return fmt::format("'{}' is not a flag; see --help", word);
  const std::string close = nearest(names, word.substr(0, word.find('=')));
  return fmt::format("unknown flag {}{}", word,
                     close.empty() ? "; see --help" : " (did you mean " + close + "?)");
}

}  // namespace

/// parse_args(defaults, arguments, script) -> values, or nil and a sentence, or false and the help
/// text.
int parse_args(Args& a) {
  lua_State* L = a.L;
  a.table(1);
  a.table(2);
  std::deque<Flag> flags = read_flags(a);
  CLI::App app("", "mtorch " + a.text(3));
  app.allow_extras();
  for (Flag& f : flags) {
    try {
      declare(app, f);
    } catch (const CLI::ConstructionError&) {
      fail("args: '{}' cannot be the name of a flag, or is one already", f.name);
    }
  }
  std::vector<std::string> words;
  for (int k = int(lua_objlen(L, 2)); k >= 1; --k) {  // CLI11 wants them reversed
    lua_rawgeti(L, 2, k);
    words.push_back(lua_tostring(L, -1) ? lua_tostring(L, -1) : "");
    lua_pop(L, 1);
  }
  try {
    app.parse(words);
    if (!app.remaining().empty()) throw CLI::ParseError(unknown(app.remaining()[0], flags), 2);
  } catch (const CLI::CallForHelp&) {
    lua_pushboolean(L, 0);
    lua_pushstring(L, app.help().c_str());
    return 2;
  } catch (const CLI::ParseError& e) {
    lua_pushnil(L);
    lua_pushstring(L, e.what());
    return 2;
  }
  lua_createtable(L, 0, int(flags.size()));
  for (const Flag& f : flags) {
    if (f.type == LUA_TNUMBER) lua_pushnumber(L, f.number);
    else if (f.type == LUA_TBOOLEAN) lua_pushboolean(L, f.on);
    else {
      std::string text =
          f.text;  // a choice is returned as it was declared, whatever the case given
      for (const std::string& c : f.choices)
        if (strcasecmp(c.c_str(), text.c_str()) == 0) text = c;
      lua_pushlstring(L, text.data(), text.size());
    }
    lua_setfield(L, -2, f.name.c_str());
  }
  return 1;
}

}  // namespace mt::lua
