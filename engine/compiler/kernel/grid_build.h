// grid_build.h -- converts the syntax tree of a grid kernel to statements (class of grid::build)
#pragma once
#include <string_view>

#include "engine/compiler/kernel/grid_ir.h"

namespace mt::grid {

/// The result of an expression: a number, or a name of one.
struct Item {
  enum Kind { nil, value, tensor, shape, word, captured, text, several } kind = nil;
  Value* number = nullptr;
  int index = -1;     // of a tensor
  GridValues prefix;  // its leading indices
  std::string name;   // of a word or text
  Path path;
  std::vector<Item> list;  // several results
  Item() = default;
  Item(Value* v) : kind(value), number(v) {}  // NOLINT: a value is an item
  Item(Kind k, int tensor) : kind(k), index(tensor) {}
  Item(Kind k, std::string n) : kind(k), name(std::move(n)) {}
};

/// Describes an item, for messages.
std::string described(const Kernel&, const Item&);
/// What kernels can call, for messages.
constexpr const char* kCallable =
    "math.*, bit.*, mt's functions of one element such as mt.erf, their own words, and Lua functions of numbers";

/// A call that is being inlined, with the values of its function's variables.
struct Frame {
  const ast::Function* function;
  int index;  // of the function
  std::vector<Item> locals;
  Frame* caller = nullptr;
  const Body* home = nullptr;  // the body of the call
  int site = 0;                // of a function of the library: the line of the call, for messages
  Statement* scope = nullptr;  // left by a return; null: the return is the last statement
  std::vector<int> results = {};  // variables
  bool returned = false;
};

class Builder {
 public:
  Builder(Kernel& p, CaptureResolver& o) : p_(p), resolver_(o) {}
  void run(const std::vector<CapturedName>& arguments);

 private:
  using Expr = ast::Expression;

  // grid_build.cpp: statements
  void body(Frame&, int line);
  void statements(const ast::Block&);
  void statement(const ast::Statement&, bool last);
  void local(const ast::Statement&);
  void assign(const ast::Statement&);
  void assign_one(const Expr& target, Item to, Item);
  void branch(const ast::Statement&, size_t arm);
  void loop(const ast::Statement&);
  void count(const ast::Statement&);
  void give_back(const ast::Statement&, bool last);
  Item call_function(int index, std::vector<Item> arguments, int line, bool of_library);
  void bind(int local, Item, int line);
  Statement* emit(Statement::Kind, int line);
  Body* into(Body& body) {
    Body* const before = out_;
    out_ = &body;
    return before;
  }
  void store(int variable, Value*, int line);
  int fresh(const std::string& name, int line);

  // grid_expressions.cpp
  Item item(const Expr&);
  std::vector<Item> items(const std::vector<ast::Expr>&, size_t wanted, size_t from = 0);
  void keep_before(Value*&, Statement* mark, int line);
  Value* value(const Expr&);
  Value* value_of(Item, int line);
  Value* spilled(Value*, int line);
  /// The same unless reading the value again is free.
  Value* settled(Value* v, int line) { return v->kind < Value::operation ? v : spilled(v, line); }
  Item indexed(const Expr&);
  Item element(Item tensor, const Expr& key, int line);
  Item word_field(const Item&, const std::string& field, int line);
  CapturedName captured(const Path&);
  Item resolve(Path, int line);
  Value* unary(const Expr&);
  Value* binary(const Expr&);
  Value* logical(const Expr&);
  Value* chosen(const Expr& condition, const Expr& yes, const Expr& no, int line);
  bool is_size(const Expr&) const;
  bool is_heavy(const Expr&) const;
  Item size(int tensor, int dim, int line);
  Value* access(const Item& tensor, int line, const char* doing);

  // grid_words.cpp: calls
  Item call(const Expr&);
  Item call_word(const std::string& name, const Expr&);
  Item call_builtin(const CapturedName&, const Expr&);
  Item call_operation(int op, const std::vector<Value*>& args, int line);
  Item call_helper(const CapturedName&, const Expr&);
  Item grid_call(const Expr&);
  Item shared_call(const Expr&);
  Item atomic_call(const std::string& name, const Expr&);
  Item warp_call(const std::string& name, const Expr&);
  Value* lane(int line);
  void print(const Expr&);
  int64_t constant(const Expr&, const char* what);

  Value* make(Value::Kind, int index, int line);
  /// `type`: real if it is written as a float; otherwise that of its value.
  Value* number(double, int line, bool is_float = false);
  Value* apply(int op, const GridValues&, int line);
  template <class Op> Value* apply(const GridValues& args, int line) {
    return apply(op::id<Op>, args, line);
  }
  Value* launch_scalar(LaunchScalar, int line);
  Value* place_of(Value* sum);
  int at(int line) const { return frame_->site ? frame_->site : frame_->index << 20 | line; }
  template <class... A>
  [[noreturn]] void refuse(int line, fmt::format_string<A...> text, A&&... values) const {
    fail_line(p_, at(line), text, std::forward<A>(values)...);
  }
  static bool is_word(std::string_view);

  Kernel& p_;
  CaptureResolver& resolver_;
  Frame* frame_ = nullptr;
  Body* out_ = nullptr;
  std::vector<Statement*> loops_;
  int depth_ = 0;
};

}  // namespace mt::grid
