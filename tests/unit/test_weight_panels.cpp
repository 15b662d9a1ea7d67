// test_weight_panels.cpp -- the weight of a convolution in blocks: every element has its place, and comes back
#include <vector>

#include "kernels/cpu/libraries/weight_panels.h"
#include "tests/unit/catch.h"

using namespace mt;

TEST_CASE("a weight is packed in blocks and unpacked", "[conv]") {
  struct Case {
    int64_t lanes, others, taps, lane_block, other_block;
    bool lanes_first, flipped;
  };
  for (const Case& c : {Case{64, 16, 9, 64, 1, true, false}, Case{128, 32, 9, 64, 1, false, true},
                        Case{32, 48, 25, 16, 16, true, true}, Case{48, 16, 2, 16, 16, false, false},
                        Case{16, 3, 1, 16, 1, true, false}, Case{96, 5, 7, 32, 5, false, true}}) {
    const int64_t lane_stride = c.lanes_first ? c.others * c.taps : c.taps,
                  other_stride = c.lanes_first ? c.taps : c.lanes * c.taps,
                  tap_step = c.lane_block * c.other_block, other_step = tap_step * c.taps,
                  lane_step = other_step * (c.others / c.other_block);
    const WeightPanels p{c.lanes,      c.others,   c.taps,       lane_stride,
                         other_stride, c.flipped,  c.lane_block, c.other_block,
                         lane_step,    other_step, tap_step};
    const size_t n = c.lanes * c.others * c.taps;
    std::vector<float> plain(n), blocked(n, -1), back(n, -1);
    for (size_t i = 0; i < n; ++i) plain[i] = float(i);
    pack_weight(p, plain.data(), blocked.data());
    int64_t wrong = 0;
    for (int64_t l = 0; l < c.lanes; ++l)
      for (int64_t m = 0; m < c.others; ++m)
        for (int64_t t = 0; t < c.taps; ++t) {
          const int64_t from =
              l * lane_stride + m * other_stride + (c.flipped ? c.taps - 1 - t : t);
          const int64_t to = l / c.lane_block * lane_step + m / c.other_block * other_step +
                             t * tap_step + m % c.other_block * c.lane_block + l % c.lane_block;
          wrong += blocked[to] != plain[from];
        }
    CHECK(wrong == 0);
    unpack_weight(p, back.data(), blocked.data());
    CHECK(back == plain);
  }
}
