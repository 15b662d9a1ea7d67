// grid_expressions.h -- builds the expressions of a grid kernel
#pragma once
#include <cmath>
#include <cstdlib>
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

class CallBuilder;
/// A word of kernels: a function, or the start of a field `.x`, `.y` or `.z`.
struct Word {
  std::string_view name;
  Item (CallBuilder::*call)(const Word&, const ast::Expression&) = nullptr;
  int what = 0;  // a GridUpdate, GridWarp, Value::Kind or LaunchScalar::Kind
};

/// Describes an item, for messages.
inline std::string described(const Kernel& p, const Item& it) {
  switch (it.kind) {
    case Item::nil: return "nil";
    case Item::text: return "a string";
    case Item::tensor: {
      const Tensor& t = p.tensors[size_t(it.index)];
      return fmt::format(
          "'{}', a tensor of {} dimension{}{}", t.name, t.ndim, t.ndim == 1 ? "" : "s",
          it.prefix.count == 0
              ? ""
              : fmt::format(" with {} index{}", it.prefix.count, it.prefix.count == 1 ? "" : "es"));
    }
    case Item::shape: return "a shape";
    case Item::word: return "'" + it.name + "'";
    case Item::captured: return "'" + it.path.text() + "'";
    default: return "a number";
  }
}

/// The alternative that kernels have for an unknown name.
inline const char* known_of(const std::string& name) {
  static constexpr std::pair<const char*, const char*> known[] = {
      {"math", "; kernels know the functions of math that give one number"},
      {"i", "; local i = grid(1) is the position of the thread"},
      {"mt.max", "; math.max(a, b) is the larger one, and a loop finds that of many"},
      {"mt.min", "; math.min(a, b) is the smaller one, and a loop finds that of many"},
      {"mt.sum", "; a loop adds elements, atomic_add those of threads"},
      {"mt.rand", "; give the kernel a tensor of random numbers"},
      {"mt.randn", "; give the kernel a tensor of random numbers"},
      {"mt.tensor",
       "; a captured or passed tensor is read, memory of a block is shared(n), of a thread private(n)"},
      {"mt.zeros",
       "; a captured or passed tensor is read, memory of a block is shared(n), of a thread private(n)"},
      {"cuda",
       "; kernels have grid(n), thread_idx.x, shared(n), private(n), barrier() and atomic_add"},
      {"threadIdx", "; kernels have thread_idx.x, from 1"},
      {"blockIdx", "; kernels have block_idx.x, from 1"},
      {"thread_id", "; kernels have thread_idx.x, from 1"},
      {"block_id", "; kernels have block_idx.x, from 1"},
      {"blockDim", "; kernels have block_dim.x"},
      {"gridDim", "; kernels have grid_dim.x"},
      {"syncthreads", "; kernels have barrier()"},
      {"__syncthreads", "; kernels have barrier()"},
      {"atomicAdd", "; kernels have atomic_add(t, i, v)"},
      {"atomicMax", "; kernels have atomic_max(t, i, v)"},
      {"atomicMin", "; kernels have atomic_min(t, i, v)"},
      {"atomicExch", "; kernels have atomic_exchange(t, i, v)"},
      {"atomicCAS", "; kernels have atomic_cas(t, i, expected, v)"}};
  for (const auto& [unknown, instead] : known)
    if (name == unknown) return instead;
  return "";
}

inline int axis_of(const std::string& field) {
  return field == "x" ? 0 : field == "y" ? 1 : field == "z" ? 2 : -1;
}

/// Expressions without calls. CallBuilder and then Builder (grid_build.cpp) derive from it: calls, statements.
class ExpressionBuilder {
 protected:
  using Expr = ast::Expression;
  ExpressionBuilder(Kernel& p, CaptureResolver& o) : p_(p), resolver_(o) {}
  virtual Item call(const Expr&) = 0;
  virtual const Word* word(std::string_view name) const = 0;

  // ---- the parts -----------------------------------------------------------------------------------

  Value* make(Value::Kind kind, int index, int line) {
    return p_.add({.kind = kind, .line = at(line), .index = index});
  }
  /// `is_float`: it is written as a float.
  Value* number(double x, int line, bool is_float = false) {
    return p_.add({.kind = Value::number, .line = at(line), .index = is_float, .value = x});
  }
  Value* apply(int op, const GridValues& args, int line) {
    return p_.add(op, args, GridType::none, at(line));
  }
  template <class Op> Value* apply(const GridValues& args, int line) {
    return apply(op::id<Op>, args, line);
  }
  Value* launch_scalar(LaunchScalar s, int line) {
    size_t k = 0;
    while (k < p_.scalars.size() && !(p_.scalars[k] == s)) ++k;
    if (k == p_.scalars.size()) p_.scalars.push_back(s);
    return make(Value::scalar, int(k), line);
  }
  Statement* emit(Statement::Kind kind, int line) {
    constexpr size_t kMaxStatements = 10000;
    if (p_.statements.size() >= kMaxStatements)
      refuse(line, "the kernel has more than {} statements, its helpers inlined; use loops",
             kMaxStatements);
    Statement* const s = p_.add({.kind = kind, .line = at(line)});
    out_->append(s);
    return s;
  }
  int fresh(const std::string& name, int line) {
    p_.variables.push_back({name, at(line), GridType::none, out_});
    return int(p_.variables.size()) - 1;
  }
  void store(int variable, Value* v, int line) {
    Statement* const s = emit(Statement::assign, line);
    s->variable = variable, s->value = v;
  }
  Body* into(Body& body) {
    Body* const before = out_;
    out_ = &body;
    return before;
  }
  int at(int line) const { return frame_->site ? frame_->site : frame_->index << 20 | line; }
  template <class... A>
  [[noreturn]] void refuse(int line, fmt::format_string<A...> text, A&&... values) const {
    fail_line(p_, at(line), text, std::forward<A>(values)...);
  }

  // ---- items -----------------------------------------------------------------------------------

  Item item(const Expr& e) {
    switch (e.kind) {
      case Expr::number:
        if (!e.is_float && !p_.lua_numbers &&
            std::strtoull(e.text.c_str(), nullptr, e.text.find_first_of("xX") == 1 ? 16 : 10) >
                1ull << 53)
          refuse(
              e.line,
              "the whole number {} exceeds 2^53, beyond which Lua's numbers are not exact; write a float with a point",
              e.text);
        return number(e.value, e.line, e.is_float);
      case Expr::boolean:
        return p_.add({.kind = Value::boolean, .line = at(e.line), .value = double(e.value)});
      case Expr::nil: return {};
      case Expr::string: return {Item::text, e.text};
      case Expr::local: {
        Item it = frame_->locals[size_t(e.variable)];
        if (it.kind != Item::value || it.number->kind >= Value::operation) return it;
        Value* const here = p_.add(*it.number);
        here->line = at(e.line);
        return here;
      }
      case Expr::free:
        if (word(e.text) && !resolver_.is_upvalue(frame_->index, e.text))
          return {Item::word, e.text};
        return resolve({frame_->index, e.text, {}}, e.line);
      case Expr::index: return indexed(e);
      case Expr::call: return call(e);
      case Expr::unary: return e.text == "#" ? indexed(e) : unary(e);
      case Expr::binary: return binary(e);
      default: return logical(e);
    }
  }

  /// Spills a value built when `mark` was the last statement of the body, so that it is computed there.
  void keep_before(Value*& v, Statement* mark, int line) {
    if (out_->last == mark || v->kind < Value::operation) return;
    const Body rest{mark ? mark->next : out_->first, out_->last};
    *out_ = {mark ? out_->first : nullptr, mark};
    v = spilled(v, line);
    out_->append(rest);
  }

  /// The values of a list of expressions; the last one may be a call with several results.
  std::vector<Item> items(const std::vector<ast::Expr>& list, size_t wanted, size_t from = 0) {
    std::vector<Item> all;
    for (size_t k = from; k < list.size(); ++k) {
      Statement* const mark = out_->last;
      Item it = item(*list[k]);
      if (it.kind == Item::tensor && it.prefix.count > 0 &&
          it.prefix.count == p_.tensors[size_t(it.index)].ndim)
        it = value_of(it, list[k]->line);  // an element is read now: it may be written later
      for (Item& before : all)
        if (before.kind == Item::value) keep_before(before.number, mark, list[k]->line);
      if (it.kind == Item::several) {
        const size_t count = k + 1 == list.size() && !list[k]->single ? it.list.size() : 1;
        if (it.list.empty()) refuse(list[k]->line, "this call gives no value");
        for (size_t i = 0; i < count && (i == 0 || all.size() < wanted); ++i)
          all.push_back(it.list[i]);
        continue;
      }
      all.push_back(it);
    }
    return all;
  }

  CapturedName captured(const Path& path) {
    return p_.captured.emplace_back(path, resolver_.resolve(path)).second;
  }

  /// Resolves a captured name.
  Item resolve(Path path, int line) {
    const CapturedName o = captured(path);
    const std::string name = path.text();
    const char* const known = *known_of(name) ? known_of(name) : known_of(path.root);
    if (path.root == "mt" && !path.keys.empty() &&
        (o.kind == CapturedName::nothing || o.kind == CapturedName::other))
      refuse(
          line, "kernels do not have {}{}", name,
          *known
              ? known
              : "; of mt they know mt.cdiv and the elementwise functions of numbers, such as mt.erf");
    switch (o.kind) {
      case CapturedName::nothing:
        refuse(line,
               "'{}' is nil: no local, captured value, global or word of kernels has this name{}",
               name, known);
      case CapturedName::whole:
      case CapturedName::real:
      case CapturedName::boolean:
        return launch_scalar({LaunchScalar::captured, o.index, 0, o.type()}, line);
      case CapturedName::tensor:
        for (size_t k = 0; k < p_.tensors.size(); ++k)
          if (!p_.tensors[k].shared && p_.tensors[k].captured == o.index && o.index >= 0)
            return {Item::tensor, int(k)};
        p_.tensors.push_back({path.text(), o.dtype, o.ndim});
        p_.tensors.back().captured = o.index;
        return {Item::tensor, int(p_.tensors.size()) - 1};
      case CapturedName::other:
        refuse(
            line,
            "'{}' is {}, which kernels cannot use; they take numbers, booleans, tensors and functions of such{}",
            name, o.text, known);
      default: break;
    }
    Item it(Item::captured, o.text);
    it.path = std::move(path);
    return it;
  }

  Value* value_of(Item it, int line) {
    if (it.kind == Item::value) return it.number;
    if (it.kind == Item::several) {
      if (it.list.empty()) refuse(line, "this call gives no value");
      return value_of(it.list[0], line);
    }
    if (it.kind == Item::tensor) return access(it, line, "read");
    if (it.kind == Item::nil)
      refuse(line, "a kernel cannot use nil as a value; use a number or a boolean");
    refuse(
        line, "{} is not a number{}", described(p_, it),
        it.kind == Item::word && !word(it.name)->call ? fmt::format("; write {}.x", it.name) : "");
  }

  Value* value(const Expr& e) { return value_of(item(e), e.line); }

  Value* spilled(Value* v, int line) {
    const int variable = fresh("a value", line);
    store(variable, v, line);
    return make(Value::variable, variable, line);
  }
  /// The same unless reading the value again is free.
  Value* settled(Value* v, int line) { return v->kind < Value::operation ? v : spilled(v, line); }

  /// An element, which must have all its indices.
  Value* access(const Item& it, int line, const char* doing) {
    const Tensor& t = p_.tensors[size_t(it.index)];
    if (it.prefix.count == t.ndim) {
      GridValues indices = it.prefix;
      for (int d = 0; t.is_private && d < 3; ++d) indices.push_back(make(Value::thread, d, line));
      return p_.add({.kind = Value::load, .line = at(line), .index = it.index, .args = indices});
    }
    const std::string indices = t.ndim == 0 ? "" : "[i][j][k][l]";
    refuse(line, "cannot {} {}; an element is {}{}", doing, described(p_, it), t.name,
           t.ndim <= 4 ? indices.substr(0, size_t(t.ndim) * 3) : "[i][j]..");
  }

  int64_t constant(const Expr& e, const char* what) {
    const Value* const v = value(e);
    if (v->kind == Value::number && v->value == std::floor(v->value) && std::fabs(v->value) < 1e15)
      return int64_t(v->value);
    if (v->kind == Value::scalar && p_.scalars[size_t(v->index)].kind == LaunchScalar::captured) {
      const int index = p_.scalars[size_t(v->index)].index;
      const double x = p_.numbers.emplace_back(index, resolver_.number(index)).second;
      if (x == std::floor(x)) return int64_t(x);
    }
    refuse(e.line, "{} must be a whole literal or a captured whole number", what);
  }

  // ---- fields and indices ----------------------------------------------------------------------

  Item size(int tensor, int dim, int line) {
    const Tensor& t = p_.tensors[size_t(tensor)];
    if (t.shared) return number(double(t.size[dim]), line);
    return launch_scalar({LaunchScalar::size, tensor, dim, GridType::integer}, line);
  }

  Item indexed(const Expr& e) {
    Item object = item(*e.args[0]);
    const int line = e.line;
    if (e.kind == Expr::unary) {  // #x
      if (object.kind == Item::shape) {
        const int rank = p_.tensors[size_t(object.index)].ndim - object.prefix.count;
        return number(rank, line);
      }
      if (object.kind != Item::tensor ||
          object.prefix.count >= p_.tensors[size_t(object.index)].ndim)
        refuse(line, "# is the first size of a tensor, not of {}", described(p_, object));
      return size(object.index, object.prefix.count, line);
    }
    const Expr& key = *e.args[1];
    const bool named = key.kind == Expr::string;
    switch (object.kind) {
      case Item::tensor:
        if (!named) return element(object, key, line);
        if (key.text == "ndim")
          return number(p_.tensors[size_t(object.index)].ndim - object.prefix.count, line);
        if (key.text == "shape") return object.kind = Item::shape, object;
        refuse(line,
               "a tensor in a kernel has elements, #{0}, {0}.shape[d] and {0}.ndim, not '{1}'",
               p_.tensors[size_t(object.index)].name, key.text);
      case Item::shape: {
        const Tensor& t = p_.tensors[size_t(object.index)];
        const int64_t d = named ? 0 : constant(key, "the dimension"),
                      rank = t.ndim - object.prefix.count;
        if (d < 1 || d > rank)
          refuse(line, "'{}' has {} dimension{}; there is no shape[{}]", t.name, rank,
                 rank == 1 ? "" : "s", named ? key.text : std::to_string(d));
        return size(object.index, object.prefix.count + int(d) - 1, line);
      }
      case Item::word: return word_field(object, named ? "." + key.text : "[..]", line);
      case Item::captured:
        if (!named && key.kind != Expr::number)
          refuse(
              line,
              "the table '{}' is read through names or whole literals in kernels, as {}.x; a tensor takes any index",
              object.path.text(), object.path.text());
        object.path.keys.push_back(named ? "." + key.text : fmt::format("[{}]", key.value));
        return resolve(object.path, line);
      case Item::value:
        refuse(line, "{} is a {}, which has no elements or fields",
               e.args[0]->text.empty() ? "what is indexed" : "'" + e.args[0]->text + "'",
               object.number->type == GridType::boolean ? "boolean" : "number");
      default: refuse(line, "{} has no fields or elements", described(p_, object));
    }
  }

  Item element(Item tensor, const Expr& key, int line) {
    const Tensor& t = p_.tensors[size_t(tensor.index)];
    if (tensor.prefix.count >= t.ndim)
      refuse(line, "'{}' has {} dimension{}, here is one index more", t.name, t.ndim,
             t.ndim == 1 ? "" : "s");
    Statement* const mark = out_->last;
    Value* const index = value(key);
    for (Value*& before : tensor.prefix) keep_before(before, mark, line);
    tensor.prefix.push_back(index);
    return tensor;
  }

  Item word_field(const Item& word, const std::string& field, int line) {
    const int axis = axis_of(field.substr(1));
    const std::string& n = word.name;
    const Word& known = *this->word(n);
    if (known.call) refuse(line, "'{}' is a function of kernels: {}(..)", n, n);
    if (axis < 0) refuse(line, "{} has .x, .y and .z, not '{}'", n, field);
    if (n.ends_with("idx")) return make(Value::Kind(known.what), axis, line);
    return launch_scalar({LaunchScalar::Kind(known.what), 0, axis, GridType::integer}, line);
  }

  // ---- arithmetic ------------------------------------------------------------------------------

  Value* unary(const Expr& e) {
    Value* const x = value(*e.args[0]);
    if (e.text == "-" && x->kind == Value::number) return number(-x->value, e.line, x->index == 1);
    return apply(e.text == "-" ? op::id<op::Neg> : op::id<op::LogicalNot>, {x}, e.line);
  }

  Value* binary(const Expr& e) {
    struct Operator {
      std::string_view text;
      int op;
      bool swapped;
    };
    static constexpr Operator rows[] = {
        {"+", op::id<op::Add>, false},    {"-", op::id<op::Sub>, false},
        {"*", op::id<op::Mul>, false},    {"/", op::id<op::Div>, false},
        {"%", op::id<op::LuaMod>, false}, {"^", op::id<op::Pow>, false},
        {"<", op::id<op::Lt>, false},     {"<=", op::id<op::Le>, false},
        {">", op::id<op::Lt>, true},      {">=", op::id<op::Le>, true},
        {"==", op::id<op::Eq>, false},    {"~=", op::id<op::Ne>, false}};
    std::vector<Item> both = items(e.args, 2);
    for (const Item& it : both)
      if (it.kind == Item::nil && (e.text == "==" || e.text == "~="))
        refuse(e.line, "nothing is nil in a kernel; a comparison with it has no meaning");
    Value* x = value_of(both[0], e.line);
    Value* y = value_of(both[1], e.line);
    // A power of a variable may become a product.
    if (e.text == "^" && y->kind == Value::number && x->kind >= Value::operation)
      x = spilled(x, e.line);
    for (const Operator& r : rows) {
      if (r.text != e.text) continue;
      Value* const v = apply(r.op, {r.swapped ? y : x, r.swapped ? x : y}, e.line);
      return r.op == op::id<op::Add> ? place_of(v) : v;
    }
    refuse(e.line, "the operator '{}' is not supported in kernels", e.text);
  }

  /// (block_idx.x - 1) * block_dim.x + thread_idx.x is the position of the thread in the grid.
  Value* place_of(Value* sum) {
    for (int k = 0; k < 2; ++k) {
      const Value *thread = sum->args[size_t(k)], *product = sum->args[size_t(1 - k)];
      if (thread->kind != Value::thread || product->kind != Value::operation ||
          product->op != op::id<op::Mul>)
        continue;
      for (int j = 0; j < 2; ++j) {
        const Value *dim = product->args[size_t(j)], *block = product->args[size_t(1 - j)];
        if (dim->kind != Value::scalar || block->kind != Value::operation ||
            block->op != op::id<op::Sub>)
          continue;
        const LaunchScalar& s = p_.scalars[size_t(dim->index)];
        const Value *b = block->args[0], *one = block->args[1];
        if (s.kind == LaunchScalar::block_dim && s.dim == thread->index &&
            b->kind == Value::block && b->index == thread->index && one->kind == Value::number &&
            one->value == 1)
          return make(Value::place, thread->index, sum->line & 0xfffff);
      }
    }
    return sum;
  }

  // ---- and, or ---------------------------------------------------------------------------------

  /// Whether it is x.shape[d] of a tensor argument.
  bool is_size(const Expr& e) const {
    const auto is_shape = [](const Expr& x) {
      return x.kind == Expr::index && x.args[1]->text == "shape";
    };
    if (e.kind != Expr::index || !is_shape(*e.args[0])) return false;
    const Expr& x = *e.args[0]->args[0];
    return x.kind == Expr::local && frame_->locals[size_t(x.variable)].kind == Item::tensor;
  }

  /// Whether an expression must not be computed if Lua would not: it reads elements or may fail.
  bool is_heavy(const Expr& e) const {
    if (is_size(e)) return false;
    if (e.kind == Expr::index && e.args[1]->kind != Expr::string) return true;
    if (e.kind == Expr::call || e.text == "%") return true;
    for (const ast::Expr& a : e.args)
      if (is_heavy(*a)) return true;
    return false;
  }

  Value* logical(const Expr& e) {
    const Expr &left = *e.args[0], &right = *e.args[1];
    if (e.kind == Expr::logical_or && left.kind == Expr::logical_and)
      return chosen(*left.args[0], *left.args[1], right, e.line);
    const bool both = e.kind == Expr::logical_and;
    Value* const x = value(left);
    if (!is_heavy(right))
      return apply(both ? op::id<op::LogicalAnd> : op::id<op::LogicalOr>, {x, value(right)},
                   e.line);
    const int result = fresh(both ? "x and y" : "x or y", e.line);
    store(result, x, e.line);
    Value* const known = make(Value::variable, result, e.line);
    Statement* const b = emit(Statement::branch, e.line);
    b->value = both ? known : apply<op::LogicalNot>({known}, e.line);
    Body* const before = into(b->body);
    // The result is a boolean: an `or` with itself marks this for type inference.
    store(result, apply<op::LogicalOr>({value(right), make(Value::boolean, 0, e.line)}, e.line),
          e.line);
    out_ = before;
    return known;
  }

  /// condition and yes or no.
  Value* chosen(const Expr& condition, const Expr& yes, const Expr& no, int line) {
    Value* c = value(condition);
    if (!is_heavy(yes) && !is_heavy(no)) {
      Value* const y = value(yes);
      return apply<op::Where>({c, y, value(no)}, line);
    }
    const int result = fresh("x and y or z", line);
    Value* const known = make(Value::variable, result, line);
    const bool is_number = yes.kind == Expr::number ||
                           (yes.kind == Expr::unary && yes.text == "-") ||
                           (yes.kind == Expr::binary &&
                            std::string_view("+-*/%^").find(yes.text) != std::string_view::npos);
    if (!is_number) c = spilled(c, line);
    Statement* const first = emit(Statement::branch, line);
    first->value = c;
    Body* const before = into(first->body);
    store(result, value(yes), line);
    if (is_number) {
      out_ = &first->other;
    } else {  // `no` is also used if `yes` is false: a `not` of two marks this for type inference
      out_ = before;
      Statement* const second = emit(Statement::branch, line);
      second->value = apply<op::LogicalNot>({c, known}, line);
      out_ = &second->body;
    }
    store(result, value(no), line);
    out_ = before;
    return known;
  }

  Kernel& p_;
  CaptureResolver& resolver_;
  Frame* frame_ = nullptr;
  Body* out_ = nullptr;
};

}  // namespace mt::grid
