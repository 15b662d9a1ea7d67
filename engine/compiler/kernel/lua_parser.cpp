// lua_parser.cpp -- parses a Lua function of numbers to a syntax tree
#include "engine/compiler/kernel/lua_parser.h"

#include <cstdlib>

namespace mt::ast {
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
  const LuaToken& next() const {
    return source_.tokens[std::min(at_ + 1, source_.tokens.size() - 1)];
  }
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
    if (accept("break")) return void(s.kind = S::leave);
    if (accept("return")) {
      s.kind = S::give_back;
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
      if (now().is("<")) refuse("attributes of locals are not there in this Lua");
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
  /// The same from the current token, which is consumed.
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
      const auto kind = b->text == "and"  ? Expression::both
                        : b->text == "or" ? Expression::either
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
    if (t.is("{"))
      refuse(
          "a table is not supported in kernels; use a local for each value, a tensor or shared(n)");
    refuse_function();
    return suffixed();
  }
  Expr number() {
    char* end = nullptr;
    Expr e = make(Expression::number, std::string(now().text));
    e->value = std::strtod(e->text.c_str(), &end);
    if (*end)
      refuse("the number {} is not supported in kernels; whole numbers are 64-bit as they are",
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
        refuse("methods are not there in kernels; sizes are x.shape[d] and #x, functions math.*");
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
      if (now().is(",")) refuse("a[i, j] is not there in Lua; write a[i][j]");
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

}  // namespace mt::ast
