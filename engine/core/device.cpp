// device.cpp -- finding devices by name; the CUDA plug-in, which is opened on first use
#include "engine/core/device.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "engine/core/error.h"
#include "kernels/module.h"
#include "kernels/table.h"

namespace mt {

namespace {

DynamicLibrary plugin_library;

/// libmtorch_cuda.so, a plug-in of mtorch, or the one at MTORCH_CUDA_PLUGIN.
struct Plugin {
  using Count = int (*)(char* why, size_t room);
  using Open = const Gpu* (*)(uint32_t abi, int index, char* why, size_t room);
  Open open = nullptr;
  Modules (*modules)(int index) = nullptr;
  int devices = 0;
  std::string why;

  Plugin() {
    DynamicLibrary library;
    if (const char* path = std::getenv("MTORCH_CUDA_PLUGIN"); path && *path) {
      library = DynamicLibrary({path}, RTLD_NOW);
      if (!library) {
        why = std::string("MTORCH_CUDA_PLUGIN cannot be loaded: ") + library.error();
        return;
      }
    } else if (library = open_plugin("libmtorch_cuda.so", why); !library) {
      why = why.empty() ? "this build of mtorch has no CUDA plug-in" : "the CUDA plug-in: " + why;
      return;
    }
    Count count = nullptr;
    if (library.lacks({{"mtorch_cuda_count", count},
                       {"mtorch_cuda_device", open},
                       {"mtorch_cuda_modules", modules}})) {
      why = "the CUDA plug-in is not a plug-in of mtorch";
      return;
    }
    plugin_library = library;
    char text[512] = "";
    devices = count(text, sizeof text);
    why = text;
  }
};
const Plugin& plugin() {
  static const Plugin p;
  return p;
}

const Gpu* opened[kMaxGpus] = {};

}  // namespace

/// The folder of the program, or of the library that this code is part of.
static std::string own_folder() {
  Dl_info info{};
  std::filesystem::path path;
  if (dladdr(reinterpret_cast<void*>(&cuda_devices), &info) && info.dli_fname)
    path = info.dli_fname;
  std::error_code missing;
  if (!path.has_parent_path()) path = std::filesystem::read_symlink("/proc/self/exe", missing);
  return path.parent_path();  // a program found through PATH has no folder in its name
}

DynamicLibrary open_plugin(const char* file, std::string& why) {
  DynamicLibrary library;
  for (const char* folder : {"/", "/../lib/mtorch/"}) {
    const std::string path = own_folder() + folder + file;
    if (library = DynamicLibrary({path.c_str()}, RTLD_NOW); library) return library;
    const std::string said = library.error();
    if (said != path + ": cannot open shared object file: No such file or directory") why = said;
  }
  return library;
}

const Modules* modules_of(const Device& d) {
  static std::map<int, Modules> known;
  static std::mutex guard;
  if (is_cpu(d)) return nullptr;
  const int index = cuda_index(d);
  const std::lock_guard lock(guard);
  auto at = known.find(index);
  if (at == known.end()) at = known.emplace(index, plugin().modules(index)).first;
  return &at->second;
}

int cuda_index(const Device& d) { return is_cpu(d) ? -1 : std::atoi(d.name + sizeof "cuda:" - 1); }
int cuda_devices() { return plugin().devices; }
std::string cuda_unavailable_reason() { return plugin().devices > 0 ? "" : plugin().why; }

int local_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"})
    if (const char* rank = std::getenv(name)) return std::max(std::atoi(rank), 0);
  return 0;
}

/// Whether the text is an integer >= 0, which is then stored in `n`.
bool read_number(std::string_view text, int& n) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, n);
  return error == std::errc() && at == end && n >= 0;
}
/// The GPU for 'cuda': MTORCH_DEVICE_INDEX, otherwise the local rank, modulo their number.
int own_gpu() {
  const char* const setting = std::getenv("MTORCH_DEVICE_INDEX");
  if (!setting || !*setting) return cuda_devices() > 0 ? local_rank() % cuda_devices() : 0;
  int index = 0;
  if (!read_number(setting, index))
    fail("device 'cuda': MTORCH_DEVICE_INDEX={} is not an index of a GPU; set 0, 1, ..", setting);
  return index;
}

const Device& device_named(std::string_view name) {
  if (name == "cpu") return cpu_device();
  bool known = name == "cuda";
  int index = known ? own_gpu() : 0;
  if (name.substr(0, 5) == "cuda:") known = read_number(name.substr(5), index);
  if (!known) fail("device '{}' is not known; use 'cpu', 'cuda' or 'cuda:0'", name);
  if (thread_state.is_worker)
    fail(
        "device '{}' cannot be used by a worker of a DataLoader; give CPU tensors and move the batch",
        name);
  if (index < kMaxGpus && opened[index]) return *opened[index];
  const Plugin& p = plugin();
  if (p.devices == 0) fail("device '{}' cannot be used: {}", name, p.why);
  char why[512] = "";
  const Gpu* d = p.open(op::kPluginAbi, index, why, sizeof why);
  if (!d) fail("device '{}' cannot be used: {}", name, why);
  if (index < kMaxGpus) opened[index] = d;
  gpus_synchronous |= d->synchronous;
  gpus_in_use = true;
  return *d;
}

void for_each_cuda(void (*call)(const Device&)) {
  for (const Gpu* gpu : opened)
    if (gpu) call(*gpu);
}
void* cuda_symbol(const char* name) {
  void* found = nullptr;
  plugin_library.find(name, found);
  return found;
}

bool gpus_synchronous = false, gpus_in_use = false;
int64_t started_on_gpus() {
  int64_t n = 0;
  for (int i = 0; i < kMaxGpus && i < plugin().devices; ++i)
    if (opened[i]) n += *opened[i]->started;
  return n;
}
void check_gpus() {
  for (const Gpu* gpu : opened)
    if (gpu && !capturing) check_done(*gpu);
}

}  // namespace mt
