// index.h -- reading and writing at positions that are themselves data
#pragma once
#include "engine/tensor.h"

namespace mt {

/// out[.., i, ..] = x[.., index[.., i, ..], ..]; index is an integer tensor of x's rank.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
/// Adds source into a copy of x at the positions that gather would read.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
/// Whole slices at the positions of a 1-d index.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
/// How errors count positions: 1 in Lua, 0 for C++ users.
extern int index_base;

}  // namespace mt
