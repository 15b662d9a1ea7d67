// grid_stride.cpp -- kernels whose threads share the iterations of a loop:
//   for i = grid(1), n, block_dim.x * grid_dim.x do .. end
// Where the iterations do not depend on each other, the CPU runs the kernel with a thread for each: neighbouring
// threads then access neighbouring elements, and if i <= n is a branch instead of a loop.
#include <algorithm>
#include <map>
#include <set>

#include "engine/compiler/kernel/grid_ir.h"
#include "kernels/cpu/jit/grid_phases.h"

namespace mt::grid {
namespace {

/// Whether it is block_dim.x * grid_dim.x; variables are set once before the loop.
bool is_thread_count(const Kernel& k, const Value& v) {
  if (v.kind == Value::variable) {
    int sets = 0;
    each_statement(k.body, 0, [&](const Statement& s, int) { sets += s.variable == v.index; });
    for (const Statement* s = k.body.first; s != k.body.last && sets == 1; s = s->next)
      if (s->variable == v.index)
        return s->kind == Statement::assign && is_thread_count(k, *s->value);
    return false;
  }
  if (v.has<op::Add>() &&
      v.args[1]->has<op::Remainder>()) {  // the check of infer_types that it is not 0
    const Value &zero = *v.args[1]->args[0], &by = *v.args[1]->args[1];
    return zero.kind == Value::number && zero.value == 0 && &by == v.args[0] &&
           is_thread_count(k, by);
  }
  if (!v.has<op::Mul>()) return false;
  bool block = false, grid = false;
  for (const Value* a : v.args) {
    if (a->kind != Value::scalar) return false;
    const LaunchScalar& s = k.scalars[size_t(a->index)];
    block |= s.kind == LaunchScalar::block_dim && s.dim == 0;
    grid |= s.kind == LaunchScalar::grid_dim && s.dim == 0;
  }
  return block && grid;
}

/// Whether the iterations of a loop may run in any order, and at the same time.
class Independence {
 public:
  Independence(const Kernel& k, const Statement& loop) : k_(k), loop_(loop) {}
  bool holds() {
    for (const Statement* s = k_.body.first; s != &loop_; s = s->next) before(*s);
    const auto list = GridPhases::listed(loop_.body);
    each_statement(list, 0, [&](const Statement& s, int) { note(s); });
    for (const int v : set_) fine_ = fine_ && v != loop_.variable && GridPhases::defines(list, v);
    for (const int v : others_) fine_ = fine_ && !read_.count(v);
    return fine_ && std::all_of(access_.begin(), access_.end(), [&](const auto& a) {
             return !k_.tensors[size_t(a.first)].stored || is_alone(a.second);
           });
  }

 private:
  struct Access {
    const Value* place;
    const Statement* update;  // null: it is no atomic update
  };
  bool depends_on_thread(const Value& v) const {
    bool depends = false;
    each_value(v, [&](const Value& x) {
      depends |=
          x.kind == Value::place || x.kind == Value::thread || x.kind == Value::block ||
          (x.kind == Value::variable && others_.count(x.index)) ||
          (x.kind == Value::scalar && k_.scalars[size_t(x.index)].kind == LaunchScalar::grid_dim);
    });
    return depends;
  }
  /// A statement before the loop.
  void before(const Statement& s) {
    fine_ = fine_ && s.kind == Statement::assign;
    values_of(s, [&](const Value& x) { fine_ = fine_ && x.kind != Value::load; });
    if (fine_ && depends_on_thread(*s.value)) others_.insert(s.variable);
  }
  void note(const Statement& s) {
    switch (s.kind) {
      case Statement::leave: fine_ = fine_ && inside_.count(s.target); break;
      case Statement::barrier:
      case Statement::warp:
      case Statement::print:
      case Statement::item: fine_ = false; break;
      default: inside_.insert(&s);
    }
    if (s.variable >= 0) (s.kind == Statement::atomic_add ? others_ : set_).insert(s.variable);
    if (s.place)
      access_[s.place->index].push_back({s.place, s.kind == Statement::atomic_add ? &s : nullptr});
    values_of(s, [&](const Value& x) {
      if (x.kind == Value::variable) read_.insert(x.index);
      else fine_ = fine_ && (x.args.count > 0 || !depends_on_thread(x));
      if (x.kind == Value::load && &x != s.place) access_[x.index].push_back({&x, nullptr});
    });
  }
  /// Whether an iteration has the elements for itself, or all update them by integers in a way that has no order.
  bool is_alone(const std::vector<Access>& all) const {
    const Access& first = all.front();
    bool alone = false;
    for (size_t d = 0; d < size_t(first.place->args.count); ++d)
      alone |= std::all_of(all.begin(), all.end(), [&](const Access& a) {
        const Value& x = *a.place->args[d];
        return !a.update && x.kind == Value::variable && x.index == loop_.variable;
      });
    return alone || std::all_of(all.begin(), all.end(), [&](const Access& a) {
             return a.update && a.update->update == first.update->update &&
                    a.update->update <= GridUpdate::max &&
                    a.update->value->type == GridType::integer;
           });
  }

  const Kernel& k_;
  const Statement& loop_;
  bool fine_ = true;
  std::set<int> set_, read_;  // variables
  std::set<int> others_;      // variables that depend on the thread, or on the order of updates
  std::set<const Statement*> inside_;
  std::map<int, std::vector<Access>> access_;  // by tensor
};

}  // namespace

bool shares_iterations(const Kernel& k) {
  const Statement* const loop = k.body.last;
  if (!loop || loop->kind != Statement::count || k.lua_numbers) return false;
  for (const Tensor& t : k.tensors)
    if (t.shared) return false;
  const Value &from = *loop->value, &last = *loop->last;
  const bool known = last.kind == Value::number || last.kind == Value::scalar;
  return from.kind == Value::place && from.index == 0 && known && last.type == GridType::integer &&
         is_thread_count(k, *loop->step) && Independence(k, *loop).holds();
}

const Value& divide_iterations(Kernel& k) {
  Statement& loop = *k.body.last;
  const Value& last = *loop.last;
  const int counter = loop.variable;
  loop.kind = Statement::branch, loop.variable = -1;
  loop.value = k.add(op::id<op::Le>, {loop.value, loop.last}, GridType::boolean, loop.line);
  loop.last = loop.step = nullptr;
  for (Value& v : k.values)
    if (v.kind == Value::variable && v.index == counter) v.kind = Value::place, v.index = 0;
  std::set<int> read;
  each_statement(k.body, 0, [&](const Statement& s, int) {
    values_of(s, [&](const Value& v) {
      if (v.kind == Value::variable) read.insert(v.index);
    });
  });
  Body used;
  for (Statement *s = k.body.first, *next; s; s = next) {
    next = s->next;
    if (s == &loop || read.count(s->variable)) used.append(s);
  }
  k.body = used;
  return last;
}

bool are_apart(const std::vector<GridTensor>& tensors) {
  const auto bytes = [](const GridTensor& t) {
    int64_t first = 0, last = item_size(t.dtype);
    for (int d = 0; d < t.ndim; ++d)
      (t.stride[d] < 0 ? first : last) += (t.size[d] - 1) * t.stride[d] * item_size(t.dtype);
    const char* const data = static_cast<const char*>(t.data);
    return std::pair(data + first, data + last);
  };
  for (const GridTensor& t : tensors) {
    if (!t.stored) continue;
    int64_t size = 1;
    for (int d = t.ndim; d-- > 0; size *= t.size[d])
      if (t.size[d] > 1 && t.stride[d] != size) return false;
    for (const GridTensor& x : tensors) {
      const auto [a, a_end] = bytes(t);
      const auto [b, b_end] = bytes(x);
      if (&t != &x && a < b_end && b < a_end) return false;
    }
  }
  return true;
}

}  // namespace mt::grid
