// print.h -- a tensor as text
#pragma once
#include <string>

#include "engine/tensor.h"

namespace mt {

std::string to_string(const Tensor&);

}  // namespace mt
