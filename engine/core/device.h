// device.h -- finding devices by name, the CUDA plug-in, and asking a device whether all went well
#pragma once
#include <string>
#include <string_view>

#include "engine/core/thread.h"
#include "kernels/gpu.h"

namespace mt {

/// The device called 'cpu', 'cuda' or 'cuda:0'; 'cuda' is the GPU that MTORCH_DEVICE_INDEX says, or else that of the
/// local rank, modulo their number. Throws Error with one sentence when it is not usable.
const Device& device_named(std::string_view name);
/// Which of the processes that mpirun or srun started on this machine this one is, from 0.
int local_rank();
/// Whether it is the CPU, of which there is one.
inline bool is_cpu(const Device& d) { return &d == &cpu_device(); }
/// The N of 'cuda:N', -1 of the CPU.
int cuda_index(const Device&);
/// Where Lua's constructors make tensors when nothing is said: the CPU, unless set_default_device
/// said otherwise on this thread. The engine's own functions always start from the CPU.
inline const Device& default_device() {
  return thread_state.device ? *thread_state.device : cpu_device();
}
inline void set_default_device(const Device& d) { thread_state.device = &d; }
/// How the device runs code that is compiled meanwhile; null: it does not. kernels/module.h
const struct Modules* modules_of(const Device&);
/// How many GPUs can be used, and why none can: an empty sentence when there are some.
int cuda_devices();
std::string cuda_unavailable_reason();
/// Calls the function with each GPU that is in use.
void for_each_cuda(void (*)(const Device&));
/// What the plug-in exports under a name; null where it has not been opened.
void* cuda_symbol(const char* name);

/// What a device that is not the CPU can do beside the verbs.
inline const Gpu& gpu_of(const Device& d) { return static_cast<const Gpu&>(d); }
/// The GPU whose work is recorded into a graph, or null.
extern const Gpu* capturing;

/// Waits until the device has done what it was asked. Throws Error when something of it failed.
void synchronize(const Device&);
/// Throws Error with what went wrong on the device, where it has waited.
void check_device(const Device&);
/// The same, but a GPU that was lost before is no error.
void check_done(const Gpu&);
/// Throws Error where a GPU cannot be used any more.
void check_alive(const Device&);
/// Throws Error where waiting for the device is not allowed, since a graph is recorded.
void check_may_wait(const Device&);
/// How many kernels and copies GPUs were asked for.
int64_t started_on_gpus();
/// With MTORCH_CUDA_SYNC: throws Error with what went wrong on any GPU that was used.
extern bool gpus_synchronous, gpus_in_use;
void check_gpus();

}  // namespace mt
