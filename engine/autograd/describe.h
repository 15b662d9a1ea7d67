// describe.h -- the graph of gradients as a list, for drawings: names, inputs, shapes
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

/// An operation or a leaf. Shapes are those that the graph knows: of leaves, of what operations
/// saved, and of the root.
struct GraphEntry {
  std::string name;            // of the operation; empty for a leaf
  Tensor leaf;                 // undefined for an operation
  std::optional<Shape> shape;  // of the result
  bool elementwise = false;  // the result's shape is that of each input (broadcasting is an expand)
  std::vector<int> inputs;   // positions in the list; -1: an input without a gradient
};

/// What led to `root`, the root first; an input stands behind what uses it or is named by its
/// position. Throws where root has no graph, where a backward has used it up, and for more than
/// `most` entries. `operation` begins the messages.
std::vector<GraphEntry> describe_graph(const char* operation, const Tensor& root, size_t most);

}  // namespace mt
