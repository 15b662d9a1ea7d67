// print.h -- a tensor as text
#pragma once
#include <string>

#include "engine/core/tensor.h"

namespace mt {

/// How tensors are written; what `set_printoptions` sets.
struct PrintOptions {
  enum class Scientific { automatic, never, always };
  int precision = 4;         // digits after the point, 0..17
  int64_t threshold = 1000;  // more elements than this are summarised
  int64_t edgeitems = 3;     // of a summary, at each end of a dimension
  int64_t linewidth = 80;
  Scientific scientific = Scientific::automatic;
};
/// Those in use, to be changed; of the whole process.
PrintOptions& print_options();

/// As Lua prints it: the elements, then "[(2 x 3) float32 cpu]". Waits for a GPU.
std::string to_string(const Tensor&);

}  // namespace mt
