// step_fuse.h -- joins elementwise calls of a recorded step, and reductions of their rows, to programs
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "engine/compiler/record/step_calls.h"

namespace mt {

/// Returns a line on each program, for mt.explain. `ends`: where the parts end, again for the new calls.
/// Arguments and numbers of new calls are kept in `kept`.
std::vector<std::string> fuse_calls(std::vector<StepCall>&, std::vector<size_t>& ends,
                                    std::vector<StepBuffer>&,
                                    std::deque<std::vector<std::byte>>& kept);

}  // namespace mt
