// convert.h -- elements as files store them, read into tensors
#pragma once
#include "engine/core/tensor.h"
#include "engine/io/bytes.h"

namespace mt {

/// How elements lie in a file: as in the tensor, as bytes of which any but 0 is true, or as unsigned integers
/// that the tensor holds in a wider or in the signed type.
enum class Stored : uint8_t { same, boolean, u16, u32, u64 };

/// Bytes per element in the file.
inline int64_t stored_size(Stored s, Dtype dtype) {
  return s == Stored::u16 ? 2 : s == Stored::u32 ? 4 : item_size(dtype);
}

/// Fills x, contiguous on the CPU, with the next bytes. `swapped`: they are big-endian. Throws where the
/// bytes end, or a value does not fit.
void read_stored(Bytes&, Stored, const Tensor& x, bool swapped = false);

}  // namespace mt
