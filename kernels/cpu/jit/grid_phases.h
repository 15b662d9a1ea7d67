// grid_phases.h -- divides a grid kernel at its barriers into what a block does once and what each thread does
#pragma once
#include <map>
#include <set>
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
 public:
  explicit GridPhases(const GridProgram&);

  bool divides() const { return !waits_.empty(); }
  /// False if threads may wait at different barriers, or a variable would have to be both kinds.
  bool fine() const { return fine_; }
  /// The steps of the program, or of a body around barriers; null for other bodies.
  const std::vector<GridPhase>* steps(const GridBody& b) const {
    const auto found = steps_.find(&b);
    return found == steps_.end() ? nullptr : &found->second;
  }
  bool is_control(const GridStatement& s) const { return control_.count(&s); }
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
  static std::vector<const GridStatement*> listed(const GridBody&);
  /// Whether the first of the statements that mention a variable assigns it.
  static bool assigns(const std::vector<const GridStatement*>&, int variable);
  /// Whether statements never read a variable before they assign it.
  static bool defines(const std::vector<const GridStatement*>&, int variable);

 private:
  using S = GridStatement;
  using List = std::vector<const S*>;
  using Scopes = std::set<const S*>;
  bool find_waits(const GridBody&);
  bool leaves_waits(const S&, const Scopes* except) const;
  static Scopes inner(const S&, bool is_last, const Scopes& tails);
  void mark(const GridBody&, const Scopes& tails);
  bool same_everywhere(const S&) const;
  void find_own(const S&, bool& changed);
  void find_own(const GridBody&, bool& changed);
  bool may_precede(const S&, const List&, const std::set<int>& stored) const;
  void divide(const GridBody&, const std::set<int>& stored);
  void find_kept(const GridProgram&);

  bool fine_ = true, clears_ = false;
  Scopes waits_, control_, threads_;  // with barriers; run once around them; run in threads
  std::set<int> own_;
  std::map<int, int> kept_;
  std::map<const GridBody*, std::vector<GridPhase>> steps_;
};

}  // namespace mt
