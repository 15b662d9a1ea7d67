// grid_classes.cpp -- divergence analysis: which values are uniform in all lanes, or affine in the lane index
#include "engine/compiler/kernel/grid_classes.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace mt::grid {
namespace {

class Classes {
 public:
  Classes(Kernel& p, const bool varying[3])
      : variable(p.variables.size(), GridClass::scalar),
        p_(p),
        varying_(varying) {
    for (Statement& s : p.statements) s.divergent = s.leaves = false;
    while (walk(p.body)) {}
  }
  std::vector<GridClass> variable;

 private:
  GridClass of(Value* v) {
    if (!v) return GridClass::scalar;
    GridClass most = GridClass::scalar;
    int affine = 0;
    for (Value* a : v->args) most = std::max(most, of(a)), affine += a->is == GridClass::affine;
    const bool linear = v->has(op::id<op::Add>) || v->has(op::id<op::Sub>) ||
                        v->has(op::id<op::Neg>) || (v->has(op::id<op::Mul>) && affine == 1);
    if (v->kind == Value::variable) most = variable[size_t(v->index)];
    else if (v->kind == Value::place || v->kind == Value::thread)
      most = varying_[v->index] ? GridClass::affine : GridClass::scalar;
    else if (most == GridClass::affine && !(linear && v->type == GridType::integer))
      most = GridClass::vector;
    return v->is = most;
  }
  /// Whether some lanes keep the old value of a variable if it is set here.
  bool is_masked(int v) const {
    const auto home = depth_.find(p_.variables[size_t(v)].home);
    for (size_t k = home == depth_.end() ? 0 : home->second; k < regions_.size(); ++k)
      if (regions_[k]->divergent) return true;
    return false;
  }
  bool give(Statement& s, GridClass c) {
    GridClass& now = variable[size_t(s.variable)];
    const bool linear = p_.variables[size_t(s.variable)].type == GridType::integer;
    if (c == GridClass::affine && !linear) c = GridClass::vector;
    const bool changed = c > now;
    s.is = now = std::max(c, now);
    return changed;
  }
  static bool mark(Statement& s, bool divergent) {
    if (!divergent || s.divergent) return false;
    return s.divergent = true;
  }
  /// If only some lanes leave, every enclosing region up to the target is divergent.
  bool leave(const Statement& s) {
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
  bool statement(Statement& s) {
    of(s.place);
    const GridClass first = of(s.value), last = of(s.last), step = of(s.step);
    switch (s.kind) {
      case Statement::assign:
        s.masked = is_masked(s.variable);
        return give(s, s.masked ? GridClass::vector : first);
      case Statement::atomic_add:
      case Statement::warp: return give(s, GridClass::vector);
      case Statement::branch: return mark(s, first != GridClass::scalar);
      case Statement::leave: return leave(s);
      case Statement::count: {
        const bool differs = std::max({first, last, step}) != GridClass::scalar;
        const bool linear = step == GridClass::scalar && first != GridClass::vector;
        const bool given = give(s, !differs ? GridClass::scalar
                                   : linear ? GridClass::affine
                                            : GridClass::vector);
        return mark(s, differs) || given;
      }
      default: return false;
    }
  }
  bool walk(const Body& body) {
    bool changed = false;
    depth_[&body] = regions_.size();
    for (Statement* s : body) {
      changed |= statement(*s);
      regions_.push_back(s);
      changed |= walk(s->body), changed |= walk(s->other);
      regions_.pop_back();
    }
    return changed;
  }

  Kernel& p_;
  const bool* varying_;
  std::map<const Body*, size_t> depth_;  // of bodies
  std::vector<Statement*> regions_;
};

}  // namespace

std::vector<GridClass> classify(Kernel& p, const bool varying[3]) {
  return Classes(p, varying).variable;
}

// ---- the choice of tiles ---------------------------------------------------------------------------

namespace {

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
    p.loops |= s.is_loop();
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
