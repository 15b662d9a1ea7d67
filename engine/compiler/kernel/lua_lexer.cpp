// lua_lexer.cpp -- converts Lua source to tokens
#include "engine/compiler/kernel/lua_lexer.h"

#include <algorithm>
#include <cctype>

namespace mt {
namespace {

constexpr std::string_view kKeywords[] = {"and",   "break", "do",       "else", "elseif", "end",
                                          "false", "for",   "function", "goto", "if",     "in",
                                          "local", "nil",   "not",      "or",   "repeat", "return",
                                          "then",  "true",  "until",    "while"};
constexpr std::string_view kSymbols[] = {"...", "..", "==", "~=", "<=", ">=", "::"};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  std::vector<LuaToken> run() {
    if (text_.substr(0, 3) == "\xef\xbb\xbf") at_ = 3;
    if (peek() == '#') skip_line();
    for (skip(); at_ < text_.size(); skip()) one();
    tokens_.push_back({LuaToken::end, "", line_});
    return std::move(tokens_);
  }

 private:
  char peek(size_t further = 0) const {
    return at_ + further < text_.size() ? text_[at_ + further] : '\0';
  }
  static bool is_letter(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80);
  }
  void skip_line() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  /// The level of a long bracket that starts here, or -1.
  int long_bracket() const {
    size_t k = 1;
    if (peek() != '[') return -1;
    while (peek(k) == '=') ++k;
    return peek(k) == '[' ? int(k) - 1 : -1;
  }
  void skip_long(int level) {
    const std::string close = "]" + std::string(level, '=') + "]";
    const size_t end = std::min(text_.find(close, at_), text_.size() - close.size());
    line_ += int(std::count(text_.begin() + long(at_), text_.begin() + long(end), '\n'));
    at_ = end + close.size();
  }
  void skip() {
    while (at_ < text_.size()) {
      const char c = peek();
      if (c == '\n') ++line_, ++at_;
      else if (std::isspace(static_cast<unsigned char>(c))) ++at_;
      else if (c == '-' && peek(1) == '-') comment();
      else return;
    }
  }
  void comment() {
    at_ += 2;
    if (const int level = long_bracket(); level >= 0) skip_long(level);
    else skip_line();
  }
  void add(LuaToken::Kind kind, size_t from, int line) {
    tokens_.push_back({kind, text_.substr(from, at_ - from), line});
  }
  void one() {
    const size_t from = at_;
    const int line = line_;
    const char c = peek();
    if (std::isdigit(static_cast<unsigned char>(c)) ||
        (c == '.' && std::isdigit(static_cast<unsigned char>(peek(1))))) {
      number();
      return add(LuaToken::number, from, line);
    }
    if (is_letter(c)) {
      while (is_letter(peek())) ++at_;
      const std::string_view word = text_.substr(from, at_ - from);
      const bool known =
          std::find(std::begin(kKeywords), std::end(kKeywords), word) != std::end(kKeywords);
      return add(known ? LuaToken::keyword : LuaToken::name, from, line);
    }
    if (c == '"' || c == '\'') {
      quoted(c);
      return add(LuaToken::string, from, line);
    }
    if (const int level = long_bracket(); level >= 0) {
      skip_long(level);
      return add(LuaToken::string, from, line);
    }
    size_t length = 1;
    for (const std::string_view s : kSymbols)
      if (text_.substr(at_, s.size()) == s) length = std::max(length, s.size());
    at_ += length;
    add(LuaToken::symbol, from, line);
  }
  void number() {
    const bool hex = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
    while (is_letter(peek()) || peek() == '.' ||
           ((peek() == '+' || peek() == '-') && std::tolower(text_[at_ - 1]) == (hex ? 'p' : 'e')))
      ++at_;
  }
  void quoted(char quote) {
    for (++at_; at_ < text_.size() && peek() != quote; ++at_) {
      if (peek() == '\\') ++at_;
      if (peek() == '\n') ++line_;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<LuaToken> tokens_;
};

}  // namespace

LuaSource::LuaSource(std::string source, std::string chunk)
    : text(std::move(source)),
      name(std::move(chunk)),
      tokens(Lexer(text).run()) {}

std::vector<LuaSource::FunctionTokens> LuaSource::functions_at(int first, int last) const {
  std::vector<FunctionTokens> found;
  std::vector<int> open;  // tokens whose `end` or `until` is missing so far
  for (int i = 0; i < int(tokens.size()); ++i) {
    const LuaToken& t = tokens[i];
    if (t.is("function") || t.is("if") || t.is("do") || t.is("repeat")) {
      open.push_back(i);
    } else if ((t.is("end") || t.is("until")) && !open.empty()) {
      const int from = open.back();
      open.pop_back();
      if (!tokens[from].is("function") || t.line != last) continue;
      int at = from + 1;
      while (at < i && !tokens[at].is("(")) ++at;
      if (tokens[from].line == first || tokens[size_t(from) + 1].line == first)
        found.push_back({from, at, i});
    }
  }
  return found;
}

std::string LuaSource::name_at(const FunctionTokens& p) const {
  std::string name;
  for (int k = p.function + 1; k < p.open; ++k) name += tokens[k].text;
  int at = p.function - 1;  // skips `mt.kernel(` backwards
  if (at >= 1 && tokens[at].is("(")) {
    for (--at; at >= 1 && (tokens[at].kind == LuaToken::name || tokens[at].is("."));) --at;
  }
  if (name.empty() && at >= 1 && tokens[at].is("=") &&
      tokens[size_t(at) - 1].kind == LuaToken::name)
    name = tokens[size_t(at) - 1].text;
  return name.empty() ? "kernel" : name;
}

std::string lua_string(std::string_view token) {
  if (token.size() < 2) return "";
  if (token[0] == '[') {
    const size_t k = token.find('[', 1) + 1;
    token = token.substr(k, token.size() - 2 * k);
    return std::string(token.substr(!token.empty() && token[0] == '\n'));
  }
  std::string s;
  for (size_t i = 1; i + 1 < token.size(); ++i) {
    if (token[i] != '\\') {
      s += token[i];
      continue;
    }
    const char c = token[++i];
    s += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
  }
  return s;
}

}  // namespace mt
