// describe.cpp -- lists the autograd graph, for drawings
#include "engine/autograd/describe.h"

#include <unordered_map>

#include "engine/autograd/function.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

/// The entries so far, which are also the queue of the walk, because recursion could be millions of calls deep.
struct Description {
  const char* operation;
  size_t max_entries;
  std::vector<GraphEntry> entries;
  std::vector<Node*> nodes;                       // the node of entry i, null for a leaf
  std::unordered_map<const void*, int> index_of;  // of a Node or TensorImpl in `entries`

  int add(const void* key, GraphEntry entry, Node* node) {
    const auto [at, fresh] = index_of.try_emplace(key, int(entries.size()));
    if (!fresh) return at->second;
    if (entries.size() == max_entries)
      fail("{}: the graph has more than {} operations and parameters", operation, max_entries);
    entries.push_back(std::move(entry));
    nodes.push_back(node);
    return at->second;
  }
  int add_leaf(const Tensor& x) {
    GraphEntry entry;
    entry.leaf = x;
    entry.shape = x.shape();
    return add(x.impl(), std::move(entry), nullptr);
  }
  int add_node(Node& node) {
    if (node.consumed)
      fail(
          "{}: the backward pass freed the graph at {}; draw it before, or call "
          "backward{{retain_graph=true}}",
          operation, node.type->name);
    GraphEntry entry;
    entry.name = node.extra && node.extra->custom ? node.extra->custom->name : node.type->name;
    const int op = node.type->op;  // reductions have ids from 0 too
    entry.elementwise = op >= 0 && op_named(node.type->name) == op;
    return add(&node, std::move(entry), &node);
  }
  int add_edge(Edge& edge) {
    if (edge.node) return add_node(*edge.node);
    if (edge.leaf) return add_leaf(Tensor(edge.leaf));
    return -1;
  }
  void set_shape(int at, const Tensor& x) {
    if (at >= 0 && !entries[at].shape) entries[at].shape = x.shape();
  }

  /// Adds the inputs of an entry, and the shapes of what its operation saved.
  void add_inputs(size_t at) {
    Node* node = nodes[at];
    if (!node) return;
    std::vector<int> inputs;
    for (int i = 0; i < node->inputs; ++i) inputs.push_back(add_edge(node->input(i)));
    for (int slot = 0; slot < kMaxSaved; ++slot) {
      if (!node->saved[slot]) continue;
      const int source = node->source[slot];
      const Tensor saved(node->saved[slot]);
      if (source == Node::kOutput) set_shape(int(at), saved);
      else if (source >= 0 && source < node->inputs) set_shape(inputs[source], saved);
    }
    entries[at].inputs = std::move(inputs);
  }
};

}  // namespace

std::vector<GraphEntry> describe_graph(const char* operation, const Tensor& root,
                                       size_t max_entries) {
  if (!root.requires_grad())
    fail("{}: the tensor has no graph: none of its inputs requires a gradient", operation);
  Description d{operation, max_entries, {}, {}, {}};
  Node* node = root.impl()->node;
  d.set_shape(node ? d.add_node(*node) : d.add_leaf(root), root);
  for (size_t at = 0; at < d.entries.size(); ++at) d.add_inputs(at);
  return std::move(d.entries);
}

}  // namespace mt
