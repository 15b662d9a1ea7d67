// tensor_files.h -- files of named tensors: safetensors (a JSON header, then the data), and those of NumPy
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/io/zip.h"

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
TensorFile parse_safetensors(Bytes&&);

/// Writes such a file with FileWriter. `to_host` converts a tensor to a contiguous one on the CPU;
/// names and metadata must be UTF-8.
void write_safetensors(const char* operation, const std::string& path, const TensorFile& file,
                       Tensor (*to_host)(const Tensor&));

// ---- NumPy's formats: npy, one array, and npz, a zip archive of named arrays (npy.cpp) ----------

/// The tensor of an npy file (numpy.lib.format, versions 1 to 3), plain or gzip; Fortran order
/// gives a transposed view. uint16 is read as int32, uint32 as int64, uint64 as int64 if it fits.
/// Throws Error for other types; nothing is executed.
Tensor parse_npy(Bytes&&);
/// The tensors of an npz file, named without ".npy"; arrays that no tensor can hold are skipped.
TensorFile parse_npz(const ZipReader&);

/// Writes contiguous CPU tensors as NumPy does; throws Error for the floats that NumPy lacks.
void write_npy(const char* operation, const std::string& path, const Tensor& x);
void write_npz(const char* operation, const std::string& path,
               const std::vector<NamedTensor>& tensors, Tensor (*to_host)(const Tensor&));

}  // namespace mt
