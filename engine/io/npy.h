// npy.h -- NumPy's file formats: npy, one array, and npz, a zip archive of named arrays
#pragma once
#include <string>
#include <vector>

#include "engine/io/safetensors.h"

namespace mt {

/// The tensor of an npy file (numpy.lib.format, versions 1 to 3), plain or gzip; Fortran order
/// gives a transposed view. uint16 is read as int32, uint32 as int64, uint64 as int64 if it fits.
/// Throws Error for other types; nothing is executed.
Tensor parse_npy(const void* data, size_t size);
Tensor read_npy(const char* operation, const std::string& path);
/// The tensors of an npz file, named without ".npy"; arrays that no tensor can hold are skipped.
TensorFile parse_npz(const void* data, size_t size);
TensorFile read_npz(const char* operation, const std::string& path);

/// Writes contiguous CPU tensors as NumPy does; throws Error for the floats that NumPy lacks.
void write_npy(const char* operation, const std::string& path, const Tensor& x);
void write_npz(const char* operation, const std::string& path,
               const std::vector<NamedTensor>& tensors, Tensor (*to_host)(const Tensor&));

}  // namespace mt
