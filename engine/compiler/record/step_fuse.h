// step_fuse.h -- fuses elementwise calls of a recorded step, and reductions of their rows, into programs
#pragma once
#include <atomic>
#include <deque>
#include <string>
#include <vector>

#include "engine/compiler/record/step_calls.h"

namespace mt {

/// The least number of elements of a call that is fused; for a reduction it is 16 times as large. For fewer elements a
/// program would be slower.
inline std::atomic<int64_t> min_fused_elements = 2048;

/// Returns a line for each program, for mt.explain. `ends`: the ends of the parts, updated for the
/// new calls. Arguments and numbers of new calls are stored in `kept`. For mt.compile the results have
/// the bits of the calls. For mt.fuse, which wants a line for each call that is not fused in `separate`,
/// 16-bit floats are computed in float32 and rounded when they are written, sums in gradients are
/// rearranged, and a GPU's functions and reductions are fused.
std::vector<std::string> fuse_calls(std::vector<StepCall>&, std::vector<size_t>& ends,
                                    std::vector<StepBuffer>&,
                                    std::deque<std::vector<std::byte>>& kept,
                                    std::vector<std::string>* separate);

}  // namespace mt
