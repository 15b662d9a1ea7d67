// grid_steps.h -- how the values of a grid kernel change from thread to thread along a row of a block
#pragma once
#include <limits>
#include <map>
#include <set>

#include "kernels/cpu/jit/grid_phases.h"

namespace mt {

/// Finds for integers and booleans whether they are equal in the threads of a row, grow by a constant number from
/// thread to thread, or vary; and which loops and scopes threads of a row leave at different times.
class GridSteps {
  using V = GridValue;
  using S = GridStatement;
  using Only = std::map<int, const S*>;
  using Scopes = std::set<const S*>;

 public:
  static constexpr int64_t kVaries = std::numeric_limits<int64_t>::min();

  /// `only`: the statement that sets a variable, which is then never read before; null: there are several.
  /// `open`: the variables that may be read before they are set, and are then 0.
  GridSteps(const GridPhases& phases, const Only& only, const std::set<int>& open, int axis)
      : phases_(phases),
        only_(only),
        open_(open),
        axis_(axis) {
    for (bool changed = true; changed;) {
      std::map<int, int64_t> before = std::move(steps_);
      steps_.clear(), left_.clear();
      before_ = &before;
      phases.each_threads([&](const auto& list) {
        Scopes left = leaving(list, false);
        walk(list, !left.empty());
        left_.merge(left);
      });
      changed = before != steps_;
      if (++rounds_ > 40)
        for (auto& [variable, step] : steps_) step = kVaries;
      before_ = nullptr;
    }
  }
  /// The difference between neighbours; 0: all threads of a row have the same value.
  int64_t of(const V& v) const {
    switch (v.kind) {
      case V::place:
      case V::thread: return v.index == axis_;
      case V::variable: return of_variable(v.index, v.type);
      case V::load:
      case V::operation: return of_operation(v);
      default: return 0;
    }
  }
  int64_t of_variable(int index, GridType type) const {
    if (!phases_.is_own(index)) return 0;
    if (type == GridType::real) return kVaries;
    const auto& steps = before_ ? *before_ : steps_;
    const auto found = steps.find(index);
    const int64_t step = found == steps.end() ? kUnknown : found->second;
    return step == kUnknown && !before_ ? kVaries : step;
  }
  bool varies(const V& v) const { return of(v) == kVaries; }
  /// Whether threads of a row leave it at different times.
  bool is_left(const S* scope) const { return left_.count(scope); }
  /// Whether the iterations of a loop are those of some threads only.
  bool is_uneven(const S& count) const {
    return of(*count.value) != 0 || of(*count.last) != 0 || of(*count.step) != 0;
  }

 private:
  static constexpr int64_t kUnknown = kVaries + 1;  // of a variable that has not been set yet

  int64_t of_operation(const V& v) const {
    bool equal = true, unknown = false;
    for (const V* a : v.args) {
      const int64_t step = of(*a);
      equal &= step == 0, unknown |= step == kUnknown;
    }
    if (equal) return 0;
    if (unknown) return kUnknown;
    if (v.kind != V::operation || v.type != GridType::integer) return kVaries;
    const int64_t x = of(*v.args[0]), y = v.args.count > 1 ? of(*v.args[1]) : 0;
    if (x == kVaries || y == kVaries) return kVaries;
    int64_t step = kVaries;
    if (v.converts()) step = v.args[0]->type == GridType::integer ? x : kVaries;
    else if (v.has<op::Neg>()) step = -x;
    else if (v.has<op::Add>()) step = x + y;
    else if (v.has<op::Sub>()) step = x - y;
    else if (v.has<op::Mul>()) step = product(*v.args[0], *v.args[1]);
    return step > -kMax && step < kMax ? step : kVaries;
  }
  int64_t product(const V& x, const V& y) const {
    const auto known = [](const V& v) { return v.kind == V::number && std::abs(v.value) < kMax; };
    if (known(y)) return of(x) * int64_t(y.value);
    return known(x) ? of(y) * int64_t(x.value) : kVaries;
  }
  /// Whether some threads of a row may run statements in a statement, while others do not.
  bool parts(const S& s) const {
    if (s.kind == S::branch) return of(*s.value) != 0;
    return (s.kind == S::count && is_uneven(s)) || !leaving(s.body, false).empty();
  }
  /// The loops and scopes that some threads leave, by statements of a body, while others stay.
  template <class List> Scopes leaving(const List& list, bool some) const {
    Scopes all;
    for (const S* s : list) {
      if (s->kind == S::leave && some) all.insert(s->target);
      const bool inside = some || parts(*s);
      all.merge(leaving(s->body, inside));
      all.merge(leaving(s->other, inside));
      all.erase(s);
    }
    return all;
  }
  /// `some`: statements that some threads of a row run, and others do not.
  template <class List> void walk(const List& list, bool some) {
    for (const S* s : list) {
      if (s->variable >= 0) note(*s, some);
      left_.merge(leaving(s->body, false));
      const bool inside = some || parts(*s);
      walk(s->body, inside), walk(s->other, inside);
    }
  }
  void note(const S& s, bool some) {
    const auto found = only_.find(s.variable);
    const bool alone = found != only_.end() && found->second;
    const bool whole = !some || alone;  // only threads that have set it read it
    const bool sets = s.kind == S::assign || s.kind == S::count;
    int64_t step = sets && whole ? of(*s.value) : kVaries;
    if (open_.count(s.variable) && step != 0) step = step == kUnknown ? 0 : kVaries;
    const auto [at, is_new] = steps_.emplace(s.variable, step);
    if (is_new || at->second == kUnknown) at->second = step;
    else if (step != kUnknown && at->second != step) at->second = kVaries;
  }

  static constexpr int64_t kMax = 1 << 20;
  const GridPhases& phases_;
  const Only& only_;
  const std::set<int>& open_;
  const int axis_;
  int rounds_ = 0;
  std::map<int, int64_t> steps_;
  const std::map<int, int64_t>* before_ = nullptr;
  Scopes left_;
};

}  // namespace mt
