// launch_size.h -- the numbers of blocks and threads of a launch
#pragma once
#include <cstdint>
#include <string>

namespace mt {

struct LaunchSize {
  int64_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  int64_t shared = 0;  // bytes in addition to the kernel's static shared memory
};
/// Throws if CUDA does not support such a grid or block; `name` is that of the kernel.
void check_launch(const std::string& name, const LaunchSize&);

}  // namespace mt
