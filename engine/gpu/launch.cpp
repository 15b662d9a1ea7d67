// launch.cpp -- loads compiled CUDA C on a GPU, and queues its launches
#include "engine/gpu/launch.h"

#include <mutex>
#include <set>

#include "engine/core/error.h"
#include "engine/core/step_listener.h"

namespace mt {

LoadedKernel load_kernel(const CudaSource& source, CudaCode code, const Device& d,
                         const std::string& what) {
  const Modules& modules = *modules_of(d);
  const std::string whole = source.defines + source.text;
  LoadedKernel kernel{};
  char why[2048] = "";
  const auto try_load = [&] {
    return modules.load({code.image.data(), code.image.size(), code.symbol.c_str(), whole.c_str(),
                         source.name.c_str()},
                        kernel, why, sizeof why);
  };
  bool ok = try_load();
  if (!ok && code.cached) {  // compiled by another version: compile it again
    code = compile_cuda(source, modules.arch, DiskCache(""));
    ok = try_load();
  }
  if (!ok) fail("{} cannot be loaded on {}: {}", what, d.name, why);
  return kernel;
}

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

void check_threads(const std::string& name, const LoadedKernel& kernel, const LaunchSize& size) {
  const int64_t threads = size.block[0] * size.block[1] * size.block[2];
  if (threads > kernel.max_threads)
    fail("{}: {} threads in a block; with its {} registers a thread at most {}", name, threads,
         kernel.registers, kernel.max_threads);
}

void queue_kernel(const LoadedKernel& kernel, const char* name, const LaunchSize& size,
                  KernelArguments& arguments, const Device& d) {
  mark_untraceable();
  std::vector<void*> slots;
  std::vector<unsigned> bytes;
  for (size_t i = 0; i < arguments.ends.size(); ++i) {
    uint64_t* const first = &arguments.first_word(i);
    slots.push_back(first);
    bytes.push_back(unsigned(8 * (arguments.words.data() + arguments.ends[i] - first)));
  }
  Launch c{&kernel,          name, {}, {}, unsigned(size.shared), slots.data(), bytes.data(),
           int(slots.size())};
  for (int k = 0; k < 3; ++k)
    c.grid[k] = unsigned(size.grid[k]), c.block[k] = unsigned(size.block[k]);
  modules_of(d)->launch(c);
}

const char* lasting(const std::string& name) {
  static std::mutex guard;
  static std::set<std::string> names;
  const std::lock_guard lock(guard);
  return names.insert(name).first->c_str();
}

}  // namespace mt
