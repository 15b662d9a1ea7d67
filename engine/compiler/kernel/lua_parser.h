// lua_parser.h -- parses a Lua function of numbers to a syntax tree
//
// The language of kernels: locals, arithmetic, comparisons, and or not, if, while, repeat, numeric
// for, break, return, indexing and calls. Anything else is an Error with the construct, its line
// and the nearest supported form.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"

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

/// The value of a string token, with its escape sequences replaced; those of \u are not supported.
std::string lua_string(std::string_view token);

namespace ast {

struct Expression;
struct Statement;
using Expr = std::unique_ptr<Expression>;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Expression {
  enum Kind {
    number,
    boolean,
    nil,
    string,
    local,
    free,
    index,
    call,
    unary,
    binary,
    logical_and,
    logical_or
  } kind;
  int line;
  double value = 0;        // of a number or boolean
  std::string text;        // of a string; a name; an operator
  int variable = -1;       // of a local: its index in the function
  bool single = false;     // in parentheses: only the first of several results
  bool is_float = false;   // a number that is written with a point or an exponent
  std::vector<Expr> args;  // operands; object and key; the callee and its arguments
};

struct Statement {
  enum Kind {
    local,
    assign,
    call,
    block,
    while_loop,
    repeat,
    branch,
    count,
    return_values,
    break_loop
  } kind;
  int line;
  std::vector<int> variables;  // the declared variables
  std::vector<Expr> left, right;
  std::vector<Block> blocks;
};

struct Function {
  std::string name, chunk;  // "matmul", "train.lua"
  int line = 0;
  int parameters = 0;                  // the first variables
  std::vector<std::string> variables;  // their names
  std::vector<bool> assigned;          // whether each is assigned after its declaration
  Block body;
};

/// Parses a function.
std::unique_ptr<Function> parse_function(const LuaSource&, const LuaSource::FunctionTokens&,
                                         std::string name);

/// Throws Error: "kernel: train.lua:12: sentence".
template <class... A>
[[noreturn]] void fail_at(const Function& f, int line, fmt::format_string<A...> text,
                          A&&... values) {
  mt::fail("kernel: {}:{}: {}", f.chunk, line, fmt::format(text, std::forward<A>(values)...));
}

}  // namespace ast
}  // namespace mt
