// device.h -- finding devices by name, the CUDA plug-in, and asking a device whether all went well
#pragma once
#include <string>
#include <string_view>

#include "kernels/device.h"

namespace mt {

/// The device called 'cpu', 'cuda' or 'cuda:0'. Throws Error with one sentence when it is not
/// usable.
const Device& device_named(std::string_view name);
inline bool is_cpu(const Device& d) { return &d == &cpu_device(); }
/// Where Lua's constructors make tensors when nothing is said: the CPU, unless set_default_device
/// said otherwise. The engine's own functions always start from the CPU.
const Device& default_device();
void set_default_device(const Device&);
/// How the device runs code that is compiled meanwhile; null: it does not. kernels/module.h
const struct Modules* modules_of(const Device&);
/// How many GPUs can be used, and why none can: an empty sentence when there are some.
int cuda_devices();
std::string cuda_trouble();

/// Waits until the device has done what it was asked. Throws Error when something of it failed.
void synchronize(const Device&);
/// Throws Error with what went wrong on the device, where it has waited.
void check_device(const Device&);

}  // namespace mt
