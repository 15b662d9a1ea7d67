// safetensors.h -- the safetensors format: a JSON header of names, dtypes, shapes and places, then the data
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
      left_out;  // names of what no tensor can hold, and why
  /// The tensor of that name; throws Error, with the names that there are, where none has it.
  const Tensor& at(std::string_view name) const;
};

/// Throws where something was left out of a file and nothing was read.
void check_some_held(const TensorFile&);

/// The tensors of a safetensors file (huggingface.co/docs/safetensors), plain or gzip, contiguous on the
/// CPU: uint16 as int32, uint32 as int64, uint64 as int64 if it fits; what has no such dtype is left out, and thrown
/// where nothing else is there. Throws on holes, overlaps, duplicate names, headers over 100 MB.
TensorFile parse_safetensors(const void* data, size_t size);
/// The same from a file, read once, straight into the tensors; errors name the path.
TensorFile read_safetensors(const char* operation, const std::string& path);

/// Writes such a file as FileWriter does. `to_host` gives the contiguous CPU tensor of one that is not;
/// names and metadata must be UTF-8.
void write_safetensors(const char* operation, const std::string& path, const TensorFile& file,
                       Tensor (*to_host)(const Tensor&));

}  // namespace mt
