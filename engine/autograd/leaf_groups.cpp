// leaf_groups.cpp -- finds the leaves of gradient groups in a graph
#include "engine/autograd/leaf_groups.h"

#include <algorithm>

#include "engine/autograd/inplace.h"
#include "engine/core/exchange.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

std::atomic<int> groups_alive = 0;

/// What a graph leads to.
struct Reached {
  std::unordered_map<TensorImpl*, uint64_t> leaves;  // with hooks: the earliest operation on each
  bool runs_functions = false;                       // of the user, during a backward pass
};

bool has_callbacks(const std::vector<std::shared_ptr<Hook>>& hooks) {
  return std::ranges::any_of(hooks, [](const auto& hook) { return bool(hook->call); });
}

Reached reached_from(const Tensor& root) {
  Reached found;
  std::unordered_set<const Node*> visited;
  std::vector<Node*> waiting;
  const auto reach = [&](const Edge& edge, uint64_t user) {
    if (Node* n = edge.node.get(); n && visited.insert(n).second) waiting.push_back(n);
    TensorImpl* const leaf = edge.leaf.get();
    if (!leaf || !leaf->hooks) return;
    found.runs_functions |= has_callbacks(*leaf->hooks);
    const auto at = found.leaves.try_emplace(leaf, user).first;
    at->second = std::min(at->second, user);
  };
  Edge start;
  connect(start, root);
  reach(start, UINT64_MAX);
  while (!waiting.empty()) {
    Node* const n = waiting.back();
    waiting.pop_back();
    if (const NodeExtra* e = n->extra.get())
      found.runs_functions |= e->custom || e->unsaved || has_callbacks(e->hooks);
    for (int i = 0; i < n->inputs; ++i) reach(n->input(i), n->sequence);
  }
  return found;
}

/// Whether the group exchanges all gradients by one call at the end of the pass, which a replay can repeat. A recording
/// is refused where that is impossible, for example because functions of the user could communicate in between.
bool exchanges_at_end(const GradientGroup& group, const GradientGroup::Start& start) {
  if (exchanges_are_skipped()) return true;
  if (!step_recorder) return false;
  const bool all = std::ranges::find(start.reached, false) == start.reached.end();
  if (all && start.undisturbed && group.is_repeatable()) return true;
  step_recorder->on_external_effect(
      !all ? "the step does not use all parameters whose gradients the processes average"
      : !start.undisturbed
          ? "a backward pass runs hooks, functions of the user or several nets of dist.parallel"
          : "gradients were accumulated by a backward pass that did not average them");
  return false;
}

}  // namespace

/// Replaces the gradients by those that the group computes from them.
void LeafGroups::exchange(const Joined& joined, TensorList& gradients) {
  Exchange all;
  for (size_t i : joined.order) {
    const auto hook = joined.group->members[i].lock();
    const Tensor leaf(Ref<TensorImpl>::share(hook->leaf));
    Tensor& g = gradients[i];
    all.in.push_back(g.defined() ? g : zeros(leaf.shape(), leaf.dtype(), leaf.device()));
    all.out.push_back(g = empty(leaf.shape(), leaf.dtype(), leaf.device()));
  }
  all.run = [group = joined.group, start = joined.start, order = joined.order](
                const TensorList& in, const TensorList& out) {
    const NoGrad off;
    TensorList changed(start.reached.size());
    for (size_t k = 0; k < order.size(); ++k) changed[order[k]] = in[k];
    const std::unique_ptr<GroupPass> pass = group->begin(start);
    for (size_t i = 0; pass && i < order.size(); ++i) pass->ready(order[i], in[i]);
    if (pass) pass->end(changed);
    for (size_t k = 0; k < order.size(); ++k) copy_(out[k], changed[order[k]]);
    if (pass) pass->committed();
  };
  run_exchange(all);
}

GradientGroup::~GradientGroup() {
  if (number > 0) --groups_alive;
}

void register_group(const TensorList& leaves, const std::shared_ptr<GradientGroup>& group) {
  static std::atomic<uint64_t> last_number = 0;
  group->number = ++last_number;
  ++groups_alive;
  for (const Tensor& x : leaves) {
    const auto hook = std::make_shared<Hook>(Hook{{}, {}, group, x.impl()});
    add_hook(x, hook);
    group->members.push_back(hook);
  }
}

std::unique_ptr<LeafGroups> LeafGroups::of(const Tensor& root) {
  if (groups_alive == 0) return nullptr;
  const Reached found = reached_from(root);
  auto groups = std::make_unique<LeafGroups>();
  std::vector<Joined>& joined = groups->joined_;
  for (const auto& [leaf, earliest] : found.leaves)
    for (const auto& hook : *leaf->hooks)
      if (hook->group && std::ranges::find(joined, hook->group, &Joined::group) == joined.end())
        joined.push_back({hook->group, nullptr});
  // All processes begin the passes of their groups in the same order.
  std::ranges::sort(joined, {}, [](const Joined& j) { return j.group->number; });
  const bool undisturbed = joined.size() == 1 && !found.runs_functions;
  for (Joined& one : joined) {
    const auto& members = one.group->members;
    GradientGroup::Start start{std::vector<bool>(members.size()), 0, undisturbed};
    std::vector<Use> uses;
    for (size_t i = 0; i < members.size(); ++i) {
      const auto hook = members[i].lock();
      const auto at = hook ? found.leaves.find(hook->leaf) : found.leaves.end();
      if (at == found.leaves.end()) continue;
      start.reached[i] = true;
      uses.push_back({at->second, Ref<TensorImpl>::share(at->first), nullptr, i, false});
    }
    std::ranges::stable_sort(uses, std::greater(), &Use::earliest);
    uint64_t order = 0;
    for (const Use& use : uses) order = order * 1000003 + use.member + 1;
    start.order = int64_t(order >> 1);
    if (exchanges_at_end(*one.group, start)) {
      for (const Use& use : uses) one.order.push_back(use.member);
      one.start = std::move(start);
      continue;
    }
    one.pass = one.group->begin(std::move(start));
    if (!one.pass) continue;
    for (Use& use : uses) {
      use.pass = one.pass.get();
      groups->uses_.push_back(std::move(use));
    }
  }
  std::erase_if(joined, [](const Joined& one) { return !one.pass && one.order.empty(); });
  if (joined.empty()) return nullptr;
  std::ranges::stable_sort(groups->uses_, std::greater(), &Use::earliest);
  for (Use& use : groups->uses_) use.first = groups->leaves_.insert(use.leaf.get()).second;
  return groups;
}

}  // namespace mt
