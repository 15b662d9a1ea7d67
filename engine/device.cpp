// device.cpp -- finding devices by name
#include "engine/device.h"

#include "engine/error.h"

namespace mt {

std::string cuda_trouble() { return "this build of mtorch has no CUDA plug-in"; }

const Device& device_named(std::string_view name) {
  if (name == "cpu") return cpu_device();
  if (name == "cuda" || name.substr(0, 5) == "cuda:")
    fail("device '{}' cannot be used: {}", name, cuda_trouble());
  fail("device '{}' is not known; use 'cpu', 'cuda' or 'cuda:0'", name);
}

}  // namespace mt
