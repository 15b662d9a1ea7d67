// cuda_kernel.h -- a kernel written in CUDA C: compiled, its arguments checked, launched on a GPU
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/gpu/cuda_signature.h"
#include "engine/gpu/launch.h"

namespace mt {

class CudaKernel {
 public:
  /// Compiles for the GPU called `device`, or for compute capability 9.0 if there is none.
  CudaKernel(CudaSource, const std::string& device);
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;
  ~CudaKernel();

  const std::string& name() const { return source_.name; }
  const std::vector<CudaParameter>& parameters() const { return parameters_; }
  const CudaCode& code() const { return code_; }
  int arch() const { return arch_; }
  /// The kernel as loaded by the GPU's driver; null if there is no GPU.
  const LoadedKernel* loaded() const;
  /// Requires tensors for parameter i to have `rank` dimensions in later launches.
  void set_rank(int i, int rank) { rank_[i] = rank; }
  /// "conv2d_k(float* m, const float* f, int w)"
  std::string text() const;

  /// Checks everything, then queues the kernel. A grid without blocks launches nothing.
  void launch(const LaunchSize&, const std::vector<KernelArgument>&, const DescribeArgument&);
  /// Sets a __constant__ or __device__ variable of the source, in stream order.
  void set_constant(const std::string& name, const Tensor& value);

 private:
  const Device& usable() const;
  const LoadedKernel& load(const Device&);
  const Device& place_of(const Device* tensors) const;
  void check_tensor(int i, const Tensor&, const Device*& device) const;
  uint64_t value_of(int i, const KernelArgument&, const DescribeArgument&) const;
  std::string argument(int i) const;

  CudaSource source_;
  CudaText text_;
  CudaCode code_;
  std::vector<CudaParameter> parameters_;
  std::vector<int> rank_;
  std::string device_, why_;      // the reason if there is no GPU
  const Device* home_ = nullptr;  // the GPU with that name
  int arch_ = 90;
  bool filled_ = false;  // set_constant was called: the values are only on home_
  const char* lasting_name_;
  std::map<const Device*, LoadedKernel> loaded_;
};

}  // namespace mt
