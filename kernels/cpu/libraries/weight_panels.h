// weight_panels.h -- copies the weight of a convolution to the blocked layout of a library's kernels, and back
#pragma once
#include <cstdint>

namespace mt {

/// Element (l, m, t) of a plain weight, with the taps t side by side, and its place in blocks. The lanes l are the
/// channels that a block holds side by side: `lane_block` of them, a multiple of 16, for each of `other_block` others.
struct WeightPanels {
  int64_t lanes, others, taps;  // multiples of the blocks
  int64_t lane_stride,
      other_stride;  // of the plain weight; its taps are in reverse order if `flipped`
  bool flipped;
  int64_t lane_block, other_block;
  int64_t lane_step, other_step, tap_step;  // between blocks
};

/// Copies all elements, 16 lanes a piece of work.
void pack_weight(const WeightPanels&, const float* plain, float* blocked);
void unpack_weight(const WeightPanels&, float* plain, const float* blocked);

}  // namespace mt
