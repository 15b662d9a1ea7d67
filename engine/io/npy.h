// npy.h -- NumPy's files: npy, one array, and npz, a zip archive of them by name
#pragma once
#include <string>
#include <vector>

#include "engine/io/safetensors.h"

namespace mt {

/// The tensor of an npy file (numpy.lib.format, versions 1 to 3), plain or gzip; of one in Fortran order
/// a view. uint16 comes as int32, uint32 as int64, uint64 as int64 if it fits. Throws on
/// other types; nothing is executed.
Tensor parse_npy(const void* data, size_t size);
Tensor read_npy(const char* operation, const std::string& path);
/// The tensors of an npz file, without ".npy" in their names; what no tensor can hold is left out.
TensorFile parse_npz(const void* data, size_t size);
TensorFile read_npz(const char* operation, const std::string& path);

/// Writes contiguous tensors of the CPU as NumPy does; bfloat16 is refused, which NumPy does not have.
void write_npy(const char* operation, const std::string& path, const Tensor& x);
void write_npz(const char* operation, const std::string& path,
               const std::vector<NamedTensor>& tensors, Tensor (*to_host)(const Tensor&));

}  // namespace mt
