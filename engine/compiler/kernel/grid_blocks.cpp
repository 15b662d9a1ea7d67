// grid_blocks.cpp -- unrolls short loops of a grid kernel, and joins statements without control flow to blocks
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/compiler/kernel/grid_classes.h"

namespace mt::grid {
namespace {

class Blocks {
 public:
  explicit Blocks(Kernel& k) : k_(k) {}

  void body(Body& to) {
    Body flat;
    for (Statement *s = to.first, *next; s; s = next) next = s->next, expand(s, flat, &to);
    to = {};
    Statement* block = nullptr;
    for (Statement *s = flat.first, *next; s; s = next) {
      next = s->next;
      if (joins_ && is_plain(*s)) {
        if (!block) to.append(block = k_.add({.kind = Statement::block, .line = s->line}));
        block->body.append(s);
        continue;
      }
      block = nullptr;
      to.append(s);
      if (s->kind == Statement::print) continue;
      // a counting loop itself may be machine code
      const bool before = std::exchange(joins_, joins_ && s->kind != Statement::count);
      body(s->body), body(s->other);
      joins_ = before;
    }
  }

 private:
  static bool is_plain(const Statement& s) {
    return s.kind == Statement::assign || s.kind == Statement::store;
  }
  /// The size of a loop without control flow: a block of machine code is limited to 48 accesses.
  static double cost(const Statement& s) {
    double sum = 0;
    if (is_plain(s)) {
      values_of(s, [&](const Value& v) { sum += v.kind == Value::load; });
      return sum + 0.5;
    }
    if (s.kind != Statement::count || turns_of(s) == 0) return INFINITY;
    for (const Statement* x : s.body) sum += cost(*x);
    return sum * double(turns_of(s));
  }
  /// 0: unknown before the launch.
  static int64_t turns_of(const Statement& s) {
    for (const Value* v : {s.value, s.last, s.step})
      if (v->kind != Value::number || v->type != GridType::integer) return 0;
    return int64_t(std::max(0.0, std::floor((s.last->value - s.value->value) / s.step->value) + 1));
  }
  /// Appends a statement, or a short loop between literals as the statements of its iterations.
  void expand(Statement* s, Body& out, const Body* home) {
    if (s->kind != Statement::count || cost(*s) > 40) return out.append(s);
    move_home(s->body, home);
    for (int64_t k = 0; k < turns_of(*s); ++k) {
      const double now = s->value->value + double(k) * s->step->value;
      for (const Statement* x : s->body) expand(copy(*x, s->variable, now), out, home);
    }
  }
  void move_home(const Body& from, const Body* home) {
    for (Variable& v : k_.variables) v.home = v.home == &from ? home : v.home;
    for (const Statement* s : from) move_home(s->body, home);
  }
  /// A copy in which a variable is replaced by a number.
  Statement* copy(const Statement& s, int variable, double number) {
    Statement* const c = k_.add(s);
    c->body = {};
    for (Value** v : {&c->value, &c->last, &c->step, &c->place})
      if (*v) *v = copy(**v, variable, number);
    for (const Statement* x : s.body) c->body.append(copy(*x, variable, number));
    return c;
  }
  Value* copy(const Value& v, int variable, double number) {
    if (v.kind == Value::variable && v.index == variable)
      return k_.add({.kind = Value::number, .type = v.type, .line = v.line, .value = number});
    Value* const c = k_.add(v);
    for (Value*& a : c->args) a = copy(*a, variable, number);
    return c;
  }

  Kernel& k_;
  bool joins_ = true;  // outside of counting loops
};

}  // namespace

void find_blocks(Kernel& k) { Blocks(k).body(k.body); }

}  // namespace mt::grid
