// torch_file.h -- files of torch.save: tensors, state dicts, plain values; nothing is executed
#pragma once
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/io/pickle.h"

namespace mt {

struct TorchTensor {
  Tensor tensor;
  bool requires_grad = false, is_parameter = false, is_buffer = false;
};
/// The value of a file; a tensor in it is of the kind `other`, whose index counts in `tensors`.
struct TorchFile {
  PickledValues values;
  const Pickled* root = nullptr;
  std::vector<TorchTensor> tensors;
};

/// The name that a value of the kind `global` is: "float32" for a dtype, "collections.OrderedDict".
std::string torch_name(const Pickled& global);

/// The value in a file of torch.save, of the zip archives or the streams of before version 1.6.
/// Tensors are on the CPU, with the strides that they had; those of one storage share memory. A name
/// that is none of the functions and types by which PyTorch writes tensors is an error.
TorchFile parse_torch(const void* data, size_t size);
TorchFile read_torch(const char* operation, const std::string& path);

}  // namespace mt
