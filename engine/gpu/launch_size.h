// launch_size.h -- how many blocks and threads a kernel is launched with
#pragma once
#include <cstdint>
#include <string>

namespace mt {

struct LaunchSize {
  int64_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  int64_t shared = 0;  // bytes beside what the kernel declares
};
/// Throws where CUDA has no such grid or block; `name` is the kernel's.
void check_launch(const std::string& name, const LaunchSize&);

}  // namespace mt
