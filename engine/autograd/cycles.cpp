// cycles.cpp -- reference cycles of tensors and nodes, which reference counting never frees
//
// A tensor owns its gradient, and a recorded gradient owns the graph that leads back to the tensor.
// As in CPython's collector, objects that are not reachable from outside are garbage.
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

bool OwnerGraph::all_known(const Vertex& t) {
  const int64_t owners = t.tensor ? t.tensor->refs.load()
                         : t.node ? t.node->refs.load()
                                  : t.unsaved->use_count();
  return owners == t.known;
}

/// Calls `see` with each vertex that this vertex owns.
void OwnerGraph::each(const Vertex& t, const auto& see) {
  const auto see_tensor = [&](TensorImpl* x) {
    if (x) see(x, Vertex{.tensor = x});
  };
  const auto see_node = [&](Node* n) {
    if (n) see(n, Vertex{.node = n});
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
  if (const auto& unsaved = t.node->extra->unsaved) see(unsaved.get(), Vertex{.unsaved = &unsaved});
}

void OwnerGraph::start(TensorImpl* t, int owners) {
  const auto [at, is_new] = vertices_.try_emplace(t);
  at->second.tensor = t;
  at->second.known += owners;
  if (is_new) order_.push_back(t);
}

bool OwnerGraph::walk(size_t most) {
  for (size_t i = 0; i < order_.size(); ++i) {
    if (i == most) return false;
    const void* const from = order_[i];
    Vertex thing = vertices_.at(from);
    each(thing, [&](const void* what, const Vertex& next) {
      const auto [at, is_new] = vertices_.try_emplace(what, next);
      ++at->second.known;
      at->second.owners.push_back(from);
      if (is_new) order_.push_back(what);
    });
  }
  return true;
}

bool OwnerGraph::owned_within(const void* thing, std::vector<Node*>& nodes,
                              std::vector<TensorImpl*>& tensors) {
  if (!vertices_.count(thing)) return false;
  std::vector<const void*> list{thing};
  std::unordered_set<const void*> seen{thing};
  for (size_t i = 0; i < list.size(); ++i) {
    const Vertex& t = vertices_.at(list[i]);
    if (!all_known(t)) return false;
    if (t.node) nodes.push_back(t.node);
    if (t.tensor) tensors.push_back(t.tensor);
    for (const void* owner : t.owners)
      if (seen.insert(owner).second) list.push_back(owner);
  }
  return true;
}

void OwnerGraph::find_alive() {
  std::vector<const void*> list;
  for (auto& [what, t] : vertices_)
    if (!all_known(t)) t.alive = true, list.push_back(what);
  while (!list.empty()) {
    const Vertex t = vertices_.at(list.back());
    list.pop_back();
    each(t, [&](const void* what, const Vertex&) {
      Vertex& next = vertices_.at(what);
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

void collect_cycles() {
  std::vector<Ref<TensorImpl>> garbage;
  {
    const std::lock_guard<std::mutex> lock(suspects_lock);
    OwnerGraph graph;
    for (TensorImpl* t : suspects()) graph.start(t, 0);
    graph.walk();
    graph.find_alive();
    for (TensorImpl* t : suspects())
      if (graph.unreachable(t)) garbage.push_back(Ref<TensorImpl>::share(t));
  }
  for (auto& t : garbage) Ref<TensorImpl>::adopt(std::exchange(t->grad, nullptr));
}

}  // namespace mt
