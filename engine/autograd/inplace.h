// inplace.h -- changing tensors in place: filling, copying into, assigning to a region
#pragma once
#include "engine/core/tensor.h"

namespace mt {

/// Throws Error for tensors that must not be changed in place: leaves that require a gradient, and
/// memory in which elements overlap.
void check_writable(const char* operation, const Tensor& target);
/// Writes `source`, broadcast and converted, into `target`; messages begin with `operation`.
const Tensor& write_(const char* operation, const Tensor& target, const Tensor& source);
/// For an operation that overwrites a tensor with its result, which is not a view, while gradients are recorded: the
/// checks before that, a tensor with the history until then, which is the input of the new node, and the end.
void check_recordable(const char* operation, const Tensor& target);
Tensor history(const Tensor& target);
void keep_retaining(const Tensor& old, const Tensor& target);
/// Copies saved tensors of result's node that share target's memory, before it is overwritten.
void keep_saved(const Tensor& result, const Tensor& target);
/// Copies the elements of `source`, broadcast and converted, and records it. All return target.
const Tensor& copy_(const Tensor& target, const Tensor& source);
/// Sets every element to the number; one that the dtype cannot represent is an Error.
const Tensor& fill_(const Tensor& target, double value);
/// Sets every element to a 0-d tensor, whose gradient is the sum of the target's.
const Tensor& fill_(const Tensor& target, const Tensor& value);
/// x[region] = value: `region` is a view of x, made with or without recording; the value broadcasts
/// to it.
void assign(const Tensor& x, const Tensor& region, const Tensor& value);

}  // namespace mt
