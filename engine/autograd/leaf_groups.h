// leaf_groups.h -- which leaves of a backward pass belong to groups, and when their gradients are complete
#pragma once
#include <unordered_set>

#include "engine/autograd/graph.h"

namespace mt {

/// The groups of the leaves that a pass reaches. Nodes are visited by falling sequence numbers; so a leaf's gradient is
/// complete when the earliest operation on it has been visited.
class LeafGroups {
 public:
  /// Walks over the graph, and begins the pass of each group; null if there are none.
  static std::unique_ptr<LeafGroups> of(const Tensor& root);

  /// Reports the leaves that no node up to sequence number `latest` uses: finish(leaf, first) returns the gradient, and
  /// calls the leaf's hooks at the first call.
  template <class Finish> void report(uint64_t latest, Finish finish) {
    while (next_ < uses_.size() && uses_[next_].earliest > latest) {
      const Use& use = uses_[next_++];
      use.pass->ready(use.member, finish(*use.leaf, use.first));
    }
  }
  /// Whether the leaf is reported, rather than treated when the pass ends.
  bool contains(const TensorImpl* leaf) const { return leaves_.count(leaf) > 0; }
  /// Ends the passes of the groups: get(leaf) returns a gradient, set(leaf, gradient, whole) replaces it; `whole`: it
  /// will be `.grad`.
  template <class Get, class Set> void end(Get get, Set set) {
    for (Joined& joined : joined_) {
      std::vector<Ref<TensorImpl>> leaves;
      TensorList gradients;
      for (const auto& member : joined.group->members) {
        const auto hook = member.lock();
        leaves.push_back(hook ? Ref<TensorImpl>::share(hook->leaf) : Ref<TensorImpl>());
        gradients.push_back(hook ? get(*hook->leaf) : Tensor());
      }
      const bool whole = joined.pass && joined.pass->end(gradients);
      if (!joined.pass) exchange(joined, gradients);
      for (size_t i = 0; i < leaves.size(); ++i)
        if (leaves[i] && gradients[i].defined()) set(leaves[i], std::move(gradients[i]), whole);
    }
  }

  void committed() {
    for (const Joined& joined : joined_)
      if (joined.pass) joined.pass->committed();
  }

 private:
  struct Use {
    uint64_t earliest;  // the sequence number of the first operation on the leaf
    Ref<TensorImpl> leaf;
    GroupPass* pass;
    size_t member;
    bool first;  // of the entries of this leaf
  };
  struct Joined {
    std::shared_ptr<GradientGroup> group;
    std::unique_ptr<GroupPass> pass;
    // Without a pass: what is passed to `begin` in one exchange at the end, and the order of the members.
    GradientGroup::Start start = {};
    std::vector<size_t> order = {};
  };
  static void exchange(const Joined&, TensorList& gradients);
  std::vector<Joined> joined_;
  std::vector<Use> uses_;  // latest first
  std::unordered_set<const TensorImpl*> leaves_;
  size_t next_ = 0;
};

}  // namespace mt
