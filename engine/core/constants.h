// constants.h -- CPU tensors of numbers that do not depend on tensors: tables, counts, lists
#pragma once
#include <algorithm>
#include <vector>

#include "engine/core/step_listener.h"
#include "engine/core/tensor.h"

namespace mt {

/// The tensor that `write(T* to)` fills. Its values may depend on shapes and options, and on
/// elements of tensors only if those were read by `item`: a recorded step keeps the numbers.
template <class T> Tensor constants(const Shape& shape, const auto& write) {
  const Tensor x = empty(shape, dtype_of<T>);
  write(x.argument_as<T>());
  mark_constant(x);
  return x;
}

/// The numbers of a list, as a 1-d tensor.
template <class T> Tensor constants(const std::vector<T>& list) {
  return constants<T>({int64_t(list.size())}, [&](T* to) { std::ranges::copy(list, to); });
}

}  // namespace mt
