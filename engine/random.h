// random.h -- random tensors
#pragma once
#include "engine/tensor.h"

namespace mt {

void manual_seed(uint64_t seed);
Tensor rand(const Shape&, Dtype = default_dtype(), const Device& = cpu_device());
Tensor randn(const Shape&, Dtype = default_dtype(), const Device& = cpu_device());
/// Whole numbers from low to high, both included.
Tensor randint(int64_t low, int64_t high, const Shape&, Dtype = Dtype::i64,
               const Device& = cpu_device());
/// A random order of 0 .. n-1.
Tensor randperm(int64_t n, const Device& = cpu_device());

}  // namespace mt
