// device.h -- finding devices by name, the CUDA plug-in, and checking a device for errors
#pragma once
#include <string>
#include <string_view>

#include "engine/core/thread.h"
#include "kernels/dynamic_library.h"
#include "kernels/gpu.h"

namespace mt {

/// The device with the name 'cpu', 'cuda' or 'cuda:0'; 'cuda' is the GPU with index MTORCH_DEVICE_INDEX, or
/// otherwise with the local rank, modulo their number. Throws an Error with one sentence if it is not usable.
const Device& device_named(std::string_view name);
/// The local rank: the index, from 0, of this process among those that mpirun or srun started here.
int local_rank();
/// Whether it is the CPU; there is only one CPU device.
inline bool is_cpu(const Device& d) { return &d == &cpu_device(); }
/// The N of 'cuda:N', or -1 for the CPU.
int cuda_index(const Device&);
/// The default device of Lua's constructors: the CPU, unless set_default_device was called on this
/// thread. The engine's own functions always default to the CPU.
inline const Device& default_device() {
  return thread_state.device ? *thread_state.device : cpu_device();
}
inline void set_default_device(const Device& d) { thread_state.device = &d; }
/// The device's functions for run-time compiled code (kernels/module.h); null if it has none.
const struct Modules* modules_of(const Device&);
/// The number of usable GPUs, and the reason if there is none; otherwise an empty string.
int cuda_devices();
std::string cuda_unavailable_reason();
/// Calls the function with each GPU that is in use.
void for_each_cuda(void (*)(const Device&));
/// Opens a plug-in of mtorch, which is next to the program or in its ../lib/mtorch. `why`: the linker's error, if the
/// file is there and cannot be opened.
DynamicLibrary open_plugin(const char* file, std::string& why);
/// The plug-in's exported symbol of that name; null if the plug-in has not been opened.
void* cuda_symbol(const char* name);

/// The functions that a device other than the CPU has besides the verbs.
inline const Gpu& gpu_of(const Device& d) { return static_cast<const Gpu&>(d); }
/// The GPU whose work is being captured in a graph, or null.
extern const Gpu* capturing;

/// Waits until the device has finished all its work. Throws an Error if some of it failed.
void synchronize(const Device&);
/// Throws an Error with the failure of the device, after a synchronisation.
void check_device(const Device&);
/// Does the same, except that a GPU that was lost before is not an error.
void check_done(const Gpu&);
/// Throws an Error if a GPU is not usable any more.
void check_alive(const Device&);
/// Throws an Error if waiting for the device is not allowed because a graph is being captured.
void check_may_wait(const Device&);
/// The number of kernels and copies launched on GPUs.
int64_t started_on_gpus();
/// With MTORCH_CUDA_SYNC, check_gpus throws an Error with the failure of any GPU that was used.
extern bool gpus_synchronous, gpus_in_use;
void check_gpus();

}  // namespace mt
