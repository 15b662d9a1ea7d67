// cycles.cpp -- circles of tensors and nodes, which counts of owners alone would keep for ever
//
// A tensor owns its gradient, and a gradient that was recorded owns the graph that leads back to the
// tensor. As in CPython's collector: what is owned by nobody outside, nor led to by such, is garbage.
#include "engine/autograd/cycles.h"

#include <mutex>
#include <unordered_set>

#include "engine/autograd/function.h"

namespace mt {
namespace {

std::mutex suspects_lock;
std::unordered_set<TensorImpl*>& suspects() {
  static auto* const set = new std::unordered_set<TensorImpl*>;  // until the process ends
  return *set;
}

}  // namespace

std::atomic<int> suspected{0};

bool Reach::all_known(const Thing& t) {
  const int64_t owners = t.tensor ? t.tensor->refs.load()
                         : t.node ? t.node->refs.load()
                                  : t.checkpoint->use_count();
  return owners == t.known;
}

/// Calls `see` with each thing that this one owns.
template <class See> void Reach::each(const Thing& t, const See& see) {
  const auto see_tensor = [&](TensorImpl* x) {
    Thing next;
    next.tensor = x;
    if (x) see(x, next);
  };
  const auto see_node = [&](Node* n) {
    Thing next;
    next.node = n;
    if (n) see(n, next);
  };
  if (t.tensor) {
    see_node(t.tensor->node);
    for (TensorImpl* x : {t.tensor->grad, t.tensor->base, t.tensor->pending}) see_tensor(x);
  }
  if (!t.node) return;
  for (int i = 0; i < t.node->inputs; ++i) {
    see_node(t.node->input(i).node.get());
    see_tensor(t.node->input(i).leaf.get());
  }
  if (!t.node->extra) return;
  see_tensor(t.node->extra->retained.get());
  Thing next;
  next.checkpoint = &t.node->extra->checkpoint;
  if (*next.checkpoint) see(next.checkpoint->get(), next);
}

void Reach::start(TensorImpl* t, int owners) {
  const auto [at, is_new] = things_.try_emplace(t);
  at->second.tensor = t;
  at->second.known += owners;
  if (is_new) order_.push_back(t);
}

bool Reach::walk(size_t most) {
  for (size_t i = 0; i < order_.size(); ++i) {
    if (i == most) return false;
    const void* const from = order_[i];
    Thing thing = things_.at(from);
    each(thing, [&](const void* what, const Thing& next) {
      const auto [at, is_new] = things_.try_emplace(what, next);
      ++at->second.known;
      at->second.owners.push_back(from);
      if (is_new) order_.push_back(what);
    });
  }
  return true;
}

bool Reach::accounted(const void* thing, std::vector<Node*>& nodes,
                      std::vector<TensorImpl*>& tensors) {
  if (!things_.count(thing)) return false;
  std::vector<const void*> list{thing};
  std::unordered_set<const void*> met{thing};
  for (size_t i = 0; i < list.size(); ++i) {
    const Thing& t = things_.at(list[i]);
    if (!all_known(t)) return false;
    if (t.node) nodes.push_back(t.node);
    if (t.tensor) tensors.push_back(t.tensor);
    for (const void* owner : t.owners)
      if (met.insert(owner).second) list.push_back(owner);
  }
  return true;
}

void Reach::find_alive() {
  std::vector<const void*> list;
  for (auto& [what, t] : things_)
    if (!all_known(t)) t.alive = true, list.push_back(what);
  while (!list.empty()) {
    const Thing t = things_.at(list.back());
    list.pop_back();
    each(t, [&](const void* what, const Thing&) {
      Thing& next = things_.at(what);
      if (!std::exchange(next.alive, true)) list.push_back(what);
    });
  }
}

void suspect(TensorImpl* t) {
  const std::lock_guard<std::mutex> lock(suspects_lock);
  t->suspected = true;
  suspects().insert(t);
  suspected = int(suspects().size());
}

void unsuspect(TensorImpl* t) {
  const std::lock_guard<std::mutex> lock(suspects_lock);
  suspects().erase(t);
  suspected = int(suspects().size());
}

void drop_circles() {
  std::vector<Ref<TensorImpl>> garbage;
  {
    const std::lock_guard<std::mutex> lock(suspects_lock);
    Reach reach;
    for (TensorImpl* t : suspects()) reach.start(t, 0);
    reach.walk();
    reach.find_alive();
    for (TensorImpl* t : suspects())
      if (reach.forgotten(t)) garbage.push_back(Ref<TensorImpl>::share(t));
  }
  for (auto& t : garbage) Ref<TensorImpl>::adopt(std::exchange(t->grad, nullptr));
}

}  // namespace mt
