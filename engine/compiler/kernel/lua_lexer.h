// lua_lexer.h -- converts Lua source to tokens
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct LuaToken {
  enum Kind { name, number, string, keyword, symbol, end } kind;
  std::string_view text;  // a string includes its quotes
  int line;
  bool is(std::string_view word) const {
    return (kind == keyword || kind == symbol) && text == word;
  }
};

/// Source that Lua has compiled; the tokens point into `text`.
struct LuaSource {
  std::string text, name;  // name: the chunk in messages, "train.lua"
  std::vector<LuaToken> tokens;
  LuaSource(std::string text, std::string name);
  LuaSource(const LuaSource&) = delete;

  /// A function: the tokens of its `function`, its parameters' parenthesis, and its `end`.
  struct FunctionTokens {
    int function, open, end;
  };
  /// The functions that begin and end on these lines according to debug.getinfo.
  std::vector<FunctionTokens> functions_at(int first_line, int last_line) const;
  /// The name in the source: `local function NAME`, `NAME = mt.kernel(function`; or "kernel".
  std::string name_at(const FunctionTokens&) const;
};

/// The value of a string token.
std::string lua_string(std::string_view token);

}  // namespace mt
