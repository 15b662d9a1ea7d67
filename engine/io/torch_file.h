// torch_file.h -- files of torch.save: tensors, state dicts, plain values; nothing is executed
#pragma once
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/io/bytes.h"
#include "engine/io/pickle.h"

namespace mt {

struct TorchTensor {
  Tensor tensor;
  bool requires_grad = false, is_parameter = false, is_buffer = false;
};
/// The value of a file; a tensor in it has the kind `other` with an index into `tensors`.
struct TorchFile {
  PickledValues values;
  const Pickled* root = nullptr;
  std::vector<TorchTensor> tensors;
};

/// The name of a value of the kind `global`: "float32" for a dtype, "collections.OrderedDict".
std::string torch_name(const Pickled& global);

/// The value of a torch.save file: a zip archive, or the format before version 1.6. Tensors are on
/// the CPU and keep their strides; those of one storage share memory. Names other than the
/// functions and types that PyTorch writes for tensors are errors.
TorchFile parse_torch(RegularFile);

}  // namespace mt
