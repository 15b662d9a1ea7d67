// describe.h -- lists the autograd graph, for drawings: names, inputs, shapes
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

/// An operation or a leaf. Shapes are known of leaves, of saved tensors, and of the root.
struct GraphEntry {
  std::string name;            // of the operation; empty for a leaf
  Tensor leaf;                 // undefined for an operation
  std::optional<Shape> shape;  // of the result
  bool elementwise = false;  // the result's shape is that of each input (broadcasting is an expand)
  std::vector<int> inputs;   // positions in the list; -1: an input without a gradient
};

/// The graph of `root`, breadth first from the root. Throws if root has no graph, if a backward pass has freed it, and
/// for more than `max_entries` entries. Messages begin with `operation`.
std::vector<GraphEntry> describe_graph(const char* operation, const Tensor& root,
                                       size_t max_entries);

}  // namespace mt
