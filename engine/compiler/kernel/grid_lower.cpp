// grid_lower.cpp -- lowers a typed grid kernel to instructions for a device's interpreter
#include "engine/compiler/kernel/grid_lower.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

namespace mt::grid {
namespace {

class Lowering {
 public:
  Lowering(Kernel& p, Unit& u, const bool varying[3]) : p_(p), u_(u), classes_(p, varying) {}

  void run() {
    next_number_ = kGridNumbers + int(p_.scalars.size());
    for (const Statement& s : p_.statements)
      values_of(s, [&](const Value& v) { reads_[v.index] += v.kind == Value::variable; });
    for (size_t v = 0; v < p_.variables.size(); ++v) {
      const Variable& x = p_.variables[v];
      const Class c = classes_.of_variable(int(v));
      variable_.push_back(c != Class::vector
                              ? next_number_++
                              : new_vector(x.type == GridType::none ? GridType::integer : x.type));
    }
    u_.program.variables = int(u_.vector_type.size());
    u_.program.number_variables = next_number_;
    body(p_.body);
    finish();
  }

 private:
  // ---- registers ---------------------------------------------------------------------------------

  int new_vector(GridType t) {
    u_.vector_type.push_back(t);
    return int(u_.vector_type.size()) - 1;
  }
  struct Mark {
    size_t used[4];
  };
  Mark mark() const { return {{used_[0], used_[1], used_[2], used_[3]}}; }
  void release(const Mark& m) {
    for (int k = 0; k < 4; ++k) used_[k] = m.used[k];
  }
  /// `kept`: until the end of the outermost statement, so that it is set before machine code runs.
  int temporary(GridType t, bool kept = false) {
    const int k = int(t) + 4 * kept;
    std::vector<int>& pool = pool_[k];
    size_t& used = used_[k];
    if (used == pool.size()) pool.push_back(new_vector(t));
    return pool[used++];
  }
  int constant(double value, GridType t) {
    const auto [at, fresh] =
        constants_.try_emplace({int(t), std::bit_cast<uint64_t>(value)}, next_number_);
    if (fresh) {
      GridScalar s{};
      if (t == GridType::integer) s.whole = int64_t(value);
      else if (t == GridType::boolean) s.truth = value != 0;
      else if (p_.real == Dtype::f64) s.number = value;
      else s.single = float(value);
      known_.push_back({next_number_++, s});
    }
    return at->second;
  }

  // ---- instructions ------------------------------------------------------------------------------

  GridInstruction& emit(GridCode code, int line, GridType type = GridType::none) {
    GridInstruction i{};
    i.code = code, i.line = line, i.type = i.result = type;
    i.dst = i.a = i.b = i.c = -1;
    u_.code.push_back(i);
    return u_.code.back();
  }
  /// dst = the operation of v on a, b, c
  void compute(GridCode code, const Value& v, int dst, int a, int b = -1, int c = -1,
               bool masked = false) {
    GridInstruction& i = emit(code, v.line, v.type);
    if (v.op != op::id<op::Where>) i.type = v.args[0]->type;
    i.op = v.op, i.operands = uint8_t(v.args.size());
    i.dst = dst, i.a = a, i.b = b, i.c = c, i.masked = masked;
  }
  void copy(GridCode code, int line, GridType type, int dst, int from, bool masked = false) {
    GridInstruction& i = emit(code, line, type);
    i.op = kConvert, i.operands = 1, i.dst = dst, i.a = from, i.masked = masked;
  }

  /// The number of a value that is no vector; `into` may be used for it.
  int number(const Value& v, int into = -1) {
    const bool affine = classes_.of(v) == Class::affine;
    switch (v.kind) {
      case Value::number:
      case Value::boolean: return constant(v.value, v.type);
      case Value::scalar: return kGridNumbers + v.index;
      case Value::variable: return variable_[size_t(v.index)];
      case Value::place: return (affine ? kGridPlace : kGridFirst) + v.index;
      case Value::thread: return affine ? kGridThread + v.index : constant(1, GridType::integer);
      case Value::block: return kGridBlock + v.index;
      case Value::load: {
        const int list = indices(v.args);
        const int dst = into >= 0 ? into : next_number_++;
        GridInstruction& i = emit(GridCode::load_scalar, v.line, v.type);
        i.tensor = v.index, i.index = list, i.indices = int(v.args.size()), i.dst = dst;
        return dst;
      }
      case Value::operation: break;
    }
    int a[3] = {0, 0, 0};
    for (size_t k = 0; k < v.args.size(); ++k) a[k] = number(*v.args[k]);
    if (!affine) guard_division(v, ~a[1]);
    const int dst = into >= 0 ? into : next_number_++;
    compute(affine ? GridCode::affine : GridCode::scalar, v, dst, a[0], a[1], a[2]);
    return dst;
  }
  void number_to(int dst, const Value& v, Class c) {
    const int from = number(v, classes_.of(v) == c ? dst : -1);
    if (from == dst) return;
    copy(c == Class::affine ? GridCode::affine : GridCode::scalar, v.line, v.type, dst, from);
  }

  /// Converts indices to entries of the list; returns the first one.
  int indices(const std::vector<Value*>& list) {
    std::vector<GridItem> items;
    for (const Value* a : list) items.push_back(item(*a));
    const int first = int(u_.list.size());
    u_.list.insert(u_.list.end(), items.begin(), items.end());
    return first;
  }
  GridItem item(const Value& v) {
    if (classes_.of(v) == Class::vector) return {GridItem::vector, v.type, vector(v)};
    return {GridItem::number, v.type, number(v)};
  }

  /// The operand for a value: a vector, or ~scalar.
  int vector(const Value& v) {
    const Class c = classes_.of(v);
    if (c == Class::scalar) return ~number(v);
    if (c == Class::vector && v.kind == Value::variable) return variable_[size_t(v.index)];
    return vector_to(-1, v, false);
  }
  /// The same in a vector `dst` (-1: a temporary); inactive lanes may have to keep their values.
  int vector_to(int dst, const Value& v, bool masked) {
    const Class c = classes_.of(v);
    const bool converts = v.kind == Value::operation && v.op == kConvert;
    if (c == Class::affine || (converts && classes_.of(*v.args[0]) == Class::affine)) {
      const int from = number(converts ? *v.args[0] : v);
      if (dst < 0) dst = temporary(v.type, true);
      GridInstruction& i = emit(GridCode::spread, v.line, v.type);
      i.dst = dst, i.a = from, i.masked = masked;
      return dst;
    }
    if (c == Class::scalar || v.kind == Value::variable) return copy_to(dst, vector(v), v, masked);
    if (v.kind == Value::load) return load_to(dst, v, masked);
    return operation_to(dst, v, masked);
  }
  int copy_to(int dst, int from, const Value& v, bool masked) {
    if (dst < 0) dst = temporary(v.type);
    copy(GridCode::vector, v.line, v.type, dst, from, masked);
    return dst;
  }
  int load_to(int dst, const Value& v, bool masked) {
    const Mark before = mark();
    const int list = indices(v.args);
    release(before);
    const bool direct = dst >= 0 && !masked;
    const int to = direct ? dst : temporary(v.type);
    GridInstruction& i = emit(GridCode::load, v.line, v.type);
    i.tensor = v.index, i.index = list, i.indices = int(v.args.size()), i.dst = to,
    i.flag = !direct;
    if (direct || dst < 0) return to;
    copy_to(dst, to, v, masked);
    release(before);
    return dst;
  }
  int operation_to(int dst, const Value& v, bool masked) {
    if (compares_affine(v)) {
      const int a = number(*v.args[0]), b = number(*v.args[1]);
      const int to = dst < 0 || masked ? temporary(GridType::boolean, true) : dst;
      compute(GridCode::compare, v, to, a, b);
      return dst < 0 || to == dst ? to : copy_to(dst, to, v, masked);
    }
    const Mark before = mark();
    int a[3] = {-1, -1, -1};
    for (size_t k = 0; k < v.args.size(); ++k) a[k] = vector(*v.args[k]);
    guard_division(v, a[1]);
    release(before);
    if (dst < 0) dst = temporary(v.type);
    compute(GridCode::vector, v, dst, a[0], a[1], a[2], masked);
    return dst;
  }
  bool compares_affine(const Value& v) const {
    return (v.op == op::id<op::Lt> || v.op == op::id<op::Le>)&&v.args[0]->type ==
               GridType::integer &&
           classes_.of(*v.args[0]) != Class::vector && classes_.of(*v.args[1]) != Class::vector;
  }
  /// Integer division by 0 is reported as a fault.
  void guard_division(const Value& v, int by) {
    const bool divides = v.op == op::id<op::Remainder> || v.op == op::id<op::FloorDivide> ||
                         v.op == op::id<op::Fmod>;
    if (v.type != GridType::integer || !divides) return;
    if (v.args[1]->kind == Value::number && v.args[1]->value != 0) return;
    const int zero = constant(0, GridType::integer);
    const int fine = by < 0 ? ~next_number_++ : temporary(GridType::boolean);
    GridInstruction& c = emit(by < 0 ? GridCode::scalar : GridCode::vector, v.line);
    c.op = op::id<op::Ne>, c.operands = 2, c.type = GridType::integer;
    c.result = GridType::boolean;
    c.dst = by < 0 ? ~fine : fine, c.a = by < 0 ? ~by : by, c.b = by < 0 ? zero : ~zero;
    GridInstruction& i = emit(GridCode::assert_, v.line);
    i.a = fine, i.flag = uint8_t(GridFaultKind::division_by_zero);
  }

  // ---- statements --------------------------------------------------------------------------------

  void body(const Body& list) {
    for (size_t k = 0; k < list.size();) {
      const size_t at = u_.code.size();
      if (in_blocks_) emit(GridCode::block, list[k]->line);
      while (k < list.size() && is_straight(*list[k])) one(*list[k++]);
      if (in_blocks_) end_block(at);
      if (k < list.size()) one(*list[k++]);
      if (regions_.empty()) std::fill(used_ + 4, used_ + 8, 0);
    }
  }
  void one(Statement& s) {
    const Mark before = mark();
    statement(s);
    release(before);
  }
  /// Whether a statement needs no control flow; short loops between literals are unrolled.
  static bool is_straight(const Statement& s) {
    return s.kind == Statement::assign || s.kind == Statement::store || cost(s) <= 40;
  }
  /// The size of a loop without control flow: a block of machine code is limited to 48 accesses.
  static double cost(const Statement& s) {
    double sum = 0;
    if (s.kind == Statement::assign || s.kind == Statement::store) {
      values_of(s, [&](const Value& v) { sum += v.kind == Value::load; });
      return sum + (s.kind == Statement::store) + 0.5;
    }
    if (s.kind != Statement::count || s.leaves || turns_of(s) == 0) return INFINITY;
    for (const Statement* x : s.body) sum += cost(*x);
    return sum * double(turns_of(s));
  }
  /// 0: unknown before the launch, or not a counting loop.
  static int64_t turns_of(const Statement& s) {
    for (const Value* v : {s.value, s.last, s.step})
      if (v->kind != Value::number || v->type != GridType::integer) return 0;
    return int64_t(std::max(0.0, std::floor((s.last->value - s.value->value) / s.step->value) + 1));
  }
  /// Removes a block for which calls of machine code would not be faster.
  void end_block(size_t at) {
    int passes = 0;
    for (size_t k = at + 1; k < u_.code.size(); ++k) {
      const GridCode c = u_.code[k].code;
      passes += c == GridCode::vector || c == GridCode::load || c == GridCode::store;
    }
    if (passes > 3) u_.code[at].end = int(u_.code.size());
    else u_.code.erase(u_.code.begin() + int64_t(at));
  }
  void statement(Statement& s) {
    switch (s.kind) {
      case Statement::assign: return assign(s.variable, *s.value);
      case Statement::store:
      case Statement::atomic_add: return store(s);
      case Statement::branch: return branch(s);
      case Statement::count: return count(s);
      case Statement::loop:
      case Statement::scope: return loop(s);
      case Statement::leave: emit(GridCode::leave, s.line).a = begin_[s.target]; return;
      case Statement::barrier: emit(GridCode::barrier, s.line); return;
      case Statement::warp: return warp(s);
      case Statement::print: return print(s);
    }
  }
  void assign(int variable, const Value& v) {
    const int dst = variable_[size_t(variable)];
    const Class c = classes_.of_variable(variable);
    if (c == Class::vector) vector_to(dst, v, classes_.is_masked(variable, regions_));
    else number_to(dst, v, c);
  }
  void store(const Statement& s) {
    const int list = indices(s.args), from = vector(*s.value);
    const bool atomic = s.kind == Statement::atomic_add;
    GridInstruction& i =
        emit(atomic ? GridCode::atomic_add : GridCode::store, s.line, s.value->type);
    i.tensor = s.tensor, i.index = list, i.indices = int(s.args.size()), i.a = from;
    if (!atomic || !reads_[s.variable]) return;
    const int dst = variable_[size_t(s.variable)];
    i.dst = dst;
  }
  /// Lowers the body of an instruction that has already been emitted.
  void inside(Statement& s, const Body& list) {
    regions_.push_back(&s);
    levels_ = std::max(levels_, int(regions_.size()));
    body(list);
    regions_.pop_back();
  }
  void branch(Statement& s) {
    const bool leaves =
        s.body.size() == 1 && s.other.empty() && s.body[0]->kind == Statement::leave;
    const int condition = vector(*s.value);
    if (leaves) {
      GridInstruction& i = emit(GridCode::leave_if, s.line);
      i.a = begin_[s.body[0]->target], i.b = condition;
      return;
    }
    const size_t at = u_.code.size();
    GridInstruction& i = emit(GridCode::branch, s.line);
    i.a = condition, i.flag = s.leaves;
    inside(s, s.body);
    u_.code[at].other = int(u_.code.size());
    inside(s, s.other);
    u_.code[at].end = int(u_.code.size());
  }
  void loop(Statement& s) {
    const size_t at = u_.code.size();
    begin_[&s] = int(at);
    emit(s.kind == Statement::loop ? GridCode::loop : GridCode::scope, s.line);
    inside(s, s.body);
    u_.code[at].end = int(u_.code.size());
  }
  void write_out(Statement& s, int dst) {
    regions_.push_back(&s);
    for (int64_t k = 0; k < turns_of(s); ++k) {
      const int from = constant(s.value->value + double(k) * s.step->value, GridType::integer);
      copy(GridCode::scalar, s.line, GridType::integer, dst, from);
      for (Statement* x : s.body) one(*x);
    }
    regions_.pop_back();
  }
  void count(Statement& s) {
    const int dst = variable_[size_t(s.variable)];
    const GridType type = p_.variables[size_t(s.variable)].type;
    if (is_straight(s)) return write_out(s, dst);
    const Class c = classes_.of_variable(s.variable);
    const int a = c == Class::vector ? vector_to(dst, *s.value, false) : ~number(*s.value);
    const int b = vector(*s.last), step = vector(*s.step);
    const size_t at = u_.code.size();
    begin_[&s] = int(at);
    GridInstruction& i =
        emit(c == Class::scalar ? GridCode::count : GridCode::count_lanes, s.line, type);
    i.dst = dst, i.a = a, i.b = b, i.c = step;
    i.flag = c == Class::scalar ? s.leaves : c == Class::vector;
    const bool before = std::exchange(in_blocks_, false);  // the loop itself may be machine code
    inside(s, s.body);
    in_blocks_ = before;
    u_.code[at].end = int(u_.code.size());
  }
  void warp(const Statement& s) {
    int from = vector(*s.value);
    if (from < 0) from = copy_to(-1, from, *s.value, false);
    const int by = vector(*s.args[0]);
    const int dst = variable_[size_t(s.variable)];
    GridInstruction& i = emit(GridCode::warp, s.line, s.value->type);
    i.dst = dst, i.a = from, i.b = by, i.flag = uint8_t(s.what);
  }
  void print(const Statement& s) {
    std::vector<GridItem> items;
    for (size_t k = 0; k < s.args.size(); ++k)
      items.push_back(s.args[k] ? item(*s.args[k])
                                : GridItem{GridItem::text, GridType::none, s.texts[k]});
    GridInstruction& i = emit(GridCode::print, s.line);
    i.a = int(u_.list.size()), i.b = int(items.size());
    u_.list.insert(u_.list.end(), items.begin(), items.end());
  }

  void finish() {
    u_.scalars.assign(size_t(next_number_), GridScalar{});
    for (const auto& [at, s] : known_) u_.scalars[size_t(at)] = s;
    for (const std::string& t : p_.texts) u_.texts.push_back(t.c_str());
    GridProgram& g = u_.program;
    g.code = u_.code.data(), g.count = int(u_.code.size());
    g.list = u_.list.data(), g.items = int(u_.list.size()), g.texts = u_.texts.data();
    g.real = p_.real;
    g.numbers = next_number_, g.vectors = int(u_.vector_type.size());
    g.vector_type = u_.vector_type.data();
    g.levels = levels_ + 2;
    g.in_order = p_.in_order;
    static std::atomic<int64_t> programs{0};
    g.number = ++programs;
    g.tensors = int(p_.tensors.size());
    for (const Tensor& t : p_.tensors)
      if (t.shared)
        g.shared_bytes += (t.size[0] * t.size[1] * t.size[2] * item_size(t.dtype) + 63) / 64 * 64;
  }

  Kernel& p_;
  Unit& u_;
  Classes classes_;
  std::vector<int> variable_, pool_[8];  // the last four: temporaries with `kept`
  size_t used_[8] = {};
  int next_number_ = 0, levels_ = 0;
  std::map<std::pair<int, uint64_t>, int> constants_;  // by type and bits
  std::vector<std::pair<int, GridScalar>> known_;
  std::map<int, int> reads_;
  std::map<const Statement*, int> begin_;
  std::vector<Statement*> regions_;
  bool in_blocks_ = true;
};

}  // namespace

std::unique_ptr<Unit> lower(Kernel& p, const bool varying[3]) {
  auto u = std::make_unique<Unit>();
  Lowering(p, *u, varying).run();
  return u;
}

}  // namespace mt::grid
