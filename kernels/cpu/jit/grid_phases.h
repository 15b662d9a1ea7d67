// grid_phases.h -- divides a grid kernel at its barriers into what a block does once and what each thread does
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "kernels/grid.h"

namespace mt {

/// A step of a block: a statement that runs once, or statements that run thread after thread.
struct GridPhase {
  const GridStatement* once = nullptr;
  std::vector<const GridStatement*> threads = {};
};

/// The control flow around barriers is the same for all threads of a block and runs once, as do
/// assignments of variables that have the same value in all threads, where the order permits it.
class GridPhases {
  using V = GridValue;
  using S = GridStatement;
  using List = std::vector<const S*>;
  using Scopes = std::set<const S*>;

 public:
  explicit GridPhases(const GridProgram& p) {
    find_waits(p.body);
    if (!divides()) return;
    mark(p.body, {});
    std::set<int> stored;
    each_statement(p.body, 0, [&](const S& s, int) {
      if (s.place) stored.insert(s.place->index);
      if (s.variable >= 0 && (s.is != GridClass::scalar || s.kind == S::warp))
        own_.insert(s.variable);
    });
    for (bool changed = true; std::exchange(changed, false);) find_own(p.body, changed);
    each_statement(p.body, 0, [&](const S& s, int) {
      if (s.kind == S::count && is_control(s)) fine_ = fine_ && !is_own(s.variable);
    });
    if (!fine_) return;
    divide(p.body, stored);
    find_kept(p);
  }
  bool divides() const { return !waits_.empty(); }
  /// False if threads may wait at different barriers, or a variable would have to be both kinds.
  bool fine() const { return fine_; }
  /// The steps of the program, or of a body around barriers; null for other bodies.
  const std::vector<GridPhase>* steps(const GridBody& b) const {
    const auto found = steps_.find(&b);
    return found == steps_.end() ? nullptr : &found->second;
  }
  /// Visits the statements of each step that threads run.
  template <class F> void each_threads(const F& f) const {
    for (const auto& [body, steps] : steps_)
      for (const GridPhase& step : steps)
        if (!step.once) f(step.threads);
  }
  bool is_control(const S& s) const { return control_.count(&s); }
  /// Whether each thread has its own value of a variable.
  bool is_own(int variable) const { return own_.count(variable); }
  /// The place of a variable that keeps its value between steps in the memory of its thread, or -1.
  int kept(int variable) const {
    const auto found = kept_.find(variable);
    return found == kept_.end() ? -1 : found->second;
  }
  int kept_count() const { return int(kept_.size()); }
  /// Whether a kept variable may be read before it is assigned; it is then 0.
  bool clears() const { return clears_; }

  static List listed(const GridBody& body) {
    List list;
    for (const S* s : body) list.push_back(s);
    return list;
  }
  /// Whether the first of the statements that mention a variable assigns it.
  static bool assigns(const List& list, int variable) {
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const S* s) { return mentions(*s, variable); });
    return found != list.end() && (*found)->variable == variable && (*found)->kind != S::count &&
           !reads(**found, variable);
  }
  /// Whether statements never read a variable before they assign it.
  static bool defines(const List& list, int variable) {
    const auto in = [&](const S* s) { return mentions(*s, variable); };
    const auto found = std::find_if(list.begin(), list.end(), in);
    if (found == list.end()) return true;
    const S& s = **found;
    if (assigns(list, variable)) return true;
    if (reads(s, variable)) return false;
    if (std::any_of(found + 1, list.end(), in)) return false;
    return s.variable == variable ||
           (defines(listed(s.body), variable) && defines(listed(s.other), variable));
  }

 private:
  /// Visits a statement and those in it.
  template <class F> static void each_in(const S& s, const F& f) {
    each_statement(List{&s}, 0, [&](const S& x, int) { f(x); });
  }
  static bool reads(const S& s, int variable) {
    bool any = false;
    values_of(s, [&](const V& v) { any |= v.kind == V::variable && v.index == variable; });
    return any;
  }
  static bool mentions(const S& s, int variable) {
    bool any = false;
    each_in(s, [&](const S& x) { any |= x.variable == variable || reads(x, variable); });
    return any;
  }
  bool find_waits(const GridBody& body) {
    bool any = false;
    for (const S* s : body) {
      const bool inside = find_waits(s->body), other = find_waits(s->other);
      if (inside || other || s->kind == S::barrier || s->kind == S::warp)
        waits_.insert(s), any = true;
    }
    return any;
  }
  /// Whether a statement leaves one that has barriers, other than those of `except`.
  bool leaves_waits(const S& s, const Scopes* except) const {
    bool any = false;
    each_in(s, [&](const S& x) {
      any |= x.kind == S::leave && waits_.count(x.target) && !(except && except->count(x.target));
    });
    return any;
  }
  /// The scopes that end where the bodies of a statement end, if it is the last one in them.
  static Scopes inner(const S& s, bool is_last, const Scopes& tails) {
    if (s.is_loop()) return {};
    Scopes all = is_last ? tails : Scopes{};
    if (s.kind == S::scope) all.insert(&s);
    return all;
  }
  /// Finds the statements that run once: those with barriers, and those that leave such a statement, except
  /// after its last barrier, where a thread just ends.
  void mark(const GridBody& body, const Scopes& tails) {
    const List list = listed(body);
    size_t tail = list.size();
    while (tail > 0 && !waits_.count(list[tail - 1])) --tail;
    bool ends = false, once = false;
    for (size_t k = 0; k < list.size(); ++k) {
      const S& s = *list[k];
      const bool leaves = leaves_waits(s, nullptr);
      const bool only_ends = k >= tail && leaves && !leaves_waits(s, &tails);
      if (!waits_.count(&s) && (!leaves || only_ends)) {
        ends |= only_ends;
        continue;
      }
      control_.insert(&s), once |= k >= tail;
      if (s.kind == S::branch) fine_ = fine_ && s.value->is == GridClass::scalar;
      if (s.kind == S::count) fine_ = fine_ && s.is == GridClass::scalar;
      const Scopes now = inner(s, k + 1 == list.size(), tails);
      mark(s.body, now), mark(s.other, now);
    }
    fine_ = fine_ && !(ends && once);
    for (size_t k = tail; ends && k < list.size(); ++k) threads_.insert(list[k]);
  }
  /// Whether a statement only assigns variables of the block by values that do not differ.
  bool same_everywhere(const S& s) const {
    bool same = !threads_.count(&s);
    each_in(s, [&](const S& x) {
      const bool sets = x.kind == S::assign || x.kind == S::count;
      same = same && !x.place && (x.variable < 0 || (sets && !is_own(x.variable)));
      values_of(x, [&](const V& v) {
        same = same && v.is == GridClass::scalar && !(v.kind == V::variable && is_own(v.index));
      });
    });
    return same;
  }
  /// Variables that a thread sets belong to it.
  void find_own(const GridBody& body, bool& changed) {
    for (const S* s : listed(body)) find_own(*s, changed);
  }
  void find_own(const S& s, bool& changed) {
    if (is_control(s)) return find_own(s.body, changed), find_own(s.other, changed);
    if (same_everywhere(s)) return;
    each_in(s, [&](const S& x) {
      if (x.variable >= 0) changed |= own_.insert(x.variable).second;
    });
  }
  /// Whether a statement that runs once may run before statements of threads.
  bool may_precede(const S& s, const List& threads, const std::set<int>& stored) const {
    bool may = true;
    each_in(s, [&](const S& x) {
      values_of(x, [&](const V& v) { may = may && !(v.kind == V::load && stored.count(v.index)); });
      for (const S* t : threads) may = may && (x.variable < 0 || !mentions(*t, x.variable));
    });
    return may;
  }
  void divide(const GridBody& body, const std::set<int>& stored) {
    std::vector<GridPhase> steps;
    List threads;
    const auto run = [&] {
      if (!threads.empty()) steps.push_back({nullptr, std::exchange(threads, {})});
    };
    for (const S* s : listed(body)) {
      const bool control = is_control(*s);
      if (!control && !same_everywhere(*s)) {
        threads.push_back(s);
        continue;
      }
      if (control || !may_precede(*s, threads, stored)) run();
      if (s->kind != S::barrier) steps.push_back({s});
      if (control && !s->body.empty()) divide(s->body, stored);
      if (control && !s->other.empty()) divide(s->other, stored);
    }
    run();
    steps_[&body] = std::move(steps);
  }
  /// Variables of threads that are mentioned in several steps, or have a value before one.
  void find_kept(const GridProgram& p) {
    std::map<int, std::set<const GridPhase*>> where;
    const auto note = [&](const S& s, const GridPhase& step) {
      if (s.variable >= 0) where[s.variable].insert(&step);
      values_of(s, [&](const V& v) {
        if (v.kind == V::variable) where[v.index].insert(&step);
      });
    };
    std::set<int> open;
    for (const auto& [body, steps] : steps_)
      for (const GridPhase& step : steps) {
        if (step.once) note(*step.once, step);
        for (const S* s : step.threads) each_in(*s, [&](const S& x) { note(x, step); });
        for (const int v : own_)
          if (!step.threads.empty() && !defines(step.threads, v)) open.insert(v);
      }
    for (const auto& [v, steps] : where) {
      if (!is_own(v) || (steps.size() < 2 && !open.count(v))) continue;
      kept_.emplace(v, int(kept_.size()));
      clears_ |= !defines(listed(p.body), v);
    }
  }

  bool fine_ = true, clears_ = false;
  Scopes waits_, control_, threads_;  // with barriers; run once around them; run in threads
  std::set<int> own_;
  std::map<int, int> kept_;
  std::map<const GridBody*, std::vector<GridPhase>> steps_;
};

}  // namespace mt
