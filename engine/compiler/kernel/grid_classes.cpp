// grid_classes.cpp -- divergence analysis: which values are uniform in all lanes, or affine in the lane index
#include "engine/compiler/kernel/grid_classes.h"

#include <algorithm>
#include <cmath>

namespace mt::grid {

Classes::Classes(Kernel& p, const bool varying[3])
    : p_(p),
      varying_(varying),
      variable_(p.variables.size(), GridClass::scalar) {
  for (Statement& s : p.statements) s.divergent = s.leaves = false;
  while (walk(p.body)) {}
}

GridClass Classes::of(const Value& v) const {
  switch (v.kind) {
    case Value::variable: return variable_[size_t(v.index)];
    case Value::place:
    case Value::thread: return varying_[v.index] ? GridClass::affine : GridClass::scalar;
    case Value::load: {
      for (const Value* a : v.args)
        if (of(*a) != GridClass::scalar) return GridClass::vector;
      return GridClass::scalar;
    }
    case Value::operation: return of_operation(v);
    default: return GridClass::scalar;
  }
}

GridClass Classes::of_operation(const Value& v) const {
  GridClass most = GridClass::scalar;
  int affine = 0;
  for (const Value* a : v.args) {
    const GridClass c = of(*a);
    most = std::max(most, c), affine += c == GridClass::affine;
  }
  if (most != GridClass::affine) return most;
  const bool linear = v.op == op::id<op::Add> || v.op == op::id<op::Sub> ||
                      v.op == op::id<op::Neg> || (v.op == op::id<op::Mul> && affine == 1);
  return linear && v.type == GridType::integer ? GridClass::affine : GridClass::vector;
}

bool Classes::is_masked(int variable, const std::vector<Statement*>& regions) const {
  const auto home = depth_.find(p_.variables[size_t(variable)].home);
  for (size_t k = home == depth_.end() ? 0 : home->second; k < regions.size(); ++k)
    if (regions[k]->divergent) return true;
  return false;
}

bool Classes::give(int variable, GridClass c) {
  GridClass& now = variable_[size_t(variable)];
  if (is_masked(variable, regions_)) c = GridClass::vector;
  if (c == GridClass::affine && p_.variables[size_t(variable)].type != GridType::integer)
    c = GridClass::vector;
  if (c <= now) return false;
  now = c;
  return true;
}
bool Classes::mark(Statement& s, bool divergent) {
  if (!divergent || s.divergent) return false;
  return s.divergent = true;
}

/// If only some lanes leave, every enclosing region up to the target is divergent.
bool Classes::leave(const Statement& s) {
  size_t at = regions_.size();
  bool differs = false, changed = false;
  for (size_t k = regions_.size(); k-- > 0;) {
    at = k;
    if (regions_[k] == s.target) break;
    differs |= regions_[k]->divergent;
  }
  for (size_t k = at; k < regions_.size(); ++k) {
    if (!regions_[k]->leaves) regions_[k]->leaves = true, changed = true;
    changed |= mark(*regions_[k], differs);
  }
  return changed;
}

bool Classes::walk(const Body& body) {
  bool changed = false;
  depth_[&body] = regions_.size();
  for (Statement* s : body) {
    switch (s->kind) {
      case Statement::assign: changed |= give(s->variable, of(*s->value)); break;
      case Statement::atomic_add:
      case Statement::warp: changed |= give(s->variable, GridClass::vector); break;
      case Statement::branch: changed |= mark(*s, of(*s->value) != GridClass::scalar); break;
      case Statement::leave: changed |= leave(*s); break;
      default: break;
    }
    if (s->kind == Statement::count) {
      const GridClass first = of(*s->value), step = of(*s->step), last = of(*s->last);
      const bool same = std::max({first, step, last}) == GridClass::scalar;
      changed |= mark(*s, !same);
      GridClass& now = variable_[size_t(s->variable)];
      const bool linear = step == GridClass::scalar && first != GridClass::vector &&
                          p_.variables[size_t(s->variable)].type == GridType::integer;
      const GridClass c = same ? GridClass::scalar : linear ? GridClass::affine : GridClass::vector;
      if (c > now) now = c, changed = true;
    }
    regions_.push_back(s);
    changed |= walk(s->body), changed |= walk(s->other);
    regions_.pop_back();
  }
  return changed;
}

// ---- the choice of tiles ---------------------------------------------------------------------------

namespace {

template <class F> void each_statement(const Body& body, int depth, const F& f) {
  for (Statement* s : body) {
    f(*s, depth);
    const int inside = depth + (s->kind == Statement::count || s->kind == Statement::loop);
    each_statement(s->body, inside, f), each_statement(s->other, inside, f);
  }
}
/// The stride of an index along an axis; unknown values, such as loop counters, count as 0.
int64_t growth(const Value& v, int axis) {
  if (v.kind == Value::place || v.kind == Value::thread) return v.index == axis;
  if (v.kind != Value::operation) return 0;
  const auto part = [&](size_t k) { return growth(*v.args[k], axis); };
  if (v.op == op::id<op::Add>) return part(0) + part(1);
  if (v.op == op::id<op::Sub>) return part(0) - part(1);
  if (v.op == op::id<op::Neg>) return -part(0);
  if (v.op == op::id<op::Mul>)
    for (size_t k = 0; k < 2; ++k)
      if (part(k) != 0)
        return part(k) * (v.args[1 - k]->kind == Value::number ? int64_t(v.args[1 - k]->value) : 2);
  int64_t any = 0;
  for (int k = 0; k < v.args.count; ++k) any |= part(size_t(k)) != 0;
  return any * 2;
}

}  // namespace

void find_needs(Kernel& p) {
  for (const Tensor& t : p.tensors) p.in_blocks |= t.shared;
  each_statement(p.body, 0, [&](const Statement& s, int) {
    const bool atomic = s.kind == Statement::atomic_add, prints = s.kind == Statement::print;
    const bool everywhere = atomic && !p.tensors[size_t(s.place->index)].shared;
    p.in_blocks |= atomic || prints || s.kind == Statement::barrier || s.kind == Statement::warp;
    p.in_order |= everywhere || prints;
    p.by_thread |= atomic || prints || s.kind == Statement::warp;
    values_of(s, [&](const Value& v) {
      p.in_blocks |= v.kind == Value::thread || v.kind == Value::block;
    });
  });
}

double axis_score(const Kernel& p, int axis, const std::vector<GridTensor>& tensors) {
  double score = 0;
  each_statement(p.body, 0, [&](const Statement& s, int depth) {
    values_of(s, [&](const Value& v) {
      if (v.kind != Value::load) return;
      int64_t step = 0;
      for (size_t d = 0; d < size_t(v.args.count); ++d)
        step += growth(*v.args[d], axis) * tensors[size_t(v.index)].stride[d];
      score += (step == 1 ? 1 : step == 0 ? 0.5 : -1) * std::pow(8, std::min(depth, 6));
    });
  });
  return score;
}

}  // namespace mt::grid
