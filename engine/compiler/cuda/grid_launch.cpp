// grid_launch.cpp -- grid kernels written in Lua on a GPU: compiles their CUDA C and launches it
#include "engine/compiler/cuda/grid_launch.h"

#include <cstring>
#include <map>

#include "engine/core/async_errors.h"
#include "engine/gpu/launch.h"
#include "engine/ops/create.h"

namespace mt {
namespace {

/// The compiled state of a kernel on the GPUs, which lives as long as the kernel.
struct Compiled {
  struct OnDevice {
    LoadedKernel kernel{};
    Tensor fault;        // grid::kCudaFault integers in the GPU's memory
    bool asked = false;  // a check of it is scheduled
  };
  std::map<const Device*, OnDevice> places;
  const char* name = nullptr;
  ~Compiled() {
    for (const auto& [device, place] : places)
      if (place.fault.defined()) modules_of(*device)->unload(place.kernel);
  }
};

CudaSource source_of(const grid::Kernel& kernel) {
  CudaSource source;
  source.text = grid::cuda_text(kernel), source.name = grid::cuda_name(kernel);
  source.origins = {{1, kernel.name, 1}};
  source.options = {"--fmad=false"};  // for the same bits as on the CPU
  return source;
}

void load(Compiled& c, Compiled::OnDevice& place, const grid::Kernel& kernel, const Device& d) {
  const CudaSource source = source_of(kernel);
  c.name = lasting(source.name);
  place.kernel =
      load_kernel(source, compile_cuda(source, modules_of(d)->arch), d, kernel.name + ":");
  place.fault = zeros({grid::kCudaFault}, Dtype::i64, d);
}

/// Reads the fault that threads reported, once it is available.
void look_for_fault(const std::shared_ptr<Compiled>& c, const Device& d,
                    const std::function<void(const GridFault&)>& raise) {
  Compiled::OnDevice& place = c->places.at(&d);
  place.asked = false;
  int64_t words[grid::kCudaFault] = {};
  d.download(words, place.fault.data(), sizeof words);
  if (words[0] == 0) return;
  const int64_t none[grid::kCudaFault] = {};
  d.upload(place.fault.data(), none, sizeof none);
  GridFault f{};
  f.kind = GridFaultKind(words[0]);
  f.line = int(words[1]), f.tensor = int(words[2]), f.dim = int(words[3]), f.index = words[4];
  for (int k = 0; k < 3; ++k) f.thread[k] = words[5 + k];
  raise(f);
}

/// Copies a tensor to the constant memory of the kernel, at an offset of `used` bytes.
void fill_constant(const grid::Kernel& kernel, const Tensor& x, const LoadedKernel& loaded,
                   const Device& d, GridTensor& view, int64_t& used) {
  size_t room = 0;
  char* const begin = static_cast<char*>(modules_of(d)->variable(loaded, "mt_constant", &room));
  const Tensor values = contiguous(x.detach());
  const int64_t bytes = values.numel() * item_size(values.dtype());
  if (!begin || used + bytes > int64_t(room))
    fail("{}: the tensors in constant(..) have {} bytes; constant memory holds {}", kernel.name,
         used + bytes, room);
  if (bytes > 0) modules_of(d)->write(begin + used, values.data(), bytes);
  view.data = reinterpret_cast<void*>(used);
  for (int k = 0; k < view.ndim; ++k) view.stride[k] = values.stride(k);
  used += (bytes + 15) / 16 * 16;
}

}  // namespace

CudaCode compile_grid(const grid::Kernel& kernel, int arch) {
  return compile_cuda(source_of(kernel), arch);
}

void launch_grid_cuda(const GridCudaLaunch& l, const Device& d) {
  check_alive(d);
  if (!l.compiled) l.compiled = std::make_shared<Compiled>();
  const auto compiled = std::static_pointer_cast<Compiled>(l.compiled);
  Compiled::OnDevice& place = compiled->places[&d];
  if (!place.fault.defined()) load(*compiled, place, l.kernel, d);
  check_threads(l.kernel.name, place.kernel, l.size);
  KernelArguments arguments;
  std::vector<uint64_t>& words = arguments.words;
  int64_t constant = 0;
  for (size_t t = 0; t < l.views.size(); ++t) {
    GridTensor v = l.views[t];
    if (l.kernel.tensors[t].shared) continue;
    if (l.kernel.tensors[t].constant)
      fill_constant(l.kernel, l.tensors[t], place.kernel, d, v, constant);
    words.push_back(reinterpret_cast<uintptr_t>(v.data));
    const int rank = std::max(v.ndim, 1);
    for (int k = 0; k < rank; ++k) words.push_back(k < v.ndim ? uint64_t(v.size[k]) : 1);
    for (int k = 0; k < rank; ++k) words.push_back(k < v.ndim ? uint64_t(v.stride[k]) : 1);
    arguments.end();
  }
  for (const GridScalar& s : l.scalars) {
    words.push_back(0);
    std::memcpy(&words.back(), &s, sizeof s);
    arguments.end();
  }
  words.push_back(reinterpret_cast<uintptr_t>(place.fault.data()));
  arguments.end();
  queue_kernel(place.kernel, compiled->name, l.size, arguments, d);
  if (reports_synchronously(d)) look_for_fault(compiled, d, l.raise);
  else if (!place.asked) {
    place.asked = true;
    when_done(gpu_of(d), [compiled, &d, raise = l.raise] { look_for_fault(compiled, d, raise); });
  }
  check_device(d);
}

}  // namespace mt
