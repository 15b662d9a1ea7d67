// launch_size.cpp -- checks the limits of a launch: CUDA's, also on the CPU
#include "engine/gpu/launch_size.h"

#include "engine/core/error.h"

namespace mt {

void check_launch(const std::string& name, const LaunchSize& s) {
  static constexpr int64_t grid[3] = {2147483647, 65535, 65535}, block[3] = {1024, 1024, 64};
  for (int d = 0; d < 3; ++d) {
    if (s.grid[d] < 0 || s.grid[d] > grid[d])
      fail("{}: {} blocks in {}; at most {}", name, s.grid[d], "xyz"[d], grid[d]);
    if (s.block[d] < 1 || s.block[d] > block[d])
      fail("{}: {} threads in {} of a block; 1 to {}", name, s.block[d], "xyz"[d], block[d]);
  }
  const int64_t threads = s.block[0] * s.block[1] * s.block[2];
  if (threads > 1024)
    fail("{}: {} x {} x {} = {} threads in a block; at most 1024", name, s.block[0], s.block[1],
         s.block[2], threads);
}

}  // namespace mt
