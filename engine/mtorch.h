// mtorch.h -- the engine for C++ programs: include it, then mt::relu(x).sum().backward()
//
// The functions have PyTorch's names and conventions, but randint and range include both ends. Positions, dimensions
// and class labels count from 0 (messages name dimensions from 1, as Lua does). Bad input throws mt::Error with one
// sentence, and nothing has changed. Of the other headers that are installed, those that this one does not include may
// change without notice.
#pragma once
#include "engine/autograd/function.h"
#include "engine/autograd/gradcheck.h"
#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/core/tensor.h"
#include "engine/io/bytes.h"
#include "engine/io/tensor_files.h"
#include "engine/linalg/linalg.h"
#include "engine/ops/fft.h"
#include "engine/ops/generator.h"
#include "engine/ops/ops.h"
#include "engine/ops/optim.h"

namespace mt {

/// Writes tensors, of any device and layout, under their names: save_safetensors("net.safetensors", {{"w", w}}).
/// mt.load in Lua and PyTorch's safetensors read the file. The old file or the new one is there at every moment.
inline void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  write_safetensors("save_safetensors", path, {tensors, {}, {}}, [](const Tensor& x) {
    const NoGrad no_grad;
    return contiguous(to(x, cpu_device()));
  });
}
/// What save_safetensors, mt.save or another program wrote, on the CPU: load_safetensors(path).at("w"). A module's
/// state_dict has PyTorch's names, "0.weight".
inline TensorFile load_safetensors(const std::string& path) {
  return read_by(parse_safetensors, "load_safetensors", path, " is not a valid safetensors file");
}

}  // namespace mt
