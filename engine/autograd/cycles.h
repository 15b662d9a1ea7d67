// cycles.h -- reference cycles of tensors and nodes, which reference counting never frees
#pragma once
#include <atomic>
#include <unordered_map>
#include <vector>

#include "engine/autograd/graph.h"

namespace mt {

/// The tensors, nodes and Unsaved that are reachable from some tensors, and the number of
/// references to each of them from within this set.
class OwnerGraph {
 public:
  /// Starts at a tensor with `owners` known owners.
  void start(TensorImpl*, int owners);
  /// Visits at most `most` vertices, breadth first; returns whether these were all.
  bool walk(size_t most = SIZE_MAX);
  /// Whether no reference from outside keeps `thing`, a node or Unsaved that was reached, alive,
  /// directly or indirectly. Lists the nodes and tensors that lead to it.
  bool owned_within(const void* thing, std::vector<Node*>& nodes,
                    std::vector<TensorImpl*>& tensors);
  /// Whether the tensor is not reachable from outside; call it after find_alive().
  bool unreachable(const TensorImpl* t) const { return !vertices_.at(t).alive; }
  /// Marks all vertices that are referenced from outside, and all that are reachable from these.
  void find_alive();

 private:
  struct Vertex {
    TensorImpl* tensor = nullptr;
    Node* node = nullptr;
    const std::shared_ptr<Unsaved>* unsaved = nullptr;
    int known = 0;  // references from within
    bool alive = false;
    std::vector<const void*> owners = {};
  };
  static bool all_known(const Vertex&);
  static void each(const Vertex&, const auto&);
  std::unordered_map<const void*, Vertex> vertices_;
  std::vector<const void*> order_;
};

/// Registers a tensor whose gradient may lead back to it.
void suspect(TensorImpl*);
void unsuspect(TensorImpl*);
extern std::atomic<int> suspected;  // the number of suspects
inline bool any_suspects() { return suspected.load(std::memory_order_relaxed) > 0; }
/// Drops the gradients of suspects that are alive only through reference cycles of gradients.
void collect_cycles();

}  // namespace mt
