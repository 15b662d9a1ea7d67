// cycles.h -- reference cycles of tensors and nodes, which reference counts alone never free
#pragma once
#include <atomic>
#include <unordered_map>
#include <vector>

#include "engine/autograd/graph.h"

namespace mt {

/// The tensors, nodes and checkpoints that can be reached from some tensors, and how many of the references
/// to each come from among them.
class OwnerGraph {
 public:
  /// Starts at a tensor of which `owners` owners are known.
  void start(TensorImpl*, int owners);
  /// Visits so many vertices, breadth first; whether that was all of them.
  bool walk(size_t most = SIZE_MAX);
  /// Whether no reference from outside keeps `thing`, a node or checkpoint that was reached, alive, directly or
  /// through others. Lists the nodes and tensors that lead to it.
  bool owned_within(const void* thing, std::vector<Node*>& nodes,
                    std::vector<TensorImpl*>& tensors);
  /// Whether nothing from outside leads to the tensor; after find_alive().
  bool unreachable(const TensorImpl* t) const { return !vertices_.at(t).alive; }
  /// Marks what is referenced from outside, and all that can be reached from there.
  void find_alive();

 private:
  struct Vertex {
    TensorImpl* tensor = nullptr;
    Node* node = nullptr;
    const std::shared_ptr<Checkpoint>* checkpoint = nullptr;
    int known = 0;  // references from within
    bool alive = false;
    std::vector<const void*> owners;
  };
  static bool all_known(const Vertex&);
  static void each(const Vertex&, const auto&);
  std::unordered_map<const void*, Vertex> vertices_;
  std::vector<const void*> order_;
};

/// A tensor whose gradient may lead back to it.
void suspect(TensorImpl*);
void unsuspect(TensorImpl*);
extern std::atomic<int> suspected;  // how many there are
inline bool any_suspects() { return suspected.load(std::memory_order_relaxed) > 0; }
/// Drops the gradients of suspects that only reference cycles through gradients keep alive.
void collect_cycles();

}  // namespace mt
