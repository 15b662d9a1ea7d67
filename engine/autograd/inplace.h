// inplace.h -- changing tensors in place: filling, copying into, assigning to a region
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// Refuses what must not be changed in place: a leaf that requires a gradient, and memory that lies
/// upon itself.
void check_writable(const char* operation, const Tensor& target);
/// Writes `source`, broadcast and converted, into `target`; `operation` is who asks, for messages.
const Tensor& write_(const char* operation, const Tensor& target, const Tensor& source);
/// Before `result` is written into `target`: what its node saved of the target's memory is copied.
void keep_saved(const Tensor& result, const Tensor& target);
/// The elements of `source`, broadcast and converted; recorded. Returns target, as all of these do.
const Tensor& copy_(const Tensor& target, const Tensor& source);
/// Every element the number; one that the dtype cannot hold is an Error.
const Tensor& fill_(const Tensor& target, double value);
/// With a 0-d tensor, whose gradient is the sum of the target's.
const Tensor& fill_(const Tensor& target, const Tensor& value);
/// x[region] = value: `region` is a view of x, made with or without recording; the value broadcasts
/// to it.
void assign(const Tensor& x, const Tensor& region, const Tensor& value);

}  // namespace mt
