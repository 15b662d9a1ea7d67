// idx.h -- the IDX format of MNIST: a header with the shape, then the values, big-endian
#pragma once
#include <string>

#include "engine/core/tensor.h"

namespace mt {

/// The tensor of an IDX file (yann.lecun.com/exdb/mnist), plain or gzip, in the dtype of the file.
/// Throws Error if the data is not exactly that.
Tensor parse_idx(const void* data, size_t size);
/// The same for a file; errors contain the path.
Tensor read_idx(const std::string& path);

}  // namespace mt
