// lua_parser.cpp -- converts Lua source to tokens, and a function of numbers to a syntax tree
#include "engine/compiler/kernel/lua_parser.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "engine/core/read_number.h"

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
    for (skip_blanks(); at_ < text_.size(); skip_blanks()) token();
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
  void skip_blanks() {
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
  void token() {
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
  std::vector<int> open;  // the tokens that begin the blocks around token i
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

/// Appends the character of the escape sequence at text[i], after its backslash; returns the index after the sequence.
static size_t unescape(std::string_view text, size_t i, std::string& out) {
  constexpr std::string_view kLetters = "abfnrtv", kCharacters = "\a\b\f\n\r\t\v";
  if (const size_t k = kLetters.find(text[i]); k != kLetters.npos)
    return out += kCharacters[k], i + 1;
  if (text[i] == 'z') return std::min(text.find_first_not_of(" \f\n\r\t\v", i + 1), text.size());
  const int base = text[i] == 'x' ? 16 : 10;
  const std::string_view digits = text.substr(i + (base == 16), base == 16 ? 2 : 3);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, base);
  if (error != std::errc()) return out += text[i], i + 1;
  return out += char(value), size_t(end - text.begin());
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
    i = unescape(token, i + 1, s) - 1;
  }
  return s;
}

// ---- the parser ------------------------------------------------------------------------------------

namespace ast {
namespace {

struct Binary {
  std::string_view text;
  int left, right;  // priorities; p and a or q and b or c is read as p and a or (q and b or c)
};
constexpr Binary kBinary[] = {{"+", 6, 6},  {"-", 6, 6},   {"*", 7, 7},  {"/", 7, 7},
                              {"%", 7, 7},  {"^", 10, 9},  {"..", 5, 4}, {"==", 3, 3},
                              {"~=", 3, 3}, {"<", 3, 3},   {"<=", 3, 3}, {">", 3, 3},
                              {">=", 3, 3}, {"and", 2, 2}, {"or", 1, 0}};
constexpr int kUnary = 8, kMaxDepth = 150;

class Parser {
 public:
  Parser(const LuaSource& s, const LuaSource::FunctionTokens& p, Function& f)
      : source_(s),
        at_(p.open),
        f_(f) {}

  void run() {
    open_scope();
    expect("(");
    while (!now().is(")")) {
      if (now().is("...")) refuse("'...' is not supported in kernels; name the parameters");
      declare(name("the name of a parameter"));
      ++f_.parameters;
      if (!accept(",")) break;
    }
    expect(")");
    f_.body = block();
    expect("end");
  }

 private:
  const LuaToken& now() const { return source_.tokens[at_]; }
  bool accept(std::string_view word) { return now().is(word) && (++at_, true); }
  void expect(std::string_view word) {
    if (!accept(word)) refuse("'{}' is expected near '{}'", word, now().text);
  }
  template <class... A>
  [[noreturn]] void refuse(fmt::format_string<A...> why, A&&... values) const {
    fail_at(f_, now().line, why, std::forward<A>(values)...);
  }
  void refuse_function() const {
    if (now().is("function"))
      refuse("a kernel defines no functions; define it outside, kernels call such functions");
  }
  std::string name(const char* what) {
    if (now().kind != LuaToken::name) refuse("{} is expected near '{}'", what, now().text);
    return std::string(source_.tokens[at_++].text);
  }

  // ---- variables ---------------------------------------------------------------------------------

  void open_scope() { scopes_.push_back(visible_.size()); }
  void close_scope() {
    visible_.resize(scopes_.back());
    scopes_.pop_back();
  }
  int declare(const std::string& name) {
    f_.variables.push_back(name), f_.assigned.push_back(false);
    visible_.push_back(int(f_.variables.size()) - 1);
    return visible_.back();
  }
  int find(const std::string& name) const {
    for (size_t i = visible_.size(); i-- > 0;)
      if (f_.variables[visible_[i]] == name) return visible_[i];
    return -1;
  }

  // ---- statements --------------------------------------------------------------------------------

  Block block() {
    Block list;
    open_scope();
    statements(list);
    close_scope();
    return list;
  }
  bool at_end() const {
    const LuaToken& t = now();
    return t.is("end") || t.is("else") || t.is("elseif") || t.is("until") ||
           t.kind == LuaToken::end;
  }
  void statements(Block& list) {
    while (!at_end()) {
      if (accept(";")) continue;
      auto s = std::make_unique<Statement>();
      s->line = now().line;
      const bool last = now().is("return") || now().is("break");
      statement(*s);
      list.push_back(std::move(s));
      if (last) {
        accept(";");
        break;
      }
    }
  }
  void statement(Statement& s) {
    using S = Statement;
    if (accept("local")) return local(s);
    if (accept("if")) return branch(s);
    if (accept("while")) {
      s.kind = S::while_loop;
      s.right.push_back(expression());
      return body(s, "do");
    }
    if (now().is("do")) return s.kind = S::block, body(s, "do");
    if (accept("for")) return count(s);
    if (accept("repeat")) return repeat(s);
    if (accept("break")) return void(s.kind = S::break_loop);
    if (accept("return")) {
      s.kind = S::return_values;
      if (!at_end() && !now().is(";")) s.right = expressions();
      return;
    }
    refuse_function();
    if (now().is("goto") || now().is("::"))
      refuse("goto is not supported in kernels; use while, break or return");
    expression_statement(s);
  }
  void body(Statement& s, std::string_view word) {
    expect(word);
    s.blocks.push_back(block());
    expect("end");
  }
  void local(Statement& s) {
    s.kind = Statement::local;
    refuse_function();
    std::vector<std::string> names;
    do {
      names.push_back(name("a name"));
      if (now().is("<")) refuse("LuaJIT has no attributes of locals");
    } while (accept(","));
    if (accept("=")) s.right = expressions();
    for (const std::string& n : names) s.variables.push_back(declare(n));
  }
  void branch(Statement& s) {
    s.kind = Statement::branch;
    do {
      s.right.push_back(expression());
      expect("then");
      s.blocks.push_back(block());
    } while (accept("elseif"));
    if (accept("else")) s.blocks.push_back(block());
    expect("end");
  }
  void count(Statement& s) {
    s.kind = Statement::count;
    const std::string variable = name("a name");
    if (now().is("in") || now().is(","))
      refuse("a for over an iterator is not supported in kernels; use for i = 1, n do");
    expect("=");
    s.right = expressions();
    if (s.right.size() < 2 || s.right.size() > 3)
      refuse("a for takes first, last and perhaps a step");
    open_scope();
    s.variables.push_back(declare(variable));
    body(s, "do");
    close_scope();
  }
  void repeat(Statement& s) {  // the condition can use the body's locals
    s.kind = Statement::repeat;
    open_scope();
    s.blocks.emplace_back();
    statements(s.blocks[0]);
    expect("until");
    s.right.push_back(expression());
    close_scope();
  }
  void expression_statement(Statement& s) {
    s.left.push_back(suffixed());
    if (s.left[0]->kind == Expression::call && !s.left[0]->single && !now().is("=") &&
        !now().is(","))
      return void(s.kind = Statement::call);
    s.kind = Statement::assign;
    while (accept(",")) s.left.push_back(suffixed());
    for (const Expr& e : s.left)
      if (e->kind == Expression::free)
        fail_at(
            f_, e->line,
            "'{}' is not a local of the kernel and cannot be set; write local {} = .., or a tensor",
            e->text, e->text);
      else if (e->kind != Expression::local && e->kind != Expression::index)
        fail_at(f_, e->line, "only locals and elements of tensors can be set");
    for (const Expr& e : s.left)
      if (e->kind == Expression::local) f_.assigned[e->variable] = true;
    expect("=");
    s.right = expressions();
  }

  // ---- expressions -------------------------------------------------------------------------------

  std::vector<Expr> expressions() {
    std::vector<Expr> list;
    do list.push_back(expression());
    while (accept(","));
    return list;
  }
  Expr make(Expression::Kind kind, std::string text = "") const {
    auto e = std::make_unique<Expression>();
    e->kind = kind, e->line = now().line, e->text = std::move(text);
    return e;
  }
  /// The same from the current token, and moves to the next one.
  Expr take(Expression::Kind kind) {
    Expr e = make(kind, std::string(now().text));
    ++at_;
    return e;
  }
  Expr expression(int limit = 0) {
    if (++depth_ > kMaxDepth) refuse("an expression is nested too deeply");
    Expr e;
    if (now().is("not") || now().is("-") || now().is("#")) {
      e = take(Expression::unary);
      e->args.push_back(expression(kUnary));
    } else {
      e = simple();
    }
    for (const Binary* b = binary(); b && b->left > limit; b = binary()) {
      if (b->text == "..")
        refuse("'..' joins strings, which kernels do not have; print takes several values");
      const auto kind = b->text == "and"  ? Expression::logical_and
                        : b->text == "or" ? Expression::logical_or
                                          : Expression::binary;
      Expr whole = take(kind);
      whole->args.push_back(std::move(e));
      whole->args.push_back(expression(b->right));
      e = std::move(whole);
    }
    --depth_;
    return e;
  }
  const Binary* binary() const {
    for (const Binary& b : kBinary)
      if (now().is(b.text)) return &b;
    return nullptr;
  }
  Expr simple() {
    const LuaToken& t = now();
    if (t.kind == LuaToken::number) return number();
    if (t.kind == LuaToken::string) {
      Expr e = take(Expression::string);
      if (t.text[0] != '[' && t.text.find("\\u{") != t.text.npos)
        refuse("the escape sequence \\u is not supported in kernels; write the character itself");
      e->text = lua_string(t.text);
      return e;
    }
    if (t.is("true") || t.is("false")) {
      Expr e = take(Expression::boolean);
      e->value = t.is("true");
      return e;
    }
    if (t.is("nil")) return ++at_, make(Expression::nil);
    if (t.is("...")) refuse("'...' is not supported in kernels; name the parameters");
    if (t.is("{") && at_ > 0 && source_.tokens[at_ - 1].is("["))
      refuse("a table is no index in kernels; an element is x[i][j]");
    if (t.is("{"))
      refuse(
          "a table is not supported in kernels; use a local for each value, a tensor or private(n)");
    refuse_function();
    return suffixed();
  }
  Expr number() {
    char* end = nullptr;
    Expr e = make(Expression::number, std::string(now().text));
    e->value = read_number(e->text.c_str(), &end);
    if (*end)
      refuse("the number {} is not supported in kernels; whole numbers are 64-bit without a suffix",
             e->text);
    const bool hex = e->text.find_first_of("xX") != e->text.npos;
    e->is_float = e->text.find_first_of(hex ? ".pP" : ".eE") != e->text.npos;
    ++at_;
    return e;
  }
  Expr suffixed() {
    Expr e;
    if (accept("(")) {
      e = expression();
      e->single = true;
      expect(")");
    } else {
      const int line = now().line;
      const std::string text = name("an expression");
      const int local = find(text);
      e = make(local < 0 ? Expression::free : Expression::local, text);
      e->variable = local, e->line = line;
    }
    for (;;) {
      if (now().is(".") || now().is("[")) e = indexed(std::move(e));
      else if (now().is("(")) e = called(std::move(e));
      else if (now().is(":"))
        refuse("kernels have no methods; sizes are x.shape[d] and #x, functions math.*");
      else if (now().kind == LuaToken::string || now().is("{"))
        refuse("a call in a kernel needs parentheses and numbers");
      else return e;
    }
  }
  Expr indexed(Expr object) {
    Expr e = make(Expression::index);
    if (accept(".")) {
      e->args.push_back(std::move(object));
      e->args.push_back(make(Expression::string, name("a name")));
    } else {
      expect("[");
      e->args.push_back(std::move(object));
      e->args.push_back(expression());
      if (now().is(",")) refuse("Lua has no a[i, j]; write a[i][j]");
      expect("]");
    }
    return e;
  }
  Expr called(Expr function) {
    Expr e = make(Expression::call);
    expect("(");
    e->args.push_back(std::move(function));
    while (!now().is(")")) {
      e->args.push_back(expression());
      if (!accept(",")) break;
    }
    expect(")");
    return e;
  }

  const LuaSource& source_;
  size_t at_;
  Function& f_;
  int depth_ = 0;
  std::vector<int> visible_;
  std::vector<size_t> scopes_;
};

}  // namespace

std::unique_ptr<Function> parse_function(const LuaSource& source,
                                         const LuaSource::FunctionTokens& place, std::string name) {
  auto f = std::make_unique<Function>();
  f->name = std::move(name), f->chunk = source.name;
  f->line = source.tokens[place.function].line;
  Parser(source, place, *f).run();
  return f;
}

}  // namespace ast
}  // namespace mt
