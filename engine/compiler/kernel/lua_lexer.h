// lua_lexer.h -- Lua source as tokens
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct LuaToken {
  enum Kind { name, number, string, keyword, symbol, end } kind;
  std::string_view text;  // of a string with its quotes
  int line;
  bool is(std::string_view word) const {
    return (kind == keyword || kind == symbol) && text == word;
  }
};

/// Source that Lua has compiled; the tokens point into `text`.
struct LuaSource {
  std::string text, name;  // name: what messages call the chunk, "train.lua"
  std::vector<LuaToken> tokens;
  LuaSource(std::string text, std::string name);
  LuaSource(const LuaSource&) = delete;

  /// A function in it: its token `function`, the parenthesis of its parameters, its `end`.
  struct Place {
    int function, open, end;
  };
  /// The functions that debug.getinfo says begin and end on these lines.
  std::vector<Place> functions_at(int first_line, int last_line) const;
  /// What the source calls it: `local function NAME`, `NAME = mt.kernel(function`; or "kernel".
  std::string name_at(const Place&) const;
};

/// What a string token stands for.
std::string lua_string(std::string_view token);

}  // namespace mt
