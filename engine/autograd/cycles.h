// cycles.h -- circles of tensors and nodes, which counts of owners alone would keep for ever
#pragma once
#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/autograd/graph.h"

namespace mt {

/// The tensors, nodes and stretches that some tensors lead to, and how many of their owners are
/// among them.
class Reach {
 public:
  /// Starts at a tensor of which `owners` owners are known.
  void start(TensorImpl*, int owners);
  /// Looks at so many things, the nearest first; whether that was all of them.
  bool walk(size_t most = SIZE_MAX);
  /// Whether all owners are known of all that leads to `thing`, a node or a stretch that was reached.
  /// Lists those nodes and tensors.
  bool accounted(const void* thing, std::vector<Node*>& nodes, std::vector<TensorImpl*>& tensors);
  /// Whether nobody else leads to the tensor.
  bool forgotten(const TensorImpl* t) const { return !things_.at(t).alive; }
  /// Finds what others own, and what that leads to.
  void find_alive();

 private:
  struct Thing {
    TensorImpl* tensor = nullptr;
    Node* node = nullptr;
    const std::shared_ptr<Checkpoint>* checkpoint = nullptr;
    int known = 0;  // owners
    bool alive = false;
    std::vector<const void*> owners;
  };
  static bool all_known(const Thing&);
  template <class See> static void each(const Thing&, const See&);
  std::unordered_map<const void*, Thing> things_;
  std::vector<const void*> order_;
};

/// A tensor whose gradient may lead back to it.
void suspect(TensorImpl*);
void unsuspect(TensorImpl*);
extern std::atomic<int> suspected;  // how many there are
inline bool any_suspects() { return suspected.load(std::memory_order_relaxed) > 0; }
/// Drops the gradients of suspects that nothing but circles of gradients leads to.
void drop_circles();

}  // namespace mt
