// device.h -- finding devices by name
#pragma once
#include <string>
#include <string_view>

#include "kernels/device.h"

namespace mt {

/// The device called 'cpu', 'cuda' or 'cuda:0'. Throws Error with one sentence when it is not
/// usable.
const Device& device_named(std::string_view name);
/// Why CUDA cannot be used; empty when it can.
std::string cuda_trouble();

}  // namespace mt
