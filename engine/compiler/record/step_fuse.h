// step_fuse.h -- fuses elementwise calls of a recorded step, and reductions of their rows, into programs
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "engine/compiler/record/step_calls.h"

namespace mt {

/// Returns a line for each program, for mt.explain. `ends`: the ends of the parts, updated for the
/// new calls. Arguments and numbers of new calls are stored in `kept`.
std::vector<std::string> fuse_calls(std::vector<StepCall>&, std::vector<size_t>& ends,
                                    std::vector<StepBuffer>&,
                                    std::deque<std::vector<std::byte>>& kept);

}  // namespace mt
