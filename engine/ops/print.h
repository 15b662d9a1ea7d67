// print.h -- a tensor as text
#pragma once
#include <string>

#include "engine/core/tensor.h"

namespace mt {

/// The format of printed tensors, as set by `set_printoptions`.
struct PrintOptions {
  enum class Scientific { automatic, never, always };
  int precision = 4;         // digits after the point, 0..17
  int64_t threshold = 1000;  // tensors with more elements are summarised
  int64_t edgeitems = 3;     // of a summary, at each end of a dimension
  int64_t linewidth = 80;
  Scientific scientific = Scientific::automatic;
};
/// The current options of the process; they can be modified.
PrintOptions& print_options();

/// As Lua prints it: the elements, then "[(2 x 3) float32 cpu]". Synchronises with a GPU.
std::string to_string(const Tensor&);

}  // namespace mt
