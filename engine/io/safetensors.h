// safetensors.h -- the safetensors format: a JSON header, then the data of the tensors
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
struct TensorFile {
  std::vector<NamedTensor> tensors;  // in the order of the data
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::pair<std::string, std::string>>
      left_out;  // the names of tensors without a dtype here, and the reasons
  /// The tensor with that name; otherwise throws Error with the existing names.
  const Tensor& at(std::string_view name) const;
};

/// Throws Error if members of a file were left out and none was read.
void check_some_held(const TensorFile&);

/// The tensors of a safetensors file, plain or gzip, contiguous on the CPU: uint16 as int32, uint32
/// as int64, uint64 as int64 if it fits. Other types are left out, or throw Error if all tensors
/// have them. Throws Error for gaps, overlaps, duplicate names, and headers over 100 MB.
TensorFile parse_safetensors(const void* data, size_t size);
/// The same for a file, read once and directly into the tensors; errors contain the path.
TensorFile read_safetensors(const char* operation, const std::string& path);

/// Writes such a file with FileWriter. `to_host` converts a tensor to a contiguous one on the CPU;
/// names and metadata must be UTF-8.
void write_safetensors(const char* operation, const std::string& path, const TensorFile& file,
                       Tensor (*to_host)(const Tensor&));

}  // namespace mt
