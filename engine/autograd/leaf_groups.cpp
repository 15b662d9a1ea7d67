// leaf_groups.cpp -- finds the leaves of groups in a graph
#include "engine/autograd/leaf_groups.h"

#include <algorithm>

namespace mt {
namespace {

std::atomic<uint64_t> groups_made = 0;

/// The leaves with hooks that a graph leads to, and the sequence number of the first operation on each.
std::unordered_map<TensorImpl*, uint64_t> leaves_with_hooks(const Tensor& root) {
  std::unordered_map<TensorImpl*, uint64_t> found;
  std::unordered_set<const Node*> visited;
  std::vector<Node*> waiting;
  const auto reach = [&](const Edge& edge, uint64_t user) {
    if (Node* n = edge.node.get(); n && visited.insert(n).second) waiting.push_back(n);
    TensorImpl* const leaf = edge.leaf.get();
    if (!leaf || !leaf->hooks) return;
    const auto at = found.try_emplace(leaf, user).first;
    at->second = std::min(at->second, user);
  };
  Edge start;
  connect(start, root);
  reach(start, UINT64_MAX);
  while (!waiting.empty()) {
    Node* const n = waiting.back();
    waiting.pop_back();
    for (int i = 0; i < n->inputs; ++i) reach(n->input(i), n->sequence);
  }
  return found;
}

}  // namespace

uint64_t GradientGroup::next_number() { return ++groups_made; }

void register_group(const TensorList& leaves, const std::shared_ptr<GradientGroup>& group) {
  for (const Tensor& x : leaves) {
    const auto hook = std::make_shared<Hook>(Hook{{}, {}, group, x.impl()});
    add_hook(x, hook);
    group->members.push_back(hook);
  }
}

std::unique_ptr<LeafGroups> LeafGroups::of(const Tensor& root) {
  if (groups_made == 0) return nullptr;
  const auto found = leaves_with_hooks(root);
  auto groups = std::make_unique<LeafGroups>();
  for (const auto& [leaf, earliest] : found)
    for (const auto& hook : *leaf->hooks)
      if (hook->group &&
          std::ranges::find(groups->joined_, hook->group, &Joined::group) == groups->joined_.end())
        groups->joined_.push_back({hook->group, nullptr});
  // All processes begin the passes of their groups in the same order.
  std::ranges::sort(groups->joined_, {}, [](const Joined& j) { return j.group->number; });
  for (Joined& joined : groups->joined_) {
    const auto& members = joined.group->members;
    std::vector<bool> reached;
    for (const auto& member : members) {
      const auto hook = member.lock();
      reached.push_back(hook && found.count(hook->leaf));
    }
    joined.pass = joined.group->begin(reached);
    if (!joined.pass) continue;
    for (size_t i = 0; i < members.size(); ++i)
      if (reached[i]) {
        TensorImpl* const leaf = members[i].lock()->leaf;
        groups->uses_.push_back(
            {found.at(leaf), Ref<TensorImpl>::share(leaf), joined.pass.get(), i, false});
      }
  }
  std::erase_if(groups->joined_, [](const Joined& joined) { return !joined.pass; });
  if (groups->joined_.empty()) return nullptr;
  std::ranges::stable_sort(groups->uses_, std::greater(), &Use::earliest);
  for (Use& use : groups->uses_) use.first = groups->leaves_.insert(use.leaf.get()).second;
  return groups;
}

}  // namespace mt
