// idx.h -- the IDX format of MNIST: a few bytes of shape, then the values, big-endian
#pragma once
#include <string>

#include "engine/core/tensor.h"

namespace mt {

/// The tensor in an IDX file (yann.lecun.com/exdb/mnist), plain or gzip, in the dtype of the file. Throws on
/// anything that is not exactly that.
Tensor parse_idx(const void* data, size_t size);
/// The same from a file; errors name the path.
Tensor read_idx(const std::string& path);

}  // namespace mt
